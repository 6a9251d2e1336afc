//! Answers that were computed before, in a file of lines: each under the hash of all that it
//! depends on.
//!
//! The file is a help and no more. What cannot be read is computed again, and what cannot be
//! written is not kept. It is written aside and takes its place in one step, with the lines that
//! other processes have put there meanwhile.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::aside;

/// Name of the file in the directory of a trace, and in that of all traces.
pub(super) const FILE: &str = ".answers";

/// Most bytes of an answer, and of a file; of more, the oldest answers go.
const MOST_ANSWER: usize = 16 << 20;
pub(super) const MOST_FILE: usize = 64 << 20;

/// Digits of a key.
const DIGITS: usize = 64;

/// Files that this process wrote aside.
static ASIDE: AtomicUsize = AtomicUsize::new(0);

/// Answers of a trace, or of several.
#[derive(Debug, Default)]
pub struct Cache {
    /// The file; None where nothing is kept.
    path: Option<PathBuf>,
    /// The first line: answers behind another one are of no use.
    head: String,
    text: String,
    places: HashMap<String, Range<usize>>,
    added: Vec<(String, String)>,
}

impl Cache {
    /// The answers in a folder that are of what `of` stands for.
    pub fn open(folder: &Path, of: &str) -> Self {
        aside::sweep(folder, |name| {
            name.strip_prefix(FILE).is_some_and(|rest| rest.starts_with('-'))
        });
        let path = folder.join(FILE);
        let head = format!("ccl-sql answers 1 {of}\n");
        let text = read(&path, &head);
        let places = lines(&text, &head).map(|(key, at)| (key.to_owned(), at)).collect();
        Self { path: Some(path), head, text, places, added: Vec::new() }
    }

    /// The answer under a key, as JSON.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.text.get(self.places.get(key)?.clone())
    }

    /// Keeps an answer: JSON on one line.
    pub fn put(&mut self, key: String, answer: String) {
        let fits = key.len() == DIGITS && answer.len() <= MOST_ANSWER && !answer.contains('\n');
        if self.path.is_some() && fits {
            self.added.push((key, answer));
        }
    }

    /// Keeps the answers out of a text of another machine, where there are none.
    pub fn take_over(&mut self, text: &str) {
        if !text.starts_with(&self.head) {
            return;
        }
        let new: Vec<(String, String)> = lines(text, &self.head)
            .filter(|(key, _)| !self.places.contains_key(*key))
            .map(|(key, at)| (key.to_owned(), text[at].to_owned()))
            .collect();
        new.into_iter().for_each(|(key, answer)| self.put(key, answer));
    }

    /// The answers under some keys, as a text for another machine; None where there are none.
    pub fn text_of(&self, keys: &[String]) -> Option<String> {
        let answer = |key: &String| Some((key.clone(), self.get(key)?.to_owned()));
        let some: Vec<(String, String)> = keys.iter().filter_map(answer).collect();
        (!some.is_empty()).then(|| merged("", &self.head, &some))
    }

    /// Writes what was added, if it can be.
    pub fn save(&mut self) {
        let added = std::mem::take(&mut self.added);
        if let (Some(path), false) = (&self.path, added.is_empty()) {
            let text = merged(&read(path, &self.head), &self.head, &added);
            let _ = replace(path, &text);
        }
    }
}

/// A file that begins so; else nothing.
fn read(path: &Path, head: &str) -> String {
    let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= MOST_FILE as u64);
    let text = small.then(|| std::fs::read_to_string(path).ok()).flatten();
    text.filter(|text| text.starts_with(head)).unwrap_or_default()
}

/// Key and place of each answer.
fn lines<'t>(text: &'t str, head: &str) -> impl Iterator<Item = (&'t str, Range<usize>)> {
    let mut at = head.len().min(text.len());
    text[at..].split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let (key, answer) = line.strip_suffix('\n')?.split_once(' ')?;
        let first = start + key.len() + 1;
        (key.len() == DIGITS).then(|| (key, first..first + answer.len()))
    })
}

/// A file with more answers, which stand for those of before under the same key.
fn merged(text: &str, head: &str, added: &[(String, String)]) -> String {
    let new: HashSet<&str> = added.iter().map(|(key, _)| key.as_str()).collect();
    let old = lines(text, head).filter(|(key, _)| !new.contains(key));
    let mut all: Vec<(&str, &str)> = old.map(|(key, at)| (key, &text[at])).collect();
    all.extend(added.iter().map(|(key, answer)| (key.as_str(), answer.as_str())));
    let mut left = MOST_FILE - head.len();
    let first = all.iter().rposition(|(key, answer)| {
        let size = key.len() + answer.len() + 2;
        let is_too_much = size > left;
        left = left.saturating_sub(size);
        is_too_much
    });
    all.drain(..first.map_or(0, |at| at + 1));
    let mut out = String::from(head);
    for (key, answer) in all {
        out.extend([key, " ", answer, "\n"]);
    }
    out
}

/// Writes a file aside, and puts it in its place.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let number = ASIDE.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_file_name(format!("{FILE}-{}-{number}", std::process::id()));
    // A link that lies there is not followed.
    let mut file = std::fs::File::create_new(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> String {
        format!("{n:064x}")
    }

    #[test]
    fn answers_are_found_again_and_those_of_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut one = Cache::open(folder.path(), "a");
        let mut other = Cache::open(folder.path(), "a");
        assert_eq!(one.get(&key(1)), None);
        one.put(key(1), "{\"a\": 1}".to_owned());
        other.put(key(2), "2".to_owned());
        one.save();
        other.save();
        let both = Cache::open(folder.path(), "a");
        assert_eq!((both.get(&key(1)), both.get(&key(2))), (Some("{\"a\": 1}"), Some("2")));
        one.put(key(2), "3".to_owned());
        one.save();
        assert_eq!(Cache::open(folder.path(), "a").get(&key(2)), Some("3"));
        let names = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 1, "nothing is left aside");
    }

    #[test]
    fn another_machine_takes_answers_over() {
        let (here, there) = (tempfile::tempdir(), tempfile::tempdir());
        let (here, there) = (here.expect("a folder"), there.expect("a folder"));
        let mut one = Cache::open(here.path(), "a");
        (1..4).for_each(|n| one.put(key(n), n.to_string()));
        one.save();
        let one = Cache::open(here.path(), "a");
        let text = one.text_of(&[key(1), key(2), key(9)]).expect("two answers");
        assert_eq!(one.text_of(&[key(9)]), None);
        let mut other = Cache::open(there.path(), "a");
        other.put(key(2), "mine".to_owned());
        other.save();
        let mut other = Cache::open(there.path(), "a");
        other.take_over(&text);
        other.take_over(&text.replace("answers 1 a", "answers 1 b").replace(" 1\n", " 7\n"));
        other.save();
        let other = Cache::open(there.path(), "a");
        let found = [1, 2, 3].map(|n| other.get(&key(n)));
        assert_eq!(found, [Some("1"), Some("mine"), None]);
    }

    #[test]
    fn what_is_of_something_else_or_damaged_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cache = Cache::open(folder.path(), "a");
        cache.put(key(1), "1".to_owned());
        cache.put("short".to_owned(), "1".to_owned());
        cache.put(key(3), "two\nlines".to_owned());
        cache.save();
        assert_eq!(Cache::open(folder.path(), "b").get(&key(1)), None);
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).expect("a file");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            assert_eq!(Cache::open(folder.path(), "a").get(&key(1)), None, "cut at {cut}");
        }
        std::fs::write(&path, [&whole[..], b"\xff\n"].concat()).expect("written");
        assert_eq!(Cache::open(folder.path(), "a").get(&key(1)), None);
        // A cache that is of no folder keeps nothing.
        let mut none = Cache::default();
        none.put(key(1), "1".to_owned());
        none.save();
        assert_eq!(none.get(&key(1)), None);
    }

    #[test]
    fn what_a_killed_process_wrote_aside_goes_when_it_is_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let (left, mine) =
            (folder.path().join(".answers-1-0"), folder.path().join(".answers.mine"));
        for path in [&left, &mine] {
            let file = std::fs::File::create(path).expect("a file");
            let day = std::time::Duration::from_secs(24 * 60 * 60);
            file.set_modified(std::time::SystemTime::now() - 2 * day).expect("an old file");
        }
        Cache::open(folder.path(), "a");
        assert!(!left.exists() && mine.exists());
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let half = "1".repeat(MOST_FILE / 2 - 200);
        let added = [(key(1), half.clone()), (key(2), half.clone()), (key(3), half)];
        let text = merged("", "head\n", &added);
        let keys: Vec<&str> = lines(&text, "head\n").map(|(key, _)| key).collect();
        assert_eq!(keys, [key(2), key(3)]);
    }

    #[test]
    fn a_link_in_the_way_is_not_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "mine").expect("written");
        std::os::unix::fs::symlink(&victim, folder.path().join(FILE)).expect("a link");
        let mut cache = Cache::open(folder.path(), "a");
        cache.put(key(1), "1".to_owned());
        cache.save();
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "mine");
        assert_eq!(Cache::open(folder.path(), "a").get(&key(1)), Some("1"));
    }
}
