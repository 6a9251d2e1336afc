//! What the files of a plan say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::derive::Part;
use crate::error::{Error, Result, io};
use crate::ingest::options::Options;
use crate::ingest::plan::Step;
use crate::store::files::Facts;
use crate::store::manifest::Stored;
use crate::store::sync;

/// The file that a task writes last into its folder.
pub(super) const DONE: &str = "done.json";
/// The file that says what the ingest did.
pub(super) const OUTCOME: &str = "outcome.json";
/// The end of the name of a file that is not yet in its place.
const ASIDE: &str = ".tmp";

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    /// The program and its SQL; another makes other files.
    pub(super) program: String,
    /// The folder that relative paths count from.
    pub(super) folder: Stored,
    /// The paths that were given.
    pub(super) paths: Vec<Stored>,
    /// The options that were given.
    pub(super) options: Options,
    /// The data directory.
    pub(super) data: Stored,
    /// When it was made: seconds since 1970.
    pub(super) made_s: f64,
    /// The files to read.
    pub(super) reads: Vec<ReadTask>,
}

impl Written {
    /// Whether two plans ask for the same; when they were made does not matter.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let text = |of: &Self| {
            serde_json::to_value(of).map(|mut value| {
                value["made_s"] = serde_json::Value::Null;
                value
            })
        };
        matches!((text(self), text(other)), (Ok(one), Ok(two)) if one == two)
    }
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadTask {
    /// The folder of its job.
    pub(super) root: Stored,
    /// The number of the file in its job.
    pub(super) id: i64,
    /// The file, as the user named it.
    pub(super) file: Stored,
    /// The member, of an archive.
    pub(super) member: Option<String>,
    /// Its kind, as it is printed.
    pub(super) kind: String,
    /// Whether the user named this very file.
    pub(super) direct: bool,
    /// The rank that the user gave it.
    pub(super) rank: Option<i64>,
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// When it was written.
    pub(super) mtime_ns: i64,
}

/// What the reading of a file came to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ReadDone {
    /// Folders with the rows of its shares.
    Files(Vec<String>),
    /// It is no trace, but this.
    Other(String),
    /// It cannot be read.
    Failed(Error),
}

/// What the files of all jobs make.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LayoutDone {
    /// Traces that have ranks, and with them derived tables.
    pub(super) with_ranks: Vec<String>,
    /// Traces whose tables could not be made, with the fault.
    pub(super) failed: BTreeMap<String, Error>,
    /// Blocks of ranks whose rows are not in their files yet.
    pub(super) joins: Vec<JoinTask>,
    /// Parts of the ranks.
    pub(super) parts: Vec<PartTask>,
    /// By folder of a trace what those of its files say that are there; of a plan in a store.
    pub(super) files: BTreeMap<String, Files>,
}

impl LayoutDone {
    /// The parts that a step works on: those whose first stage is not there yet, or all.
    pub(super) fn parts(&self, step: Step) -> Vec<&PartTask> {
        self.parts.iter().filter(|task| step != Step::Derive || task.part.is_open()).collect()
    }

    /// How much each task of a step has to do.
    pub(super) fn sizes(&self, step: Step) -> Vec<u64> {
        if step == Step::Join {
            return self.joins.iter().map(|task| task.rows).collect();
        }
        if step.stage().is_some_and(|stage| stage % 2 == 0) {
            return self.parts(step).iter().map(|task| task.part.rows()).collect();
        }
        let of_trace = |key: &String| {
            self.parts.iter().filter(|task| task.key == *key).map(|task| task.part.rows()).sum()
        };
        self.with_ranks.iter().map(of_trace).collect()
    }
}

/// A block, as the plan lists it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JoinTask {
    /// Folder of the trace.
    pub(super) key: String,
    /// The file of the layout that says what it is made of.
    pub(super) file: String,
    /// The least and the greatest rank; None where some of it is of no rank.
    pub(super) span: Option<(i64, i64)>,
    /// Rows of the tables that it is made of.
    pub(super) rows: u64,
}

/// A part of the ranks of a trace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartTask {
    /// Folder of the trace.
    pub(super) key: String,
    pub(super) part: Part,
}

/// What files of tables say of themselves, by their names.
pub(super) type Files = BTreeMap<String, Facts>;

/// What the tables of a task came to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TablesDone {
    /// The fault, where they could not be made.
    pub(super) failed: Option<Error>,
    /// What its files say; of a plan in a store.
    pub(super) files: Files,
}

/// Reads a file of a plan.
pub(super) fn get<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).map_err(|e| io(path, &e))?;
    serde_json::from_slice(&text).map_err(|e| {
        Error::new("plan-invalid", "a file of the plan cannot be understood")
            .at(path.display().to_string())
            .facts(e.to_string())
            .hint("remove the folder, and plan again")
    })
}

/// Whether a file of this name is a plan that is not yet in its place.
pub(super) fn is_aside(name: &str) -> bool {
    let number = name.strip_prefix("plan.").and_then(|rest| rest.strip_suffix(ASIDE));
    number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Writes a file of a plan, in one step; where it is to be durable it is on the disk then.
pub(super) fn put(path: &Path, what: &impl Serialize, durable: bool) -> Result<()> {
    let text = serde_json::to_vec(what)
        .map_err(|e| Error::new("plan-invalid", format!("the plan cannot be written: {e}")))?;
    let aside = path.with_extension(format!("{}{ASIDE}", std::process::id()));
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(&text)?;
        if durable { file.sync_all() } else { Ok(()) }
    };
    write().map_err(|e| io(&aside, &e))?;
    std::fs::rename(&aside, path).map_err(|e| io(path, &e))?;
    match path.parent().filter(|_| durable) {
        Some(folder) => sync::folder(folder),
        None => Ok(()),
    }
}
