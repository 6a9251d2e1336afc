//! A data directory in an object store: a folder of this machine holds its manifests, and of the
//! traces that were asked for the files.
//!
//! In the store a trace is `trace=<name>/manifest.json`, which names the folder of its files
//! (`trace=<name>/v=<version>/`). Files are never changed; a trace becomes another by one
//! conditional request for its manifest. In the folder a trace without its files has a file
//! `.partial`, until they are fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, io};
use crate::pool::each;
use crate::remote::{self, Found, Version, Writes};
use crate::schema::TABLES;
use crate::store::Store;
use crate::store::files::{Facts, RemoteFile, facts};
use crate::store::manifest::{self, Away, Manifest, PARTIAL};
use crate::store::mirror::Mirror;
use crate::store::names::valid_name;
use crate::store::workspace::RECORDS;

/// The file that says which versions the folder has.
const INDEX: &str = ".store.json";
/// The file whose time says when a trace was asked for.
const USED: &str = ".used";
/// The beginning of the names of plans that lie in a data directory, and the file of one.
pub(crate) const PLANS: &str = ".plan-";
pub(crate) const PLAN: &str = "plan.json";
/// The largest manifest that is read.
const MOST_MANIFEST: usize = 256 << 20;
/// What stands in the place of a manifest that is none, or that names files outside of its trace.
const UNUSABLE: &str = "the manifest in the object store cannot be used\n";
/// Requests at a time.
pub(crate) const AT_A_TIME: usize = 16;
/// Copies inside of a store at a time: they cost this machine nothing.
const COPIES_AT_A_TIME: usize = 32;
/// Time in which a trace that was asked for keeps its files: another process may read them.
const STAYS: Duration = Duration::from_secs(600);

/// The versions of the manifests in the folder, by the names of the traces.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    url: String,
    traces: BTreeMap<String, Version>,
}

impl Store {
    /// The data directory at a URL, of which a folder below `cache` holds what was asked for, at
    /// most so many bytes.
    ///
    /// # Errors
    /// `usage` for a URL that may not be given, `object-stores-missing`.
    pub fn at_url(url: &Path, cache: &Path, most: u64) -> Result<Self> {
        let url = remote::checked(url)?;
        remote::ready(&url)?;
        let hash = crate::hash::sha256_text(&url.to_string_lossy());
        let path = cache.join("stores").join(&hash[..16]);
        // What is lost is fetched again.
        Ok(Self { path, durable: false, mirror: Some(Mirror { url, most }) })
    }

    /// The place of the data directory, as the user named it.
    pub fn given(&self) -> &Path {
        self.mirror.as_ref().map_or(&self.path, |mirror| &mirror.url)
    }

    /// The same for people.
    pub fn shown(&self) -> String {
        self.given().display().to_string()
    }

    /// Whether files at a place can be copied into the data directory without passing through this
    /// machine.
    pub fn is_beside(&self, place: &Path) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| remote::is_one_bucket(&mirror.url, place))
    }

    /// The same as a folder alone: what is put there does not go to the store.
    #[must_use]
    pub fn here(&self) -> Self {
        Self { mirror: None, ..self.clone() }
    }

    /// Takes the manifests of the store over; nothing where the data directory is in none.
    ///
    /// # Errors
    /// Those of the store, and `io`.
    pub fn sync(&self) -> Result<()> {
        let Some(mirror) = &self.mirror else { return Ok(()) };
        self.make()?;
        remote::forget();
        self.make_room(mirror);
        let folders = match remote::stat(&mirror.url)? {
            None => Vec::new(),
            Some(_) => remote::entries(&mirror.url)?,
        };
        let name = |(path, is_folder): &(PathBuf, bool)| {
            let name =
                manifest::name_of(path).filter(|name| *is_folder && valid_name(name).is_ok());
            name.map(|name| name.to_owned())
        };
        let names: Vec<String> = folders.iter().filter_map(name).collect();
        let had = self.index();
        let changed =
            each(AT_A_TIME, &names, |name| self.changed(mirror, name, had.traces.get(name)))?;
        let work = self.workspace()?;
        let (mut there, mut new) = (BTreeSet::new(), Vec::new());
        for (name, change) in names.iter().zip(changed) {
            match change {
                Change::None => {}
                Change::Gone => continue,
                Change::To(version, manifest) => {
                    let directory = work.path.join(format!("trace={name}"));
                    self.take_over(mirror, name, manifest, &directory)?;
                    new.push((name.clone(), version, directory));
                }
            }
            there.insert(name.clone());
        }
        let turn = self.turn();
        let mut index = self.index();
        // What another process of this machine has put there meanwhile is newer.
        let is_as_it_was =
            |index: &Index, name: &str| index.traces.get(name) == had.traces.get(name);
        for (name, version, directory) in new {
            if is_as_it_was(&index, &name) {
                self.place(&directory, &name)?;
                index.traces.insert(name, version);
            }
        }
        for name in self.traces() {
            if !there.contains(&name) && is_as_it_was(&index, &name) {
                let directory = self.directory(&name);
                std::fs::remove_dir_all(&directory).map_err(|e| io(&directory, &e))?;
                index.traces.remove(&name);
            }
        }
        self.write_index(mirror, &index)?;
        drop(turn);
        Ok(())
    }

    /// What became of the manifest of a trace in the store.
    fn changed(&self, mirror: &Mirror, name: &str, had: Option<&Version>) -> Result<Change> {
        let path = mirror.manifest(name);
        let Some(Found::File(meta)) = remote::stat(&path)? else { return Ok(Change::Gone) };
        let version = meta.as_version();
        if had == Some(&version) && Manifest::read(&self.directory(name)).is_ok() {
            return Ok(Change::None);
        }
        let bytes = remote::first_bytes(&path, MOST_MANIFEST)?;
        let manifest: Option<Manifest> = serde_json::from_slice(&bytes).ok();
        let is_usable = |manifest: &Manifest| {
            is_version(manifest.at.as_deref()) && manifest.files.keys().all(|file| is_table(file))
        };
        Ok(Change::To(version, manifest.filter(is_usable).map(Box::new)))
    }

    /// Makes the directory of a trace, of a manifest that can be used. One whose files are here has
    /// those of the new one too: somebody may be about to read them.
    fn take_over(
        &self,
        mirror: &Mirror,
        name: &str,
        manifest: Option<Box<Manifest>>,
        directory: &Path,
    ) -> Result<()> {
        std::fs::create_dir_all(directory).map_err(|e| io(directory, &e))?;
        let Some(manifest) = manifest else {
            // Like any other manifest that cannot be read: whoever asks for the trace is told.
            let path = directory.join(manifest::FILE);
            return std::fs::write(&path, UNUSABLE).map_err(|e| io(&path, &e));
        };
        let partial = directory.join(PARTIAL);
        std::fs::write(&partial, "").map_err(|e| io(&partial, &e))?;
        manifest.replace(directory, &directory.join(".manifest"))?;
        let before = self.directory(name);
        match before.exists() && !before.join(PARTIAL).exists() {
            true => complete(mirror, name, directory, None),
            false => Ok(()),
        }
    }

    /// Fetches the files of traces that are not here yet.
    ///
    /// # Errors
    /// Those of the store, and `io`.
    pub fn fetch(&self, traces: &[String]) -> Result<()> {
        traces.iter().try_for_each(|trace| self.fetch_of(trace, None))
    }

    /// Fetches those files of a trace that are wanted, and not here yet.
    ///
    /// # Errors
    /// Those of the store, and `io`.
    pub fn fetch_some(
        &self,
        trace: &str,
        is_wanted: &(dyn Fn(&Away) -> bool + Sync),
    ) -> Result<()> {
        self.fetch_of(trace, Some(is_wanted))
    }

    fn fetch_of(&self, trace: &str, is_wanted: Option<IsWanted<'_>>) -> Result<()> {
        if let Some(mirror) = &self.mirror {
            let directory = self.directory(trace);
            complete(mirror, trace, &directory, is_wanted)?;
            // When it was asked for; that is a help and no more.
            let _ = std::fs::write(directory.join(USED), "");
        }
        Ok(())
    }

    /// Sends a trace that is complete to the store: the files, those that lie elsewhere in it too,
    /// and the manifest last.
    ///
    /// # Errors
    /// `store-conflict` where another writer was first; those of the store, and `io`.
    pub(super) fn upload(
        &self,
        directory: &Path,
        name: &str,
        elsewhere: &[RemoteFile],
    ) -> Result<()> {
        let Some(mirror) = &self.mirror else { return Ok(()) };
        let mut manifest = Manifest::parse(directory)?;
        let at = format!("v={}-{}", &manifest.fingerprint()[..16], &once(name)[..8]);
        let to = mirror.folder(name).join(&at);
        manifest.at = Some(at);
        let spans = |(name, facts): (String, Facts)| facts.span.map(|span| (name, span));
        manifest.spans = facts(directory)?.into_iter().filter_map(spans).collect();
        send_folder(directory, &to)?;
        each(COPIES_AT_A_TIME, elsewhere, |file| remote::copy(&file.from, &to.join(&file.name)))?;
        if !elsewhere.is_empty() {
            manifest.add(elsewhere);
            let partial = directory.join(PARTIAL);
            std::fs::write(&partial, "").map_err(|e| io(&partial, &e))?;
        }
        manifest.replace(directory, &directory.join(".manifest"))?;
        let path = directory.join(manifest::FILE);
        let text = std::fs::read(&path).map_err(|e| io(&path, &e))?;
        let mut index = self.index();
        let writes = index.traces.get(name).map_or(Writes::New, Writes::Over);
        let target = mirror.manifest(name);
        let version = match remote::put(&target, text.clone(), writes)? {
            Some(version) => version,
            // The answer to a request that was taken may have been lost.
            None => match (remote::first_bytes(&target, MOST_MANIFEST), remote::stat(&target)?) {
                (Ok(there), Some(Found::File(meta))) if there == text => meta.as_version(),
                _ => return Err(conflict(&target)),
            },
        };
        index.traces.insert(name.to_owned(), version);
        self.write_index(mirror, &index)
    }

    /// Removes the manifest of a trace in the store; its files go with the next vacuum.
    pub(super) fn remove_there(&self, name: &str) -> Result<()> {
        let Some(mirror) = &self.mirror else { return Ok(()) };
        remote::remove(&[mirror.manifest(name)])?;
        let mut index = self.index();
        index.traces.remove(name);
        self.write_index(mirror, &index)
    }

    /// Removes files in the store that no manifest names, and that were written before a time; how
    /// many, and their bytes.
    ///
    /// # Errors
    /// Those of the store.
    pub fn vacuum(&self, older_than: Duration) -> Result<(usize, u64)> {
        let Some(mirror) = &self.mirror else { return Ok((0, 0)) };
        remote::forget();
        if remote::stat(&mirror.url)?.is_none() {
            return Ok((0, 0));
        }
        let before = SystemTime::now().checked_sub(older_than).unwrap_or(UNIX_EPOCH);
        let before = before.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut versions: BTreeMap<PathBuf, Vec<(PathBuf, u64)>> = BTreeMap::new();
        let mut gone = Vec::new();
        for file in remote::below(&mirror.url)?.files {
            let below = file.strip_prefix(&mirror.url).unwrap_or(&file);
            let mut parts = below.iter().filter_map(|part| part.to_str());
            let (Some(trace), Some(version)) = (parts.next(), parts.next()) else { continue };
            // A task of an ingest that had come to its end may have left something.
            let of_plan = trace.starts_with(PLANS).then(|| mirror.url.join(trace).join(PLAN));
            let is_left = match of_plan {
                Some(plan) => remote::stat(&plan)?.is_none(),
                None => false,
            };
            // What is of no trace is nobody's to remove.
            let is_of_trace = trace.starts_with("trace=") && is_version(Some(version));
            if !is_left && !is_of_trace {
                continue;
            }
            if let Some(Found::File(meta)) = remote::stat(&file)?
                && meta.written_s.is_some_and(|written| written < before)
            {
                if is_left {
                    gone.push((file, meta.bytes));
                    continue;
                }
                let folder = mirror.url.join(trace).join(version);
                versions.entry(folder).or_default().push((file, meta.bytes));
            }
        }
        // The manifests behind the files: what was published meanwhile is named by them.
        remote::forget();
        for (folder, files) in versions {
            let manifest = folder.with_file_name(manifest::FILE);
            let named = match remote::stat(&manifest)? {
                None => None,
                Some(_) => {
                    let bytes = remote::first_bytes(&manifest, MOST_MANIFEST)?;
                    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| {
                        Error::new("trace-unknown", format!("a manifest cannot be read: {e}"))
                            .at(manifest.display().to_string())
                    })?;
                    manifest.at
                }
            };
            if folder.file_name() != named.as_ref().map(std::ffi::OsStr::new) {
                gone.extend(files);
            }
        }
        let paths: Vec<PathBuf> = gone.iter().map(|(path, _)| path.clone()).collect();
        remote::remove(&paths)?;
        Ok((gone.len(), gone.iter().map(|(_, bytes)| bytes).sum()))
    }

    /// Removes the traces from the folder that were not asked for longest, where it holds too much.
    fn make_room(&self, mirror: &Mirror) {
        let mut traces: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for name in self.traces() {
            let directory = self.directory(&name);
            let used = std::fs::metadata(directory.join(USED)).and_then(|m| m.modified());
            let sizes = walkdir::WalkDir::new(&directory).into_iter().flatten();
            let bytes = sizes.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum();
            traces.push((used.unwrap_or(UNIX_EPOCH), directory, bytes));
        }
        traces.sort();
        let mut held: u64 = traces.iter().map(|(.., bytes)| bytes).sum();
        let _turn = self.turn();
        for (used, directory, bytes) in traces {
            if held <= mirror.most || used.elapsed().is_ok_and(|age| age < STAYS) {
                break;
            }
            // What goes is taken over again, without its files.
            if std::fs::remove_dir_all(&directory).is_ok() {
                held -= bytes;
            }
        }
    }

    fn index(&self) -> Index {
        let text = std::fs::read(self.path.join(INDEX)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write_index(&self, mirror: &Mirror, index: &Index) -> Result<()> {
        let index =
            serde_json::json!({"url": mirror.url.to_string_lossy(), "traces": index.traces});
        let (path, aside) = (self.path.join(INDEX), self.path.join(".store.tmp"));
        let written = std::fs::write(&aside, index.to_string());
        written.and_then(|()| std::fs::rename(&aside, &path)).map_err(|e| io(&path, &e))
    }
}

/// What became of a manifest.
enum Change {
    None,
    Gone,
    /// Another; without its words where they cannot be used.
    To(Version, Option<Box<Manifest>>),
}

/// Which files are wanted.
type IsWanted<'a> = &'a (dyn Fn(&Away) -> bool + Sync);

/// Fetches the files of a trace, or some of them, into its directory, where it lacks them.
fn complete(
    mirror: &Mirror,
    trace: &str,
    directory: &Path,
    some: Option<IsWanted<'_>>,
) -> Result<()> {
    let partial = directory.join(PARTIAL);
    if !partial.exists() {
        return Ok(());
    }
    let manifest = Manifest::parse(directory)?;
    let is_wanted = |file: &str| some.is_none_or(|is_wanted| is_wanted(&manifest.file(file)));
    let is_here = |(file, bytes): (&String, &u64)| {
        std::fs::metadata(directory.join(file)).is_ok_and(|here| here.len() == *bytes)
    };
    if some.is_some() && manifest.files.iter().filter(|(file, _)| is_wanted(file)).all(is_here) {
        return Ok(());
    }
    let from = mirror.folder(trace).join(manifest.at.as_deref().unwrap_or_default());
    // One listing says the sizes of all, and what else there is: records, and steps on the way.
    let there = remote::below(&from)?.files;
    let name = |file: &PathBuf| Some(file.strip_prefix(&from).ok()?.to_str()?.to_owned());
    let files: BTreeSet<String> =
        there.iter().filter_map(name).filter(|file| file == RECORDS || is_table(file)).collect();
    if !manifest.files.keys().all(|file| files.contains(file)) {
        return Err(replaced(&from));
    }
    let files: Vec<String> = files.into_iter().filter(|file| is_wanted(file)).collect();
    each(AT_A_TIME, &files, |file| {
        fetch(&from.join(file), &directory.join(file), manifest.files.get(file).copied())
    })?;
    if some.is_some() {
        return Ok(());
    }
    match std::fs::remove_file(&partial) {
        // Another process may have been faster.
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(&partial, &e)),
        _ => Ok(()),
    }
}

/// Digits that no other process gives: those of the folder of files that are written once.
pub(crate) fn once(name: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    // Processes of two machines may have one number, and one clock.
    let random = RandomState::new().build_hasher().finish();
    crate::hash::sha256_text(&format!("{now} {random} {name}"))
}

/// Sends the files of a folder, all but a manifest; their names.
///
/// # Errors
/// Those of the store, and `io`.
pub(crate) fn send_folder(folder: &Path, to: &Path) -> Result<Vec<String>> {
    let files = files_to_send(folder)?;
    each(AT_A_TIME, &files, |file| remote::send(&folder.join(file), &to.join(file)))?;
    Ok(files)
}

/// The files of a trace that go to the store, all but the manifest.
fn files_to_send(directory: &Path) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for entry in walkdir::WalkDir::new(directory).sort_by_file_name() {
        let entry = entry.map_err(|e| io(directory, &e.into()))?;
        let name = entry.path().strip_prefix(directory).ok().and_then(Path::to_str);
        if let Some(name) =
            name.filter(|name| entry.file_type().is_file() && !name.starts_with('.'))
            && name != manifest::FILE
        {
            out.push(name.to_owned());
        }
    }
    Ok(out)
}

/// Fetches a file of a size that a manifest says, or of any.
///
/// # Errors
/// Those of the store, and `io`.
pub(crate) fn fetch(from: &Path, to: &Path, bytes: Option<u64>) -> Result<()> {
    match remote::stat(from)? {
        Some(Found::File(meta)) if bytes.is_none_or(|bytes| bytes == meta.bytes) => {
            // Fetched by a command that did not come to its end.
            if std::fs::metadata(to).is_ok_and(|here| here.len() == meta.bytes) {
                return Ok(());
            }
        }
        _ => return Err(replaced(from)),
    }
    let aside = to.with_extension(format!("{}.tmp", std::process::id()));
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|e| io(folder, &e))?;
    }
    let mut file = std::fs::File::create(&aside).map_err(|e| io(&aside, &e))?;
    std::io::copy(&mut remote::open(from)?, &mut file)
        .map_err(|e| remote::fault_of(from).unwrap_or_else(|| io(&aside, &e)))?;
    std::fs::rename(&aside, to).map_err(|e| io(to, &e))
}

fn replaced(path: &Path) -> Error {
    Error::new("store-conflict", "it was replaced, or removed, while it was fetched")
        .at(path.display().to_string())
        .hint("try again")
}

fn conflict(path: &Path) -> Error {
    Error::new("store-conflict", "another writer has put the trace there meanwhile")
        .at(path.display().to_string())
        .hint("try again: what it wrote is then taken over, and files that were read stay read")
}

/// Whether a word can be the folder of the files of a trace.
fn is_version(word: Option<&str>) -> bool {
    let hex = word.and_then(|word| word.strip_prefix("v="));
    hex.is_some_and(|hex| hex.len() > 8 && hex.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
}

/// Whether a name can be that of a file of a table: names in a store are given by others.
fn is_table(file: &str) -> bool {
    let path = Path::new(file);
    let mut parts = path.components();
    // Steps on the way to derived tables begin with a line.
    let is_step = |name: &str| {
        name.starts_with('_') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let is_of_table = |part: Component<'_>| {
        let name = part.as_os_str().to_str().unwrap_or_default();
        TABLES.iter().any(|table| name == table.name) || is_step(name)
    };
    parts.next().is_some_and(is_of_table)
        && parts.all(|part| matches!(part, Component::Normal(name) if name.len() < 200))
        && file.ends_with(".parquet")
        && !file.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_none_of_a_trace_are_refused() {
        for (file, is) in [
            ("ranks/part-0000.parquet", true),
            ("host_events/rank=0/x.parquet", true),
            ("ranks/../../x.parquet", false),
            ("/ranks/x.parquet", false),
            ("../ranks/x.parquet", false),
            ("ranks/x.sh", false),
            ("_steps/part-0.parquet", true),
            ("other/x.parquet", false),
            ("ranks/a\n.parquet", false),
        ] {
            assert_eq!(is_table(file), is, "{file}");
        }
        for (word, is) in
            [("v=0123456789abcdef-01234567", true), ("v=..", false), ("v=", false), ("x", false)]
        {
            assert_eq!(is_version(Some(word)), is, "{word}");
        }
    }
}
