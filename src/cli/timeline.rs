//! The place that a timeline is written to, piece by piece: a file that appears whole, packed where
//! its name ends in `.gz`, or standard output.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::cli::context::Context;
use crate::error::{Error, Result};
use crate::export::{Counts, Form, Sink};
use crate::report::Format;
use crate::report::staged::{Staged, failed, synced};

/// The form of a timeline, where a format is one.
pub fn form(format: Format) -> Option<Form> {
    match format {
        Format::Perfetto => Some(Form::Perfetto),
        Format::Chrome => Some(Form::Chrome),
        _ => None,
    }
}

/// Where bytes go.
enum To<'f> {
    File(&'f File),
    /// The fastest level: the bytes are many, and pack to a fifth with any.
    Packed(Box<GzEncoder<&'f File>>),
    /// Whether anybody still reads it.
    Stdout(bool),
}

impl Write for To<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Packed(packed) => packed.write(bytes),
            Self::Stdout(false) => Ok(bytes.len()),
            Self::Stdout(open) => match std::io::stdout().write(bytes) {
                // The reader has what it wants: a quiet success.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    *open = false;
                    Ok(bytes.len())
                }
                other => other,
            },
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Packed(packed) => packed.flush(),
            Self::Stdout(false) => Ok(()),
            Self::Stdout(true) => match std::io::stdout().flush() {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
                other => other,
            },
        }
    }
}

/// Writes a file that appears when `write` is done with it.
///
/// # Errors
/// `output-exists`, `io`, and those of `write`.
pub fn file<T>(
    staged: &mut Staged,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let file = staged.open(path)?;
    let is_packed = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    let mut to = match is_packed {
        true => To::Packed(Box::new(GzEncoder::new(&file, Compression::fast()))),
        false => To::File(&file),
    };
    let out = write(&mut to)?;
    if let To::Packed(packed) = to {
        packed.finish().map_err(|e| failed(path, &e))?;
    }
    synced(path, &file).map_err(|e| failed(path, &e))?;
    Ok(out)
}

/// Writes a timeline to the place that `-o` names.
///
/// # Errors
/// `output-exists`, `io`, and those of `write`.
pub fn write<T>(
    context: &Context,
    form: Form,
    epoch_ns: Option<u64>,
    write: impl FnOnce(&mut dyn Sink) -> Result<T>,
) -> Result<T> {
    let path = context.global.output.as_deref().filter(|p| p.as_os_str() != "-");
    let Some(path) = path else {
        return write(&mut *form.sink(To::Stdout(true), epoch_ns)?);
    };
    let mut staged = Staged::new(context.global.force);
    let out = file(&mut staged, path, |to| write(&mut *form.sink(to, epoch_ns)?))?;
    staged.commit()?;
    context.printer.note(&format!("wrote {}", path.display()));
    Ok(out)
}

/// Says what a timeline holds, and what it could not hold.
pub fn note(context: &Context, counts: &Counts) {
    let Counts { slices, instants, samples, tracks, arrows, .. } = counts;
    context.printer.note(&format!(
        "{tracks} tracks: {slices} slices, {instants} instants, {samples} samples, {arrows} arrows"
    ));
    if counts.flattened > 0 {
        context.printer.note(&format!(
            "warning: {} slices overlap with too many others, and are instants with dur_ns",
            counts.flattened
        ));
    }
    if counts.samples_left_out > 0 {
        context.printer.note(&format!(
            "warning: {} samples of counters are no finite numbers, and are left out",
            counts.samples_left_out
        ));
    }
}

/// The error of a timeline that is of several traces.
pub fn one_trace(traces: &[String]) -> Result<&String> {
    let [trace] = traces else {
        let message = format!("a timeline is of one trace, and there are {}", traces.len());
        return Err(Error::new("usage", message)
            .facts(traces.join(", "))
            .hint("name one with --trace"));
    };
    Ok(trace)
}
