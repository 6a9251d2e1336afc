//! Payloads of NVTX ranges: binary data that a schema in the same file describes.
//!
//! NCCL says in them what its calls are about: communicator, message size, root or peer, rank.
//! Fields are found by their names, because ids and places change between its versions.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::readers::nsys::database::{Database, int, text};

/// Schemas and fields that are read at most: real files hold some tens.
const MAX_ENTRIES: usize = 20_000;
/// A message that is larger is none.
const MAX_MESSAGE_BYTES: i64 = 1 << 50;
/// Bytes before the payload: domain, schema, size, and where the payload starts.
const HEADER_BYTES: usize = 32;

/// The types of fields that are decoded, by their numbers in NVTX's extension for payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int32,
    Uint32,
    Int64,
    Uint64,
}

impl Type {
    fn of(number: i64) -> Option<Self> {
        Some(match number {
            5 | 15 => Self::Int32,
            6 | 16 => Self::Uint32,
            17 => Self::Int64,
            18 | 22 => Self::Uint64,
            // Schemas of enumerations are numbered from 2^24 on; their values are C's `int`.
            n if n >= 1 << 24 => Self::Int32,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Uint64 => 8,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    /// None for a type that is not decoded.
    ty: Option<Type>,
    offset: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Schema {
    bytes: usize,
    fields: Vec<Field>,
}

/// The payload schemas of a file.
#[derive(Debug, Default)]
pub struct Schemas {
    /// By domain and schema; None where the file defines one twice, and not alike.
    by_id: BTreeMap<(i64, i64), Option<Schema>>,
}

/// What a payload of NCCL says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The communicator: the same number on all its ranks.
    pub communicator: Option<i64>,
    /// "Message size [bytes]".
    pub bytes: Option<i64>,
    /// Root or peer.
    pub other_rank: Option<i64>,
    /// Ranks of the communicator.
    pub ranks: Option<i64>,
    /// Own rank in it.
    pub rank: Option<i64>,
    /// CUDA device.
    pub device: Option<i64>,
    /// Every field, by its name, as recorded.
    pub fields: Vec<(String, String)>,
}

impl Schemas {
    /// Reads the schemas of a file; none where it has no table of them.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn read(database: &Database) -> Result<Self> {
        let mut sizes: BTreeMap<(i64, i64), Vec<usize>> = BTreeMap::new();
        database.each(
            "NVTX_PAYLOAD_SCHEMAS",
            &["domainId", "schemaId", "payloadSize"],
            "",
            MAX_ENTRIES,
            |row| {
                if let (Some(domain), Some(schema)) = (int(row, 0), int(row, 1)) {
                    let bytes = int(row, 2).and_then(|b| usize::try_from(b).ok()).unwrap_or(0);
                    sizes.entry((domain, schema)).or_default().push(bytes);
                }
                Ok(())
            },
        )?;
        // The same schema comes once for each process: the fields of each place, without repeats.
        let mut fields: BTreeMap<(i64, i64), BTreeMap<i64, Vec<Field>>> = BTreeMap::new();
        database.each(
            "NVTX_PAYLOAD_SCHEMA_ENTRIES",
            &["domainId", "schemaId", "idx", "type", "name", "offset"],
            "",
            MAX_ENTRIES,
            |row| {
                let (Some(domain), Some(schema), Some(place)) =
                    (int(row, 0), int(row, 1), int(row, 2))
                else {
                    return Ok(());
                };
                // No offset at the first place is 0; later it would be up to the alignment.
                let offset = int(row, 5).or((place == 0).then_some(0));
                let field = Field {
                    name: text(row, 4).unwrap_or_default(),
                    ty: offset.and(int(row, 3)).and_then(Type::of),
                    offset: offset.and_then(|o| usize::try_from(o).ok()).unwrap_or(0),
                };
                let of_place =
                    fields.entry((domain, schema)).or_default().entry(place).or_default();
                if !of_place.contains(&field) {
                    of_place.push(field);
                }
                Ok(())
            },
        )?;
        let mut by_id = BTreeMap::new();
        for (id, mut sizes) in sizes {
            sizes.dedup();
            let places = fields.remove(&id).unwrap_or_default();
            let alike = sizes.len() == 1 && places.values().all(|of| of.len() == 1);
            let fields = places.into_values().flatten().collect();
            by_id.insert(id, alike.then(|| Schema { bytes: sizes[0], fields }));
        }
        Ok(Self { by_id })
    }

    /// Whether the file describes any payload.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn of(&self, domain: i64, schema: i64) -> Option<&Schema> {
        self.by_id.get(&(domain, schema))?.as_ref()
    }

    /// What the payload of a range of this domain says; None when it does not fit its schema.
    pub fn decode(&self, domain: i64, blob: &[u8]) -> Option<Payload> {
        let word = |at: usize| -> Option<i64> {
            Some(i64::from_le_bytes(blob.get(at..at + 8)?.try_into().ok()?))
        };
        let (said, schema, bytes, place) = (word(0)?, word(8)?, word(16)?, word(24)?);
        let bytes = usize::try_from(bytes).ok()?;
        let end = HEADER_BYTES.checked_add(bytes)?;
        let place = usize::try_from(place).ok()?;
        if (place != HEADER_BYTES && place != end) || blob.len() < end {
            return None;
        }
        let schema = self.of(domain, schema).or_else(|| self.of(said, schema))?;
        if bytes < schema.bytes {
            return None;
        }
        let payload = &blob[HEADER_BYTES..end];
        let mut out = Payload::default();
        for field in &schema.fields {
            let Some(ty) = field.ty else { continue };
            let raw = payload.get(field.offset..field.offset.checked_add(ty.bytes())?)?;
            let (value, shown) = match ty {
                Type::Int32 => {
                    let value = i64::from(i32::from_le_bytes(raw.try_into().ok()?));
                    (value, value.to_string())
                }
                Type::Uint32 => {
                    let value = i64::from(u32::from_le_bytes(raw.try_into().ok()?));
                    (value, value.to_string())
                }
                Type::Int64 => {
                    let value = i64::from_le_bytes(raw.try_into().ok()?);
                    (value, value.to_string())
                }
                Type::Uint64 => {
                    let value = u64::from_le_bytes(raw.try_into().ok()?);
                    (value as i64, value.to_string())
                }
            };
            let name = field.name.to_lowercase();
            let natural = Some(value).filter(|v| *v >= 0);
            match name.trim() {
                // ncclCommSplit names the communicator that it splits, too.
                n if n.contains("parent") => {}
                n if n.contains("communicator") => out.communicator = Some(value),
                n if n.starts_with("message size") => {
                    out.bytes = natural.filter(|bytes| *bytes <= MAX_MESSAGE_BYTES);
                }
                n if n.starts_with("root") || n.starts_with("peer") => out.other_rank = natural,
                "no. of ranks" => out.ranks = natural.filter(|n| *n <= 1 << 24),
                "rank" => out.rank = natural.filter(|n| *n < 1 << 24),
                "cuda device" => out.device = natural,
                _ => {}
            }
            out.fields.push((field.name.clone(), shown));
        }
        Some(out)
    }
}

/// The bytes of a column that is declared as text: a blob, or the digits of one.
pub fn bytes_of_digits(digits: &[u8]) -> Option<Vec<u8>> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|n| n as u8);
    digits.chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, ty: i64, offset: usize) -> Field {
        Field { name: name.to_owned(), ty: Type::of(ty), offset }
    }

    /// The schemas of NCCL 2.27 for AllGather, AllReduce and CommInitRankConfig, in domain 1.
    fn nccl() -> Schemas {
        let comm = || field("NCCL communicator ID", 18, 0);
        let size = || field("Message size [bytes]", 18, 8);
        let base = 1 << 24;
        Schemas {
            by_id: [
                (4, 16, vec![comm(), size()]),
                (5, 24, vec![comm(), size(), field("Reduction operation", base + 16, 16)]),
                (9, 24, vec![comm(), size(), field("Peer rank", 5, 16)]),
                (
                    11,
                    24,
                    vec![
                        comm(),
                        field("No. of ranks", 5, 8),
                        field("Rank", 5, 12),
                        field("CUDA device", 5, 16),
                    ],
                ),
            ]
            .into_iter()
            .map(|(id, bytes, fields)| ((1, base + id), Some(Schema { bytes, fields })))
            .collect(),
        }
    }

    fn blob(header: &str, payload: &str) -> Vec<u8> {
        bytes_of_digits(format!("{header}{payload}").as_bytes()).expect("they are digits")
    }

    #[test]
    fn payloads_of_nccl() {
        let schemas = nccl();
        let header = "0100000000000000 0400000100000000 1000000000000000 2000000000000000";
        let all_gather = blob(&header.replace(' ', ""), "efcdab89674523010000100000000000");
        let said = schemas.decode(1, &all_gather).expect("it fits");
        assert_eq!(said.communicator, Some(0x0123_4567_89ab_cdef));
        assert_eq!(said.bytes, Some(1_048_576));
        // The last word of the header may be the end.
        let mut other = all_gather.clone();
        other[24] = 48;
        assert_eq!(schemas.decode(1, &other), Some(said.clone()));
        // The domain of the range has another number than the header says.
        assert_eq!(schemas.decode(7, &all_gather), Some(said));
        let send = blob(
            "01000000000000000900000100000000 18000000000000002000000000000000"
                .replace(' ', "")
                .as_str(),
            "efcdab89674523f1000001000000000001000000 00000000".replace(' ', "").as_str(),
        );
        let said = schemas.decode(1, &send).expect("it fits");
        assert_eq!((said.bytes, said.other_rank), (Some(65536), Some(1)));
        assert_eq!(said.fields[0].1, 0xf123_4567_89ab_cdef_u64.to_string());
        let init = blob(
            "01000000000000000b00000100000000 18000000000000002000000000000000"
                .replace(' ', "")
                .as_str(),
            "efcdab8967452301080000000100000001000000 00000000".replace(' ', "").as_str(),
        );
        let said = schemas.decode(1, &init).expect("it fits");
        assert_eq!((said.ranks, said.rank, said.device), (Some(8), Some(1), Some(1)));
        // 2^24 ranks are the most, and the last of them is one less.
        let of = |ranks: [u8; 4], rank: [u8; 4]| {
            let mut bytes = init.clone();
            let at = bytes.len() - 16;
            bytes[at..at + 4].copy_from_slice(&ranks);
            bytes[at + 4..at + 8].copy_from_slice(&rank);
            let said = schemas.decode(1, &bytes).expect("it fits");
            (said.ranks, said.rank)
        };
        let most = 1 << 24;
        assert_eq!(of([0, 0, 0, 1], [255, 255, 255, 0]), (Some(most), Some(most - 1)));
        assert_eq!(of([1, 0, 0, 1], [0, 0, 0, 1]), (None, None));
        let reduce = blob(
            "01000000000000000500000100000000 18000000000000002000000000000000"
                .replace(' ', "")
                .as_str(),
            "efcdab8967452301001000000000000002000000 00000000".replace(' ', "").as_str(),
        );
        let said = schemas.decode(1, &reduce).expect("it fits");
        assert_eq!(said.fields[2], ("Reduction operation".to_owned(), "2".to_owned()));
    }

    #[test]
    fn what_does_not_fit_is_not_decoded() {
        let schemas = nccl();
        let good = blob(
            "0100000000000000040000010000000010000000000000002000000000000000",
            "efcdab89674523010000100000000000",
        );
        for (at, byte) in [(8, 99), (16, 200), (16, 8), (24, 7), (23, 0x7f), (31, 0x7f)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(schemas.decode(1, &bad), None, "byte {at}");
        }
        for length in 0..good.len() {
            assert_eq!(schemas.decode(1, &good[..length]), None, "{length} bytes");
        }
        assert!(Schemas::default().decode(1, &good).is_none());
    }

    #[test]
    fn digits_of_blobs() {
        assert_eq!(bytes_of_digits(b"0aFF"), Some(vec![10, 255]));
        assert_eq!(bytes_of_digits(b"0x0a"), Some(vec![10]));
        assert_eq!(bytes_of_digits(b"0a0"), None);
        assert_eq!(bytes_of_digits(b"zz"), None);
        assert_eq!(bytes_of_digits(b""), None);
    }

    #[test]
    fn the_largest_message() {
        let schemas = nccl();
        let of = |bytes: i64| {
            let header = "0100000000000000040000010000000010000000000000002000000000000000";
            let mut blob = blob(header, "efcdab89674523010000000000000000");
            let at = blob.len() - 8;
            blob[at..].copy_from_slice(&bytes.to_le_bytes());
            schemas.decode(1, &blob).expect("it fits").bytes
        };
        let most = MAX_MESSAGE_BYTES;
        assert_eq!((of(most), of(most + 1), of(-1)), (Some(most), None, None));
    }

    #[test]
    fn a_schema_that_processes_say_in_two_ways_is_not_known() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("job.sqlite");
        let connection = rusqlite::Connection::open(&path).expect("SQLite starts");
        connection
            .execute_batch(
                "CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId INT, schemaId INT, payloadSize INT);
                INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES
                    (1, 4, 8), (1, 4, 8), (1, 5, 8), (1, 5, 16), (1, 6, 8), (1, 6, 8);
                CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INT, schemaId INT, idx INT,
                    type INT, name TEXT, offset INT);
                INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
                    (1, 4, 0, 18, 'id', 0), (1, 4, 0, 18, 'id', 0),
                    (1, 5, 0, 18, 'id', 0), (1, 5, 0, 18, 'id', 0),
                    (1, 6, 0, 18, 'id', 0), (1, 6, 0, 18, 'size', 0);",
            )
            .expect("the tables can be made");
        let database = Database::open(&path, "job.sqlite").expect("it is a database");
        let schemas = Schemas::read(&database).expect("it can be read");
        let known: Vec<bool> = schemas.by_id.values().map(Option::is_some).collect();
        assert_eq!(known, [true, false, false]);
    }
}
