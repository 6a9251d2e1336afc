//! Reports (`.nsys-rep`): a format that only `nsys` itself reads, so it is asked to export them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Error, Result, io};
use crate::input::progress::Watcher;

/// Exports a report into an SQLite database.
///
/// # Errors
/// `nsys-missing` when there is no `nsys`, `nsys-unusable` when it fails, `interrupted`.
pub fn export(report: &Path, to: &Path, shown: &str, watcher: &Watcher) -> Result<()> {
    watcher.tell(|w| w.phase("nsys export"));
    // Older versions have no blobs, and know no word for them.
    let mut said = String::new();
    for extra in [&["--include-blobs=true"][..], &[]] {
        // `nsys` may leave half a file behind.
        let _ = std::fs::remove_file(to);
        let log = to.with_extension("log");
        let file = std::fs::File::create(&log).map_err(|e| io(&log, &e))?;
        let both = file.try_clone().map_err(|e| io(&log, &e))?;
        let child = Command::new("nsys")
            .args(["export", "--type", "sqlite", "--force-overwrite", "true"])
            .args(extra)
            .arg("--output")
            .arg(to)
            // A name that starts with a dash is no option.
            .arg(std::path::absolute(report).map_err(|e| io(report, &e))?)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both)
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::new(
                    "nsys-missing",
                    "a report of Nsight Systems can be read only by `nsys`, and it is not on the PATH",
                )
                .at(shown)
                .hint(format!(
                    "run where it is installed: nsys export --type sqlite --include-blobs=true {}",
                    Path::new(shown).file_name().unwrap_or_default().to_string_lossy()
                )));
            }
            Err(e) => {
                return Err(
                    Error::new("nsys-unusable", format!("cannot run `nsys`: {e}")).at(shown)
                );
            }
        };
        let status = loop {
            let cannot =
                |e| Error::new("nsys-unusable", format!("cannot wait for `nsys`: {e}")).at(shown);
            let ended = watcher.go_on().and_then(|()| child.try_wait().map_err(cannot));
            match ended {
                Ok(Some(status)) => break status,
                Ok(None) => std::thread::sleep(Duration::from_millis(50)),
                Err(error) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(error);
                }
            }
        };
        let text = std::fs::read(&log).unwrap_or_default();
        let _ = std::fs::remove_file(&log);
        if status.success() && to.is_file() {
            return Ok(());
        }
        let tail = &text[text.len().saturating_sub(2000)..];
        let tail = String::from_utf8_lossy(tail);
        said = tail.lines().rfind(|l| !l.trim().is_empty()).unwrap_or_default().trim().to_owned();
        said = format!("{status}: {said}");
    }
    Err(Error::new("nsys-unusable", "`nsys export` failed")
        .at(shown)
        .facts(said)
        .hint("the report may be of a newer version than this `nsys`; export it where it was made"))
}
