//! What a store has: listings, remembered, and questions about single objects.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use object_store::list::PaginatedListOptions;
use object_store::{Error as Said, ObjectMeta, ObjectStoreExt, path};

use crate::error::{Error, Result};
use crate::pool::lock;
use crate::remote::client::{self, Bucket};
use crate::remote::fault;
use crate::remote::{Below, Found, Meta};

/// Objects that a store is asked for at a time.
const PAGE: usize = 1000;
/// Times that a page is asked for again whose bytes do not come whole.
const TRIES: u32 = 5;
/// Most keys below a path that are no paths.
const MOST_ODD: usize = 1000;

/// What was listed, or asked, since the last [`forget`].
#[derive(Default)]
struct Known {
    /// Prefixes below which everything is listed; with the keys that are no paths.
    whole: HashMap<PathBuf, Vec<String>>,
    /// The objects. Paths are in the order of their parts, which is that of a walk.
    files: BTreeMap<PathBuf, Meta>,
    /// What single paths are.
    single: HashMap<PathBuf, Option<Found>>,
    /// What lies right below single prefixes, and whether it is a prefix.
    folders: HashMap<PathBuf, Vec<(PathBuf, bool)>>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Known {
    /// Whether everything at and below a path is listed.
    fn covers(&self, path: &Path) -> bool {
        !self.whole.is_empty() && path.ancestors().any(|above| self.whole.contains_key(above))
    }

    fn below(&self, path: &Path) -> impl Iterator<Item = (&PathBuf, &Meta)> {
        let from = (Bound::Excluded(path), Bound::Unbounded);
        self.files.range::<Path, _>(from).take_while(move |(file, _)| file.starts_with(path))
    }

    /// What a path is, as far as that is known.
    fn found(&self, path: &Path) -> Option<Option<Found>> {
        if let Some(meta) = self.files.get(path) {
            return Some(Some(Found::File(meta.clone())));
        }
        if self.covers(path) {
            return Some(self.below(path).next().map(|_| Found::Folder));
        }
        self.single.get(path).cloned()
    }
}

/// Forgets what was listed: what is asked next is as it is then.
pub(crate) fn forget() {
    *lock(&KNOWN) = Known::default();
}

/// Forgets what a path was: it is about to be written.
pub(super) fn forget_one(path: &Path) {
    let mut known = lock(&KNOWN);
    known.files.remove(path);
    known.single.remove(path);
    known.whole.retain(|listed, _| !path.starts_with(listed));
    known.folders.retain(|listed, _| !path.starts_with(listed));
}

/// What a path is; None where the store has nothing of that name.
///
/// # Errors
/// `file-unreadable` when the store does not answer, or refuses.
pub(crate) fn stat(path: &Path) -> Result<Option<Found>> {
    if let Some(found) = lock(&KNOWN).found(path) {
        return Ok(found);
    }
    let (bucket, key) = client::bucket(path)?;
    let found = match (!key.is_root()).then(|| client::wait(bucket.objects.head(&key))) {
        Some(Ok(Ok(object))) => Some(Found::File(meta(&object))),
        Some(Ok(Err(e))) if !fault::is_missing(&e) => {
            return Err(fault::unreadable(path, "cannot open the object", &e));
        }
        Some(Err(e)) => return Err(e),
        _ => {
            let some = page(
                path,
                &bucket,
                &key,
                &PaginatedListOptions { max_keys: Some(2), ..PaginatedListOptions::default() },
            );
            match some {
                Ok((objects, _, _)) => (!objects.is_empty()).then_some(Found::Folder),
                Err(Stop::Odd(_)) => Some(Found::Folder),
                Err(Stop::Error(e)) => return Err(e),
            }
        }
    };
    lock(&KNOWN).single.insert(path.to_owned(), found.clone());
    Ok(found)
}

/// Everything below a path.
///
/// # Errors
/// `file-unreadable` when the store does not answer, or refuses.
pub(crate) fn below(path: &Path) -> Result<Below> {
    if !lock(&KNOWN).covers(path) {
        let (files, odd) = listed(path)?;
        let mut known = lock(&KNOWN);
        known.files.extend(files);
        known.whole.insert(path.to_owned(), odd);
    }
    let known = lock(&KNOWN);
    let odd = known.whole.get(path).cloned().unwrap_or_default();
    Ok(Below { files: known.below(path).map(|(file, _)| file.clone()).collect(), odd })
}

/// What lies right below a path, sorted, and whether it is a prefix of more.
///
/// # Errors
/// `file-unreadable` when the store does not answer, or refuses.
pub(crate) fn entries(path: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let known = lock(&KNOWN);
    if known.covers(path) {
        let depth = path.components().count();
        let entry = |(file, _): (&PathBuf, &Meta)| {
            let is_folder = file.components().count() > depth + 1;
            (file.components().nth(depth).map(|part| path.join(part)), is_folder)
        };
        let all = known.below(path).map(entry);
        let mut out: Vec<_> = all.filter_map(|(name, is)| Some((name?, is))).collect();
        out.dedup();
        return Ok(out);
    }
    if let Some(entries) = known.folders.get(path) {
        return Ok(entries.clone());
    }
    drop(known);
    let (bucket, key) = client::bucket(path)?;
    let mut options = PaginatedListOptions {
        delimiter: Some("/".into()),
        max_keys: Some(PAGE),
        ..PaginatedListOptions::default()
    };
    let (mut out, mut files) = (Vec::new(), Vec::new());
    loop {
        let (objects, prefixes, next) = match page(path, &bucket, &key, &options) {
            Ok(page) => page,
            // A key that is no path spoils its page: a listing of all below finds the others.
            Err(Stop::Odd(_)) => {
                below(path)?;
                return entries(path);
            }
            Err(Stop::Error(e)) => return Err(e),
        };
        for object in objects {
            let file = named(path, &key, &object.location);
            out.push((file.clone(), false));
            files.push((file, Found::File(meta(&object))));
        }
        out.extend(prefixes.iter().map(|prefix| (named(path, &key, prefix), true)));
        match next {
            Some(token) => options.page_token = Some(token),
            None => break,
        }
    }
    out.sort();
    let mut known = lock(&KNOWN);
    known.single.extend(files.into_iter().map(|(file, found)| (file, Some(found))));
    known.folders.insert(path.to_owned(), out.clone());
    Ok(out)
}

/// All objects below a path, and the keys that are no paths.
fn listed(path: &Path) -> Result<(BTreeMap<PathBuf, Meta>, Vec<String>)> {
    let (bucket, key) = client::bucket(path)?;
    let (mut files, mut odd) = (BTreeMap::new(), Vec::new());
    let options =
        |keys| PaginatedListOptions { max_keys: Some(keys), ..PaginatedListOptions::default() };
    // A page with a key that is no path is refused as a whole. Then that key is looked for in
    // pages of half as many, from the last key that was listed.
    let (mut keys, mut is_hunt, mut last) = (PAGE, false, None);
    let mut next = options(keys);
    loop {
        match page(path, &bucket, &key, &next) {
            Ok((objects, _, token)) => {
                last = objects.last().map(|object| object.location.to_string()).or(last);
                files.extend(objects.iter().map(|o| (named(path, &key, &o.location), meta(o))));
                if token.is_none() {
                    break;
                }
                keys = if is_hunt { keys.div_ceil(2) } else { PAGE };
                next = PaginatedListOptions { page_token: token, ..options(keys) };
            }
            Err(Stop::Odd(name)) => {
                is_hunt = keys > 1;
                if !is_hunt {
                    if odd.len() >= MOST_ODD {
                        return Err(Error::new("file-unreadable", "too many keys are no paths")
                            .at(path.display().to_string()));
                    }
                    let below = name.strip_prefix(key.as_ref()).unwrap_or(&name);
                    odd.push(escaped(below.strip_prefix('/').unwrap_or(below)));
                    last = Some(name);
                }
                keys = if is_hunt { keys.div_ceil(2) } else { PAGE };
                next = PaginatedListOptions { offset: last.clone(), ..options(keys) };
            }
            Err(Stop::Error(e)) => return Err(e),
        }
    }
    // An empty object of the name of a folder is how some programs make one.
    let empty = files.iter().filter(|(_, meta)| meta.bytes == 0).map(|(file, _)| file.clone());
    for file in empty.collect::<Vec<_>>() {
        let next = files.range::<PathBuf, _>((Bound::Excluded(&file), Bound::Unbounded)).next();
        if next.is_some_and(|(next, _)| next.starts_with(&file)) {
            files.remove(&file);
        }
    }
    files.remove(path);
    Ok((files, odd))
}

/// Why there is no page of a listing.
enum Stop {
    /// A key on it that is no path.
    Odd(String),
    Error(Error),
}

/// Objects, prefixes, and the mark of the next page.
type Page = (Vec<ObjectMeta>, Vec<path::Path>, Option<String>);

/// A page of a listing.
fn page(
    path: &Path,
    bucket: &Bucket,
    key: &path::Path,
    options: &PaginatedListOptions,
) -> Result<Page, Stop> {
    let prefix = if key.is_root() { None } else { Some(format!("{key}/")) };
    for attempt in 0.. {
        let asked = bucket.pages.list_paginated(prefix.as_deref(), options.clone());
        let said = match client::wait(asked).map_err(Stop::Error)? {
            Ok(page) => {
                let objects = page.result.objects;
                return Ok((objects, page.result.common_prefixes, page.page_token));
            }
            Err(said) => said,
        };
        if let Said::InvalidPath { source } = &said
            && let path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. } =
                source
        {
            return Err(Stop::Odd(path.clone()));
        }
        // Requests that were refused were tried again already.
        let is_cut = said.to_string().contains("response body");
        if !is_cut || attempt + 1 >= TRIES {
            return Err(Stop::Error(fault::unreadable(path, "cannot list the objects", &said)));
        }
        std::thread::sleep(Duration::from_millis(100 << attempt));
    }
    Ok(Page::default())
}

/// The path of an object that was listed below a path.
fn named(path: &Path, key: &path::Path, object: &path::Path) -> PathBuf {
    let below = object.as_ref().strip_prefix(key.as_ref()).unwrap_or(object.as_ref());
    match below.trim_start_matches('/') {
        "" => path.to_owned(),
        below => path.join(below),
    }
}

/// A key that is no path, as a name that is one.
fn escaped(key: &str) -> String {
    let shown: String = key.escape_debug().take(200).collect();
    shown.replace('/', "%2F")
}

/// Size and version of an object.
pub(super) fn meta(object: &ObjectMeta) -> Meta {
    // Some stores quote it in one answer and not in another. A weak one is none of the bytes.
    let strong = object.e_tag.as_deref().filter(|tag| !tag.starts_with("W/"));
    let etag = strong.map(|tag| tag.trim_matches('"').to_owned());
    Meta {
        bytes: object.size,
        is_etag: etag.is_some(),
        version: etag.unwrap_or_else(|| object.last_modified.timestamp().to_string()),
        generation: object.version.clone(),
        written_s: u64::try_from(object.last_modified.timestamp()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(files: &[&str]) -> Known {
        let meta = Meta {
            bytes: 1,
            version: "v".to_owned(),
            is_etag: true,
            generation: None,
            written_s: None,
        };
        let files = files.iter().map(|file| (PathBuf::from(file), meta.clone())).collect();
        let whole = [(PathBuf::from("s3://b/p"), Vec::new())].into();
        Known { files, whole, ..Known::default() }
    }

    #[test]
    fn listed_objects_are_in_the_order_of_a_walk() {
        let known = known(&["s3://b/p/a-b/x", "s3://b/p/a/x", "s3://b/p/a/b/y", "s3://b/q/z"]);
        let below: Vec<&str> =
            known.below(Path::new("s3://b/p")).map(|(f, _)| f.to_str().unwrap_or("")).collect();
        // By bytes `a-b/` would come before `a/`.
        assert_eq!(below, ["s3://b/p/a/b/y", "s3://b/p/a/x", "s3://b/p/a-b/x"]);
    }

    #[test]
    fn what_is_listed_needs_no_question() {
        let known = known(&["s3://b/p/a/x"]);
        let of = |path: &str| known.found(Path::new(path));
        assert!(matches!(of("s3://b/p/a/x"), Some(Some(Found::File(_)))));
        assert_eq!(of("s3://b/p/a"), Some(Some(Found::Folder)));
        assert_eq!(of("s3://b/p/b"), Some(None));
        assert_eq!(of("s3://b/q"), None);
    }

    #[test]
    fn keys_that_are_no_paths_become_names() {
        for (key, name) in [
            ("p/../../etc/passwd", "p%2F..%2F..%2Fetc%2Fpasswd"),
            ("p//x", "p%2F%2Fx"),
            ("p/\u{1}x", "p%2F\\u{1}x"),
        ] {
            assert_eq!(escaped(key), name);
        }
        assert!(escaped(&"/".repeat(5000)).len() <= 600);
    }
}
