//! Samples of NVLink's counters, as a loop over `nvmlDeviceGetFieldValues` writes them (magic
//! `NVF1`).
//!
//! The layout, little-endian: a header of 12 bytes (magic, version as u16, bytes of a field as u16,
//! bytes of the host's time as i32), then samples of the host's monotonic time in ns (u64) and one
//! `nvmlFieldValue_t` of 40 bytes: field (u32), scope (u32, the link), time in us since 1970 (i64),
//! latency (i64), type of the value (u32), return code (i32), value (8 bytes). Source: nvml.h, and
//! the public tools that write and read these files.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::Result;
use crate::input::place;
use crate::readers::contract::{Answer, Reading};
use crate::readers::log::{Log, Severity};
use crate::readers::share::Share;
use crate::schema::table;
use crate::spool::parquet::TableWriter;
use crate::spool::totals::{Totals, widen};

/// First bytes of such a file.
pub const MAGIC: &[u8; 4] = b"NVF1";

const HEADER_BYTES: usize = 12;
const VERSION: u16 = 1;
const FIELD_BYTES: u16 = 40;
const HOST_TIME_BYTES: i32 = 8;
const SAMPLE_BYTES: usize = 48;
/// Samples that are read at a time.
const CHUNK_SAMPLES: usize = 4096;

/// `NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX` and `_RX`: KiB of user data since the driver started.
const DIRECTIONS: [(u32, &str); 2] = [(138, "tx"), (139, "rx")];
/// The scope that stands for all links together.
const ALL_LINKS: u32 = u32::MAX;
/// More links than any device has.
const MAX_LINKS: u32 = 1024;

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a sample is long enough")
}

/// The value of a field by its type (`nvmlValueType_t`).
fn value(kind: u32, bytes: [u8; 8]) -> Option<f64> {
    let short = array::<4>(&bytes, 0);
    Some(match kind {
        0 => f64::from_le_bytes(bytes),
        1 => f64::from(u32::from_le_bytes(short)),
        2 | 3 => u64::from_le_bytes(bytes) as f64,
        4 => i64::from_le_bytes(bytes) as f64,
        5 => f64::from(i32::from_le_bytes(short)),
        6 => f64::from(u16::from_le_bytes(array(&bytes, 0))),
        _ => return None,
    })
    .filter(|value| value.is_finite())
}

/// Reads as much as there is behind `from`, up to `most` bytes; the byte at which that ends.
fn fill(
    reader: &mut dyn Read,
    buffer: &mut Vec<u8>,
    most: usize,
    from: u64,
    shown: &str,
) -> Result<u64> {
    buffer.clear();
    let read = reader.take(most as u64).read_to_end(buffer);
    let end = from + buffer.len() as u64;
    read.map(|_| end).map_err(|e| place::broken(&e, shown, end))
}

/// Reads samples into `counters`; what the file is, where it is none.
///
/// # Errors
/// `trace-truncated`, `gzip-broken`, `file-unreadable`; `io`.
pub(super) fn read(
    reading: &Reading<'_>,
    mut reader: Box<dyn Read + Send>,
    folder: &Path,
) -> Result<Result<Share, Answer>> {
    let shown = reading.place.display();
    let (mut totals, mut log, mut buffer) = (Totals::default(), Log::default(), Vec::new());
    let mut bytes = fill(&mut reader, &mut buffer, HEADER_BYTES, 0, &shown)?;
    if buffer.len() < HEADER_BYTES {
        return Ok(Err(Answer::other("samples of NVML whose header is cut")));
    }
    let layout = (
        u16::from_le_bytes(array(&buffer, 4)),
        u16::from_le_bytes(array(&buffer, 6)),
        i32::from_le_bytes(array(&buffer, 8)),
    );
    if layout != (VERSION, FIELD_BYTES, HOST_TIME_BYTES) {
        let (version, field, time) = layout;
        return Ok(Err(Answer::other(format!(
            "samples of NVML in a form that is not known (version {version}, fields of {field} bytes, times of {time})"
        ))));
    }
    let device = reading.said.device;
    // A file of samples is of one device; where its name does not say which, its number tells its
    // series from those of other files.
    let apart = match device {
        Some(_) => String::new(),
        None => format!("@{}", reading.source_id),
    };
    let counters = table("counters").expect("the table is in the schema");
    let path = folder.join("counters.parquet");
    let mut writer = TableWriter::new(counters, &["source", "rank"], path);
    let mut names: BTreeMap<(u32, u32), String> = BTreeMap::new();
    loop {
        let (most, from) = (SAMPLE_BYTES * CHUNK_SAMPLES, bytes);
        bytes = fill(&mut reader, &mut buffer, most, from, &shown)?;
        for (place, sample) in buffer.chunks_exact(SAMPLE_BYTES).enumerate() {
            let number = |at: usize| u32::from_le_bytes(array(sample, at));
            let field = (number(8), number(12));
            let time = i64::from_le_bytes(array(sample, 16)).checked_mul(1000);
            let value = value(number(32), array(sample, 40)).filter(|_| number(36) == 0);
            let is_link = field.1 < MAX_LINKS || field.1 == ALL_LINKS;
            let direction = DIRECTIONS.iter().find(|(id, _)| *id == field.0 && is_link);
            let (Some((_, direction)), Some(time), Some(value)) =
                (direction, time.filter(|time| *time > 0), value)
            else {
                totals.skipped += 1;
                let offset = from + (place * SAMPLE_BYTES) as u64;
                log.add(Severity::Loss, "nvml-sample", Some(offset), || {
                    "samples of NVML without a time or a value, or of another field than the bytes of NVLink; left out"
                        .to_owned()
                });
                continue;
            };
            let name = names.entry(field).or_insert_with(|| match field.1 {
                ALL_LINKS => format!("nvlink.{direction}.all{apart}"),
                link => format!("nvlink.{direction}.{link}{apart}"),
            });
            let row = writer.row();
            row.int(Some(time)).text(Some(name)).int(device).double(Some(value)).text(Some("KiB"));
            writer.end_row()?;
            totals.events += 1;
            widen(&mut totals.span_ns, time, time);
        }
        if buffer.len() % SAMPLE_BYTES > 0 {
            // Whoever writes such a file is stopped by a signal.
            log.add(Severity::Loss, "nvml-cut", Some(bytes), || {
                "the last sample of NVML is cut; left out".to_owned()
            });
        }
        if buffer.len() < most {
            break;
        }
    }
    let mut spool = BTreeMap::new();
    spool.extend(writer.finish()?.map(|path| ("counters", path)));
    Ok(Ok(Share { totals, log, spool, bytes, ..Share::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_their_types() {
        let le = |n: u64| n.to_le_bytes();
        assert_eq!(value(3, le(7 << 33)), Some((7u64 << 33) as f64));
        assert_eq!(value(1, le(7 << 33 | 5)), Some(5.0));
        assert_eq!(value(5, le(u64::MAX)), Some(-1.0));
        assert_eq!(value(6, le(0x1_0002)), Some(2.0));
        assert_eq!(value(0, 1.5f64.to_le_bytes()), Some(1.5));
        assert_eq!(value(0, f64::NAN.to_le_bytes()), None);
        assert_eq!(value(9, le(1)), None);
    }
}
