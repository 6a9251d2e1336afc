//! The folder of a plan: on a disk that all machines have, or in an object store.
//!
//! In a store a task that is done has an object `done/<task>`, which names the folder of its files:
//! `<task>-<digits>/`. It is put there by one conditional request, after the files: of two copies
//! of a task one counts, and the files of the other go. A machine fetches what a task of its own
//! needs into a folder that goes with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result, io};
use crate::ingest::plan::written::{self, DONE, OUTCOME, get, put};
use crate::input::place::absolute;
use crate::pool::each;
use crate::remote::{self, Found, Writes};
use crate::store::objects::{AT_A_TIME, PLAN, fetch, once, send_folder};
use crate::store::workspace::Workspace;
use crate::store::{Store, sync};

/// The folder, in a store, of what says which tasks are done.
const TASKS: &str = "done";
/// The longest name of the folder of a task.
const MOST_NAME: usize = 100;

/// From so many tasks on, a listing of all costs fewer requests than one for each.
const MANY: usize = 16;
/// The largest file that stores copy in one request.
const MOST_COPIED: u64 = 5_000_000_000;

/// What becomes of a file of a task in a store.
pub(super) enum Fate {
    /// Nobody here wants it.
    None,
    /// It is fetched.
    Brought,
    /// It stays in the store, for now.
    Left,
}

/// A file of a task that stays in the store.
pub(super) struct Left {
    /// Its path in the folder of the task.
    pub(super) name: String,
    /// Its URL.
    pub(super) place: PathBuf,
    /// Bytes.
    pub(super) bytes: u64,
}

/// The folder of a plan.
pub(super) struct Folder {
    /// The folder on this machine.
    pub(super) here: PathBuf,
    away: Option<Away>,
}

/// Where it is, if that is in a store.
struct Away {
    url: PathBuf,
    /// What holds the folder of this machine.
    _work: Workspace,
}

impl Folder {
    /// The folder at a path or a URL. `cache` is where what is fetched of a store may lie.
    ///
    /// # Errors
    /// `usage` for a URL that may not be given; those of the store, and `io`.
    pub(super) fn at(place: &Path, cache: &dyn Fn() -> Result<PathBuf>) -> Result<Self> {
        let place = remote::checked(place)?;
        if !remote::is_url(&place) {
            return Ok(Self { here: absolute(&place), away: None });
        }
        remote::ready(&place)?;
        let work = Store::new(cache()?.join("plans")).workspace()?;
        let here = work.path.join("plan");
        std::fs::create_dir(&here).map_err(|e| io(&here, &e))?;
        Ok(Self { here, away: Some(Away { url: place, _work: work }) })
    }

    /// The place of the folder, for people and for other machines.
    pub(super) fn shown(&self) -> &Path {
        self.away.as_ref().map_or(&self.here, |away| &away.url)
    }

    /// Whether it is in a store.
    pub(super) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Whether there is a file right in the folder.
    pub(super) fn has(&self, name: &str) -> Result<bool> {
        match &self.away {
            None => Ok(self.here.join(name).is_file()),
            Some(away) => is_there(&away.url.join(name)),
        }
    }

    /// Reads a file that lies right in the folder.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let here = self.here.join(name);
        if let Some(away) = &self.away {
            fetch(&away.url.join(name), &here, None).map_err(of_store)?;
        }
        get(&here)
    }

    /// Writes a file right into the folder, in one step; where it is to be durable it is on the
    /// disk then.
    pub(super) fn put(&self, name: &str, what: &impl Serialize, durable: bool) -> Result<()> {
        let here = self.here.join(name);
        put(&here, what, durable && self.away.is_none())?;
        match &self.away {
            Some(away) => remote::send(&here, &away.url.join(name)),
            None => Ok(()),
        }
    }

    /// Whether a task is done.
    pub(super) fn is_done(&self, task: &str) -> Result<bool> {
        match &self.away {
            None => Ok(self.here.join(task).join(DONE).is_file()),
            Some(away) => is_there(&away.url.join(TASKS).join(task)),
        }
    }

    /// Asks a store once which tasks are done, where many will be asked about.
    pub(super) fn look(&self) -> Result<()> {
        match &self.away {
            None => Ok(()),
            Some(away) => remote::below(&away.url.join(TASKS)).map(drop).map_err(of_store),
        }
    }

    /// The folders on this machine of tasks that are done, with those of their files that are
    /// wanted.
    pub(super) fn bring(
        &self,
        tasks: &[String],
        is_wanted: impl Fn(&str) -> bool + Sync,
    ) -> Result<Vec<PathBuf>> {
        let brought = self.sort(tasks, |name| match is_wanted(name) {
            true => Fate::Brought,
            false => Fate::None,
        })?;
        Ok(brought.into_iter().map(|(folder, _)| folder).collect())
    }

    /// The same where some files stay in the store: with the name and the place of each of these.
    /// On a disk all of them are there.
    pub(super) fn sort(
        &self,
        tasks: &[String],
        fate: impl Fn(&str) -> Fate + Sync,
    ) -> Result<Vec<(PathBuf, Vec<Left>)>> {
        let folders = tasks.iter().map(|task| self.here.join(task));
        let Some(away) = &self.away else {
            return Ok(folders.map(|folder| (folder, Vec::new())).collect());
        };
        let known = if tasks.len() < MANY { BTreeMap::new() } else { away.folders()? };
        let files = each(AT_A_TIME, tasks, |task| -> Result<_> {
            let from = match known.get(task).map(Vec::as_slice) {
                Some([one]) => away.url.join(one),
                _ => away.files_of(task)?,
            };
            let here = self.here.join(task);
            std::fs::create_dir_all(&here).map_err(|e| io(&here, &e))?;
            let (mut brought, mut left) = (Vec::new(), Vec::new());
            for name in away.names_below(&from)? {
                let place = from.join(&name);
                match fate(&name) {
                    Fate::None => {}
                    Fate::Brought => brought.push((place, here.join(name))),
                    Fate::Left => match remote::stat(&place).map_err(of_store)? {
                        Some(Found::File(meta)) if meta.bytes <= MOST_COPIED => {
                            left.push(Left { name, place, bytes: meta.bytes });
                        }
                        _ => brought.push((place, here.join(name))),
                    },
                }
            }
            Ok((brought, left))
        })?;
        let (brought, left): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        // All together, so that few are open at a time.
        let brought: Vec<(PathBuf, PathBuf)> = brought.into_iter().flatten().collect();
        each(AT_A_TIME, &brought, |(from, to)| fetch(from, to, None)).map_err(of_store)?;
        Ok(folders.zip(left).collect())
    }

    /// Gives the folder that a task worked in its name: the task is done. Where another of the same
    /// task was first, its folder stays.
    pub(super) fn commit(&self, aside: &Path, task: &str, durable: bool) -> Result<()> {
        if let Some(away) = &self.away {
            let sent = away.commit(aside, task);
            // What is of use here is fetched again.
            let _ = std::fs::remove_dir_all(aside);
            return sent;
        }
        if durable {
            // What is done is not done again: not after a loss of power either.
            sync::tree(aside)?;
        }
        let target = self.here.join(task);
        match std::fs::rename(aside, &target) {
            Err(e) if !target.join(DONE).is_file() => Err(io(&target, &e)),
            _ if durable => sync::folder(&self.here),
            _ => Ok(()),
        }
    }

    /// Makes the folder empty. A folder with other things is nobody's to clear.
    pub(super) fn clear(&self) -> Result<()> {
        let is_plan = self.has(PLAN)?;
        let others = || {
            Error::new("output-exists", "there is something else in the folder")
                .at(self.shown().display().to_string())
                .hint("give an empty folder, or one that is not there, with -o PLAN")
        };
        if let Some(away) = &self.away {
            let there = remote::below(&away.url).map_err(of_store)?.files;
            return if is_plan || there.is_empty() {
                remote::remove(&there)
            } else {
                Err(others())
            };
        }
        let folder = &self.here;
        let names: Option<Vec<_>> = std::fs::read_dir(folder)
            .ok()
            .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect());
        let is_empty = names.as_ref().is_some_and(Vec::is_empty);
        // A plan, or the beginning of one that was killed.
        let is_begun = names.is_some_and(|names| {
            names.iter().all(|name| name.to_str().is_some_and(written::is_aside))
        });
        let is_ours = is_plan || (is_begun && !is_empty);
        if folder.exists() && !is_ours && !is_empty {
            return Err(others());
        }
        if is_ours {
            std::fs::remove_dir_all(folder).map_err(|e| io(folder, &e))?;
        }
        std::fs::create_dir_all(folder).map_err(|e| io(folder, &e))
    }

    /// Removes what the tasks made. What is left takes room, and nothing else.
    pub(super) fn settle(&self) {
        if let Some(away) = &self.away {
            remote::forget();
            let there = remote::below(&away.url).map(|there| there.files).unwrap_or_default();
            let stays = |file: &PathBuf| [PLAN, OUTCOME].iter().any(|n| *file == away.url.join(n));
            let gone: Vec<PathBuf> = there.into_iter().filter(|file| !stays(file)).collect();
            let _ = remote::remove(&gone);
        }
        for entry in std::fs::read_dir(&self.here).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> Result<()> {
        if let Some(away) = &self.away {
            // First what says that there is a plan: a task that comes later removes its own.
            remote::remove(&[away.url.join(PLAN)])?;
            remote::forget();
            return remote::remove(&remote::below(&away.url).map_err(of_store)?.files);
        }
        std::fs::remove_dir_all(&self.here).map_err(|e| io(&self.here, &e))
    }
}

impl Away {
    /// The folders of files by the task, from one listing of the plan. Where a task has one, that
    /// is it, if the task is done; of several the object `done/<task>` names the one that counts.
    fn folders(&self) -> Result<BTreeMap<String, Vec<String>>> {
        remote::below(&self.url).map_err(of_store)?;
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (folder, _) in remote::entries(&self.url).map_err(of_store)? {
            let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if let Some((task, _)) = name.rsplit_once('-').filter(|(_, digits)| is_digits(digits)) {
                out.entry(task.to_owned()).or_default().push(name.to_owned());
            }
        }
        Ok(out)
    }

    /// The folder of the files of a task.
    fn files_of(&self, task: &str) -> Result<PathBuf> {
        let marker = self.url.join(TASKS).join(task);
        let name = remote::first_bytes(&marker, MOST_NAME).map_err(of_store)?;
        let name = String::from_utf8(name).unwrap_or_default();
        let digits = name.strip_prefix(task).and_then(|rest| rest.strip_prefix('-'));
        match digits {
            Some(digits) if is_digits(digits) => Ok(self.url.join(name)),
            _ => Err(Error::new("plan-invalid", "a file of the plan cannot be understood")
                .at(marker.display().to_string())
                .hint("remove the folder, and plan again")),
        }
    }

    /// The names of the files of a task: those that can be paths here.
    fn names_below(&self, folder: &Path) -> Result<BTreeSet<String>> {
        let name = |file: &PathBuf| {
            let name = file.strip_prefix(folder).ok()?;
            let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
            Some(name.to_str().filter(|_| is_plain)?.to_owned())
        };
        let there = remote::below(folder).map_err(of_store)?.files;
        Ok(there.iter().filter_map(name).collect())
    }

    fn commit(&self, aside: &Path, task: &str) -> Result<()> {
        let marker = self.url.join(TASKS).join(task);
        let name = format!("{task}-{}", &once(task)[..12]);
        let to = self.url.join(&name);
        let mut sent: Vec<PathBuf> =
            send_folder(aside, &to)?.iter().map(|file| to.join(file)).collect();
        let is_first = remote::put(&marker, name.into_bytes(), Writes::New)?.is_some();
        // Another was first, or the answer to our own request was lost.
        if !is_first && self.files_of(task)? != to {
            return remote::remove(&sent);
        }
        // The ingest may have come to its end meanwhile: then nobody removes what is new.
        remote::forget();
        if is_there(&self.url.join(OUTCOME))? || !is_there(&self.url.join(PLAN))? {
            sent.push(marker);
            return remote::remove(&sent);
        }
        Ok(())
    }
}

/// Whether it is what stands behind the task in the name of a folder.
fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_there(path: &Path) -> Result<bool> {
    Ok(matches!(remote::stat(path).map_err(of_store)?, Some(Found::File(_))))
}

/// A fault of the store of a plan, which may pass: it is no fault of a trace.
fn of_store(error: Error) -> Error {
    Error { code: "io", ..error }
}
