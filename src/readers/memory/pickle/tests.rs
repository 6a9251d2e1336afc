use crate::input::window::tests::torn;
use crate::readers::memory::pickle::{self, Pickle, integer, read};
use crate::readers::memory::pickle::{Known, Part, Sink, Stop, stream};
use crate::readers::memory::value::{self, Arena, Fields, Value};

/// The value of a pickle as JSON, or the code of the fault and where it is.
fn said(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(Pickle { arena, root, .. }) => arena.json(root),
        Err(fault) => format!("{} at {}", fault.code, fault.offset),
    }
}

#[test]
fn every_opcode_of_data_is_read() {
    let cases: [(&[u8], &str); 45] = [
        (b"\x80\x04N.", "null"),
        (b"N.", "null"),
        (b"\x88.", "true"),
        (b"\x89.", "false"),
        (b"J\xff\xff\xff\xff.", "-1"),
        (b"J\x00\x00\x00\x80.", "-2147483648"),
        (b"K\xff.", "255"),
        (b"M\x00\x02.", "512"),
        (b"\x8a\x00.", "0"),
        (b"\x8a\x01\xff.", "-1"),
        (b"\x8a\x02\xff\x00.", "255"),
        (b"\x8a\x06\x00\x00\x00\xd8\xc4\x7f.", "140483414196224"),
        (b"\x8b\x02\x00\x00\x00\x00\x01.", "256"),
        (b"G?\xf8\x00\x00\x00\x00\x00\x00.", "1.5"),
        (b"G\x7f\xf0\x00\x00\x00\x00\x00\x00.", "null"),
        (b"\x8c\x02ab.", "\"ab\""),
        (b"X\x01\x00\x00\x00\".", "\"\\\"\""),
        (b"\x8d\x01\x00\x00\x00\x00\x00\x00\x00a.", "\"a\""),
        (b"\x8c\x01\xff.", "\"\u{fffd}\""),
        (b"C\x01a.", "\"a\""),
        (b"B\x01\x00\x00\x00a.", "\"a\""),
        (b"].", "[]"),
        (b"]K\x01a.", "[1]"),
        (b"](K\x01K\x02e.", "[1,2]"),
        (b"(K\x01K\x02l.", "[1,2]"),
        (b").", "[]"),
        (b"K\x01\x85.", "[1]"),
        (b"K\x01K\x02\x86.", "[1,2]"),
        (b"K\x01K\x02K\x03\x87.", "[1,2,3]"),
        (b"(K\x01t.", "[1]"),
        (b"}.", "{}"),
        (b"}\x8c\x01aK\x01s.", "{\"a\":1}"),
        (b"}(\x8c\x01aK\x01\x8c\x01bNu.", "{\"a\":1,\"b\":null}"),
        (b"(\x8c\x01aK\x01d.", "{\"a\":1}"),
        (b"}K\x07K\x01s.", "{\"7\":1}"),
        (b"NK\x010.", "null"),
        (b"N(0.", "null"),
        (b"N(K\x01K\x021.", "null"),
        (b"]K\x012\x86a.", "[[1,1]]"),
        (b"]\x94h\x00a.", JSON_OF_A_CYCLE),
        (b"K\x05\x94]h\x00a.", "pickle-invalid at 7"),
        (b"](K\x05q\x00h\x00j\x00\x00\x00\x00g0\ne.", "[5,5,5,5]"),
        (b"](K\x05r\x07\x00\x00\x00K\x06p9\nh\x07g9\ne.", "[5,6,5,6]"),
        // What is memoized has the number of those before, not the one behind the greatest.
        (b"](K\x05q\x07K\x06\x94h\x01h\x07e.", "[5,6,6,5]"),
        (b"\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", "null"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(said(bytes), expected, "{}", bytes.escape_ascii());
    }
}

/// A list that holds itself, as far as it is written.
const JSON_OF_A_CYCLE: &str = "[[[[[[[[[[[[[[[[[null]]]]]]]]]]]]]]]]]";

#[test]
fn code_is_refused_by_name_and_nothing_is_read_on() {
    for (opcode, name) in pickle::CODE.into_iter().chain(pickle::UNUSED) {
        let bytes = [b"N(", &[opcode][..], b"builtins\nprint\n"].concat();
        let fault = read(&bytes).err().expect("it is refused");
        assert!(fault.message.contains(name), "{}", fault.message);
        assert_eq!(fault.offset, 2);
    }
    assert_eq!(said(b"cbuiltins\nprint\n(S'pwned'\ntR."), "pickle-code at 0");
    assert_eq!(said(b"\x80\x04\x8c\x02os\x8c\x06system\x93."), "pickle-code at 14");
    assert_eq!(said(b"z"), "pickle-invalid at 0");
}

#[test]
fn every_beginning_of_a_pickle_ends_early() {
    let whole =
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01a](K\x01\x8a\x02\xff\x00eu.";
    assert_eq!(said(whole), "{\"a\":[1,255]}");
    for end in 0..whole.len() {
        assert!(said(&whole[..end]).starts_with("trace-truncated"), "{end}");
    }
    // A value that is whole where the file ends is not what ended early.
    assert_eq!(said(b"\x8c\x01a"), "trace-truncated at 3");
    assert_eq!(said(b"\x8c\x02a"), "trace-truncated at 0");
    let error = read(b"\x8c\x02a").err().map(|fault| fault.error("x.pickle").render("error"));
    assert!(error.is_some_and(|text| text.contains("hint: copy the file again")));
}

#[test]
fn a_disk_that_fails_is_no_damage() {
    let error = Known::of(torn(b"](K\x01"), "x.pickle").expect_err("it cannot be read on");
    assert_eq!(error.code, "file-unreadable");
    assert!(error.render("error").contains("x.pickle, byte 4"), "{}", error.render("error"));
}

#[test]
fn lengths_are_no_promises() {
    for bytes in [
        &b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa."[..],
        b"X\xff\xff\xff\xffa.",
        b"B\xff\xff\xff\x7fa.",
        b"\x8b\xff\xff\xff\x7f\x01.",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
    ] {
        assert_eq!(said(bytes), "trace-truncated at 0", "{}", bytes.escape_ascii());
    }
    assert_eq!(said(b"\x8b\xff\xff\xff\xff\x01."), "pickle-invalid at 0");
}

#[test]
fn a_stack_that_is_misused_is_a_fault() {
    for bytes in [
        &b"."[..],
        b"NN.",
        b"(N.",
        b"0.",
        b"(N0.",
        b"a.",
        b"Na.",
        b"N(a.",
        b"s.",
        b"]NNs.",
        b"}](NNu.",
        b"}(Nu.",
        b"}]Ns.",
        b"}}Ns.",
        b"t.",
        b"\x86.",
        b"N\x86.",
        b"N(N\x86.",
        b"\x94.",
        b"h\x00.",
        b"j\x00\x00\x00\x00.",
        b"gx\n.",
        b"g123456789012345678901234567890\n.",
        b"2.",
        b"\x80\x06N.",
    ] {
        assert!(said(bytes).starts_with("pickle-invalid"), "{}", bytes.escape_ascii());
    }
}

#[test]
fn memory_is_bounded_by_the_file() {
    // A value doubled again and again by reference costs nothing; copies of it would.
    let mut bytes = b"]\x94K\x01a".to_vec();
    for _ in 0..60 {
        bytes.extend(b"2\x86\x942\x94");
    }
    bytes.extend(b"0.");
    assert!(!said(&bytes).is_empty());
    // Half a million empty lists, in a byte each.
    let bytes = [b"](", &[b']'; 500_000][..], b"e."].concat();
    assert!(said(&bytes).starts_with("value-too-large"));
    // Tuples of three are ten cells in four bytes.
    let bytes = [b"(", &b"NNN\x87".repeat(300_000)[..], b"l."].concat();
    assert!(said(&bytes).starts_with("value-too-large"));
    // As many dicts with a key of their own are as large as their text.
    let mut bytes = b"](".to_vec();
    for i in 0..20_000_u32 {
        bytes.extend(b"}J");
        bytes.extend(i.to_le_bytes());
        bytes.extend(b"Ns");
    }
    bytes.extend(b"e.");
    assert!(said(&bytes).starts_with("[{\"0\":null},{\"1\":null}"));
    let deep = [&b"("[..]; 2000].concat();
    assert_eq!(said(&deep), "value-too-large at 1000");
    // Lists in lists without marks need no stack.
    let mut bytes = [&b"]"[..]; 50_000].concat();
    bytes.extend([&b"a"[..]; 49_999].concat());
    bytes.extend(b".");
    assert!(said(&bytes).starts_with("[[[[["));
}

#[test]
fn what_is_shared_stays_shared() {
    let pickle = read(b"](]\x94h\x00h\x00e.").expect("it is read");
    let Value::List(list) = pickle.root else { panic!("a list") };
    assert_eq!(*pickle.arena.items(list), [Value::List(1); 3]);
}

#[test]
fn integers_of_any_width() {
    assert_eq!(integer(&i64::MAX.to_le_bytes()), Value::Int(i64::MAX));
    assert_eq!(integer(&i64::MIN.to_le_bytes()), Value::Int(i64::MIN));
    assert_eq!(integer(&[0xff; 12]), Value::Int(-1));
    assert_eq!(integer(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), Value::Wide);
    assert_eq!(integer(&[0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff]), Value::Wide);
}

#[test]
fn fields_are_found_by_shape_and_the_last_of_equal_keys_counts() {
    let bytes = b"](}(\x8c\x01aK\x01\x8c\x01bK\x02u}(\x8c\x01bK\x03\x8c\x01cK\x04\x8c\x01bK\x05ue.";
    let Pickle { mut arena, root, .. } = read(bytes).expect("it is read");
    let mut fields = Fields::new(&mut arena, ["a", "b", "x"]);
    let mut of = |arena: &Arena, value: Value| {
        let Value::Dict(dict) = value else { panic!("a dict") };
        let (values, rest) = fields.of(arena, dict);
        (values, value::rest_json(arena, dict, rest))
    };
    let Value::List(list) = root else { panic!("a list") };
    let [first, second] = *arena.items(list) else { panic!("two") };
    assert_eq!(of(&arena, first), ([Some(Value::Int(1)), Some(Value::Int(2)), None], None));
    let rest = Some("{\"c\":4}".to_owned());
    assert_eq!(of(&arena, second), ([None, Some(Value::Int(5)), None], rest));
    let Value::Dict(dict) = second else { panic!("a dict") };
    assert_eq!(arena.get(dict, "b"), Some(Value::Int(5)));
}

/// Parts of a snapshot as they came.
#[derive(Default)]
struct Taken {
    parts: Vec<(Part, String)>,
    most: usize,
}

impl Sink for Taken {
    fn take(&mut self, arena: &Arena, part: Part, value: Value) -> crate::error::Result<()> {
        if let Value::Dict(dict) = value {
            self.most = self.most.max(dict as usize);
        }
        self.parts.push((part, arena.json(value)));
        Ok(())
    }
}

/// The parts of a pickle that were taken while it was read, what was left of it, and the largest
/// number of a dict.
fn parts(bytes: &[u8]) -> (Vec<(Part, String)>, String, usize) {
    let again = || Box::new(std::io::Cursor::new(bytes.to_vec()));
    let known = Known::of(again(), "").expect("it can be read");
    let mut taken = Taken::default();
    match stream(again(), known, Arena::default(), Some(&mut taken)) {
        Ok(pickle) => (taken.parts, pickle.arena.json(pickle.root), taken.most),
        Err(Stop::Fault(fault)) => (taken.parts, fault.code.to_owned(), taken.most),
        Err(Stop::Error(error)) => panic!("{error}"),
    }
}

#[test]
fn parts_of_a_snapshot_are_taken_as_they_come_and_forgotten() {
    let part = |part: Part, json: &str| (part, json.to_owned());
    let (s, e) = (Part::Segment, Part::Event);
    // Segments in two batches, a device with one event, one with two.
    let bytes = b"}(\x8c\x08segments](}}\x8c\x01aK\x01se}a\
\x8c\x0ddevice_traces](]}a](}}eeu.";
    let (taken, left, _) = parts(bytes);
    let expected = [
        part(s, "{}"),
        part(s, "{\"a\":1}"),
        part(s, "{}"),
        part(e(0), "{}"),
        part(e(1), "{}"),
        part(e(1), "{}"),
    ];
    assert_eq!(taken, expected);
    assert_eq!(left, "{\"segments\":[],\"device_traces\":[[],[]]}");
    // One device, and keys set one by one.
    let (taken, left, _) = parts(b"}\x8c\x0ddevice_traces]](}K\x07eas\x8c\x08segments]}as.");
    assert_eq!(taken, [part(e(0), "{}"), part(e(0), "7"), part(s, "{}")]);
    assert_eq!(left, "{\"device_traces\":[[]],\"segments\":[]}");
    // Lists elsewhere, under other keys, and those that the pickle refers to again are kept.
    for bytes in [
        &b"](}}e."[..],
        b"}\x8c\x05other](}}es.",
        b"}\x8c\x05other}\x8c\x08segments]}ass.",
        b"}(\x8c\x05other}\x8c\x08segments]}asu.",
        b"}(\x8c\x08segments]\x94}a\x8c\x01ah\x00u.",
        b"}(\x8c\x0ddevice_traces](]\x94}ah\x00eu.",
        b"}\x8c\x0ddevice_traces]\x94]}aah\x000s.",
    ] {
        let (taken, left, _) = parts(bytes);
        assert_eq!((taken.len(), left.contains("{}")), (0, true), "{}", bytes.escape_ascii());
    }
}

#[test]
fn numbers_are_given_again_but_for_what_is_recalled() {
    let event = |frames: &[u8]| [b"}\x8c\x06frames", frames, b"sa"].concat();
    let fresh = event(b"]}\x8c\x04nameK\x01sa");
    let bytes =
        |events: &[u8]| [b"}\x8c\x08segments]s\x8c\x0ddevice_traces]]", events, b"as."].concat();
    let (taken, _, most) = parts(&bytes(&fresh.repeat(1000)));
    assert_eq!((taken.len(), most), (1000, 2));
    let first = event(b"]\x94}\x94\x8c\x04nameK\x01sa");
    let again = event(b"h\x00");
    let (taken, left, most) = parts(&bytes(&[first, again.repeat(1000), fresh].concat()));
    assert_eq!((taken.len(), most), (1002, 1));
    assert!(taken.iter().all(|(_, json)| json == "{\"frames\":[{\"name\":1}]}"), "{taken:?}");
    assert_eq!(left, "{\"segments\":[],\"device_traces\":[[]]}");
}

#[test]
fn what_is_held_at_a_time_has_a_bound() {
    // Numbers that are all held: eight bytes of the file each, so that their number alone counts.
    let item = b"\x8a\x06\x00\x00\x00\x00\x00\x01";
    let bytes = [&b"("[..], &item.repeat((1 << 23) + 1), b"l."].concat();
    let fault = read(&bytes).err().expect("it is too large");
    assert!(fault.message.contains("more than 128 MiB"), "{}", fault.message);
    let bytes =
        [&b"\x8d\x01\x00\x00\x01\x00\x00\x00\x00"[..], &[b'a'; (16 << 20) + 1], b"."].concat();
    assert_eq!(said(&bytes), "value-too-large at 0");
    // Fewer of them, where each three are in a tuple.
    let bytes =
        [b"(", &[&item.repeat(3)[..], b"\x87"].concat().repeat(1_250_000)[..], b"l."].concat();
    assert!(said(&bytes).starts_with("value-too-large"));
    let batch = [&b"("[..], &item.repeat(1000), b"e"].concat();
    let all = batch.repeat((1 << 23) / 1000 + 1);
    let bytes = [b"}\x8c\x0ddevice_traces]]", &all[..], b"as."].concat();
    let (taken, left, _) = parts(&bytes);
    assert!(taken.len() > 1 << 23);
    assert_eq!(left, "{\"device_traces\":[[]]}");
}

#[test]
fn the_most_bytes_of_a_text() {
    let text = |bytes: usize| {
        let length = u32::try_from(bytes).expect("it is short").to_le_bytes();
        said(&[b"X", &length[..], &vec![b'a'; bytes], b"."].concat())
    };
    assert_eq!(text(pickle::MAX_TEXT_BYTES).len(), pickle::MAX_TEXT_BYTES + 2);
    assert_eq!(text(pickle::MAX_TEXT_BYTES + 1), "value-too-large at 0");
}

#[test]
fn large_numbers_of_the_memo_are_always_kept() {
    let mut known = Known::default();
    let most = pickle::MAX_KNOWN;
    for number in [7, 64, most] {
        known.add(number);
    }
    let has = |number| known.has(number);
    assert_eq!(
        [6, 7, 64, 65, 128, most - 1, most].map(has),
        [false, true, true, false, false, false, true]
    );
    assert_eq!(known.recalled.len(), 2);
    known.add(most - 1);
    assert_eq!([most - 2, most - 1].map(|number| known.has(number)), [false, true]);
}

#[test]
fn a_number_of_the_memo_has_at_most_twenty_bytes() {
    let of = |digits: usize| said(format!("g{}", "1".repeat(digits)).as_bytes());
    assert_eq!([19, 20].map(of), ["trace-truncated at 0", "pickle-invalid at 0"]);
}

#[test]
fn what_lies_below_a_mark_is_not_looked_at() {
    assert_eq!(said(b"K\x05q\x00."), "5");
    assert_eq!(said(b"K\x05(q\x00."), "pickle-invalid at 3");
    assert_eq!(said(b"K\x052a."), "pickle-invalid at 3");
}

#[test]
fn a_text_that_is_said_again_takes_no_more_room() {
    let text = b"\x8c\x1eabcdefghijklmnopqrstuvwxyz0123";
    let texts = |times: usize| {
        let bytes = [&b"]("[..], &text.repeat(times), b"e."].concat();
        read(&bytes).map(|pickle| pickle.arena.texts()).map_err(|fault| fault.message)
    };
    assert_eq!(texts((1 << 23) / 5), texts(1));
    assert!(texts(1).is_ok());
}
