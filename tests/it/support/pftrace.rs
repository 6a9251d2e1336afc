//! Reads Perfetto's packets by the numbers of their fields alone, so that a mistake of the writer
//! is not made twice: events on tracks, with the numbers that they carry.

use std::collections::HashMap;

/// A field of a message.
pub enum Field<'a> {
    /// A number.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message, in their order.
///
/// # Panics
/// When it is none.
pub fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight"))),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                Field::Bytes(take(&mut bytes, length))
            }
            other => panic!("wire type {other}"),
        };
        out.push((key >> 3, field));
    }
    out
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    head
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Names of tracks, by their numbers.
    pub tracks: HashMap<u64, String>,
    /// Numbers of the tracks that others lie below.
    pub parents: HashMap<u64, u64>,
    /// Slices: track, start, duration, name.
    pub slices: Vec<(u64, u64, u64, String)>,
    /// Names of instants.
    pub instants: Vec<String>,
    /// Arrows that leave, and that arrive.
    pub arrows: (Vec<u64>, Vec<u64>),
}

/// Reads a file, whose packets are in the order of time on each track.
///
/// # Panics
/// When it is none, or slices do not nest.
pub fn read(bytes: &[u8]) -> Timeline {
    let mut out = Timeline::default();
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut open: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a name is UTF-8");
    for (number, packet) in fields(bytes) {
        let (1, Field::Bytes(packet)) = (number, packet) else { panic!("no packet") };
        let (mut ts, mut event) = (0, None);
        for (number, field) in fields(packet) {
            match (number, field) {
                (8, Field::Number(time)) => ts = time,
                (12, Field::Bytes(interned)) => {
                    for (kind, entry) in fields(interned) {
                        let Field::Bytes(entry) = entry else { panic!("no entry") };
                        if let (2, [(1, Field::Number(id)), (2, Field::Bytes(name))]) =
                            (kind, &fields(entry)[..])
                        {
                            names.insert(*id, text(name));
                        }
                    }
                }
                (60, Field::Bytes(track)) => track_of(&mut out, track),
                (11, Field::Bytes(bytes)) => event = Some(bytes),
                _ => {}
            }
        }
        let Some(event) = event else { continue };
        let (mut kind, mut track, mut name) = (0, 0, String::new());
        for (number, field) in fields(event) {
            match (number, field) {
                (9, Field::Number(of)) => kind = of,
                (10, Field::Number(id)) => name.clone_from(&names[&id]),
                (11, Field::Number(of)) => track = of,
                (23, Field::Bytes(of)) => name = text(of),
                (47, Field::Number(arrow)) => out.arrows.0.push(arrow),
                (48, Field::Number(arrow)) => out.arrows.1.push(arrow),
                _ => {}
            }
        }
        assert!(out.tracks.contains_key(&track), "an event on no track");
        let open = open.entry(track).or_default();
        match kind {
            1 => open.push((ts, name)),
            2 => {
                let (start, name) = open.pop().expect("a slice was begun");
                out.slices.push((track, start, ts - start, name));
            }
            3 => out.instants.push(name),
            4 => {}
            other => panic!("an event of type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "a slice without an end");
    out
}

/// The packets of a file as text, a line each: numbers of fields with their values. Bytes are text
/// where a person could read them, and else a message.
///
/// # Panics
/// When it is no such file.
pub fn as_text(bytes: &[u8]) -> Vec<String> {
    fn message(bytes: &[u8]) -> String {
        let field = |(number, field): (u64, Field<'_>)| match field {
            Field::Number(value) => format!("{number}: {value}"),
            Field::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.chars().any(char::is_control) => format!("{number}: {text:?}"),
                _ => format!("{number}: {{{}}}", message(bytes)),
            },
        };
        fields(bytes).into_iter().map(field).collect::<Vec<_>>().join(", ")
    }
    let packet = |(number, packet)| {
        let (1, Field::Bytes(packet)) = (number, packet) else { panic!("no packet") };
        message(packet)
    };
    fields(bytes).into_iter().map(packet).collect()
}

/// Adds a track: its number and name, or that of its thread or process.
fn track_of(out: &mut Timeline, track: &[u8]) {
    let (mut id, mut parent, mut name) = (0, None, String::new());
    for (number, field) in fields(track) {
        match (number, field) {
            (1, Field::Number(of)) => id = of,
            (2, Field::Bytes(of)) => name = String::from_utf8(of.to_vec()).expect("UTF-8"),
            (5, Field::Number(of)) => parent = Some(of),
            (3 | 4, Field::Bytes(of)) => {
                for (number, field) in fields(of) {
                    if let (5 | 6, Field::Bytes(of)) = (number, field) {
                        name = String::from_utf8(of.to_vec()).expect("UTF-8");
                    }
                }
            }
            _ => {}
        }
    }
    out.parents.extend(parent.map(|parent| (id, parent)));
    assert!(out.tracks.insert(id, name).is_none(), "a track stands twice");
}
