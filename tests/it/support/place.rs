//! A folder for the files of a trace, and the data directory that the program makes of them.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Csv, Run, Tables, nvlink, pickles, run, xspace};

/// A folder for the files of a trace and a data directory beside it.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("in")).expect("a temporary folder");
        Self { folder }
    }

    /// A place with one trace from elsewhere, which is named `job`.
    ///
    /// # Panics
    /// When it cannot be ingested.
    pub fn of(path: &Path) -> Self {
        let place = Self::new();
        place.run(&["ingest", &path.to_string_lossy(), "--name", "job", "-q"]).done();
        place
    }

    /// The folder in which the files of the trace lie, and commands run.
    pub fn input(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    /// Writes a file of the trace.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.input().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("the file can be written");
        self
    }

    /// Writes a script that may run; where it is.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.input().join(name);
        self.write(name, script);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        path
    }

    /// Makes a database out of statements.
    ///
    /// # Panics
    /// When they fail.
    pub fn database(&self, name: &str, sql: &str) {
        let path = self.input().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        let connection = rusqlite::Connection::open(&path).expect("SQLite starts");
        connection.execute_batch(sql).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    /// Writes a file of a case, which is text that some names make into something else:
    ///
    /// - `<name>.sqlite.sql`: a database as statements,
    /// - `<name>.xplane.pb.json`: a profile of XLA (see [`xspace`]),
    /// - `<name>.pickle.json`: a memory snapshot (see [`pickles`]),
    /// - `<name>.bin.json`: samples of NVLink (see [`nvlink`]),
    /// - `<name>.gz.json`: packed.
    ///
    /// # Panics
    /// When it does not describe one.
    pub fn file(&self, name: &str, bytes: &[u8]) {
        let text = || std::str::from_utf8(bytes).expect("the case is UTF-8");
        if let Some(database) = name.strip_suffix(".sql") {
            return self.database(database, text());
        }
        match name.strip_suffix(".json") {
            Some(made) if made.ends_with(".xplane.pb") => {
                self.write(made, xspace::encode(text()));
            }
            Some(made) if made.ends_with(".xplane.pb.gz") => {
                self.write(made, gzip(&xspace::encode(text())));
            }
            Some(made) if made.ends_with(".pickle") => {
                self.write(made, pickles::encode(text()));
            }
            Some(made) if made.ends_with(".pickle.gz") => {
                self.write(made, gzip(&pickles::encode(text())));
            }
            Some(made) if made.ends_with(".bin") => {
                self.write(made, nvlink::encode(text()));
            }
            Some(made) if made.ends_with(".gz") => drop(self.write(made, gzip(bytes))),
            _ => drop(self.write(name, bytes)),
        }
    }

    /// Runs the program in the folder of the files.
    pub fn run(&self, args: &[&str]) -> Run {
        run(&self.input(), &[&["--data", "../data"], args].concat())
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The tables of its traces.
    pub fn tables(&self) -> Tables {
        Tables::open(&self.data())
    }

    /// The result of a query.
    ///
    /// # Panics
    /// When the query fails.
    pub fn query(&self, sql: &str) -> Csv {
        self.tables().query(sql)
    }

    /// Rows of a query, fields joined by spaces.
    pub fn lines(&self, sql: &str) -> Vec<String> {
        let text = |row: Vec<Option<String>>| {
            row.into_iter().map(|c| c.unwrap_or("NULL".to_owned())).collect::<Vec<_>>().join(" ")
        };
        self.query(sql).rows.into_iter().map(text).collect()
    }

    /// A metric of its only trace, as JSON; null where it has no answer at all.
    pub fn metric(&self, name: &str, params: &[&str]) -> Value {
        let mut args = vec!["metric", name, "--format", "json", "-q"];
        args.extend(params.iter().flat_map(|p| ["-p", p]));
        let run = self.run(&args);
        if run.stdout.is_empty() && run.errors() == ["metric-not-applicable"] {
            return Value::Null;
        }
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr))
    }

    /// The exit codes and texts that metrics give.
    pub fn answers(&self, metrics: &[&str]) -> Vec<String> {
        let answer = |metric: &&str| {
            let run = self.run(&["metric", metric, "--format", "csv", "-q"]);
            format!("{} {}", run.code, run.stdout)
        };
        metrics.iter().map(answer).collect()
    }
}

/// Bytes as one member of gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}
