//! The blocks of a plan: ranks whose rows are put into their files together, a task each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, io};
use crate::ingest::assemble::{self, Block, is_name};
use crate::ingest::make::Making;
use crate::ingest::plan::written::{JoinTask, get, put};
use crate::ingest::plan::{Plan, Step};
use crate::ingest::records::{ReadFile, Record, Rows};

/// What a block is made of.
#[derive(Serialize, Deserialize)]
struct Contents {
    block: Block,
    files: Vec<Share>,
}

/// A file of a block, or the share of a rank in it.
#[derive(Serialize, Deserialize)]
struct Share {
    /// The task that read it, and the folder of its rows there.
    task: String,
    spool: String,
    record: Record,
}

/// Notes a block of a trace in the folder of a layout.
pub(super) fn note(
    folder: &Path,
    making: &Making<'_>,
    (n, block): (usize, &Block),
) -> Result<JoinTask> {
    let numbers: BTreeSet<usize> = block.files().collect();
    let numbers: Vec<usize> = numbers.into_iter().collect();
    let share = |n: &usize| {
        let file = &making.files[*n];
        let Rows::Spool(spool) = &file.rows else { return None };
        let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
        let (task, spool) = (name(spool.parent()?)?, name(spool)?);
        Some(Share { task, spool, record: file.record.clone() })
    };
    let files: Option<Vec<Share>> = numbers.iter().map(share).collect();
    let files = files.ok_or_else(|| invalid("a block of ranks is not of the plan", folder))?;
    let rows = files.iter().map(|share| share.record.rows()).sum();
    let renumbered =
        block.renumbered(|file| numbers.binary_search(&file).expect("it is one of them"));
    let file = format!("block-{n}.json");
    let of_trace = folder.join(&making.key);
    std::fs::create_dir_all(&of_trace).map_err(|e| io(&of_trace, &e))?;
    let contents = Contents { block: renumbered, files };
    put(&of_trace.join(&file), &contents, false)?;
    Ok(JoinTask { key: making.key.clone(), file, span: block.span(), rows })
}

impl Plan {
    /// Writes the files of a block into a folder. The inner fault is that of the writing. `rows` is
    /// told the files that nothing reads when the task is done.
    pub(super) fn write_block(
        &self,
        task: &JoinTask,
        (into, work, threads): (&Path, &Path, usize),
        rows: &mut Vec<PathBuf>,
    ) -> Result<Result<()>> {
        let name = format!("{}/{}", task.key, task.file);
        let laid_out = self.bring(Step::Layout, &[0], |file| file == name)?.remove(0);
        let place = laid_out.join(&name);
        let Contents { block, files } = get(&place)?;
        let names = || files.iter().flat_map(|of| [&of.task, &of.spool]);
        if !names().all(|name| is_name(name)) || !block.is_of(files.len()) {
            return Err(invalid("a block of ranks cannot be understood", &place));
        }
        let tasks: BTreeSet<&String> = files.iter().map(|of| &of.task).collect();
        let tasks: Vec<String> = tasks.into_iter().cloned().collect();
        let spools: BTreeSet<&str> = files.iter().map(|of| &*of.spool).collect();
        let is_wanted = |name: &str| name.split('/').next().is_some_and(|n| spools.contains(n));
        let folders = self.folder.bring(&tasks, is_wanted)?;
        let folders: BTreeMap<&String, PathBuf> = tasks.iter().zip(folders).collect();
        let file = |of: &Share| {
            let rows = Rows::Spool(folders[&of.task].join(&of.spool));
            ReadFile { record: of.record.clone(), rows, read_now: true }
        };
        let files: Vec<ReadFile> = files.iter().map(file).collect();
        let spools = files.iter().filter_map(|file| match &file.rows {
            Rows::Spool(spool) => std::fs::read_dir(spool).ok(),
            Rows::Trace(_) => None,
        });
        let all = spools.flatten().flatten().map(|entry| entry.path());
        rows.extend(all.filter(|file| file.extension().is_some_and(|e| e == "parquet")));
        Ok(assemble::write(into, (work, threads), &files, &[&block]))
    }
}

fn invalid(why: &str, place: &Path) -> Error {
    Error::new("plan-invalid", why)
        .at(place.display().to_string())
        .hint("remove the folder, and plan again")
}
