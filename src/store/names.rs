//! Names of traces. A name says the workload: the last folder of the path that says something of
//! its own, and what lies below it. It follows from the path alone, so that a trace has the same
//! name in whatever order traces are ingested; only a clash of two paths makes both longer.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use crate::error::{Error, Result};
use crate::remote::is_url;
use crate::store::Store;
use crate::store::files::OF_NULL;
use crate::store::manifest::Manifest;

/// Folders that say only what lies in them. A name leaves them out where something follows.
const HABITS: [&str; 8] = [
    "profile_trace",
    "profile_traces",
    "torch_profiler",
    "memory_snapshot",
    "memory_snapshots",
    "traces",
    "plugins",
    "profile",
];

/// Further names that say nothing of the workload.
const PLAIN: &str = "trace profiles profiler profiling prof log logs output outputs out result results \
     results_json tb tensorboard kineto nsys xplane xprof report base baseline";

/// Words that count repetitions or ranks, or set one thing of a configuration: with nothing but a
/// number or a letter behind them they say nothing alone.
const KNOBS: &str = "iteration iter it step epoch rank worker host node nodes proc process task run \
     trial attempt rep repeat seed report trace part tp dp pp ep cp sp fsdp ddp bs mbs gbs mb batch seq \
     gpu gpus cu thread threads channels nproc world b s n v";

fn is_among(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|w| w == word)
}

/// The most folders above one that says nothing that its name may take.
const REACH: usize = 4;

/// The longest name, in bytes: a folder `trace=<name>` must be possible everywhere.
const LONGEST: usize = 200;

/// Whether a folder or file of this name says nothing of the workload: `iteration_10`, `rank0`,
/// `torch_profiler`, `run_a`, `56cu_256threads`, `tp2_dp4`, `2024_05_01_12_30_00`.
fn says_nothing(name: &str) -> bool {
    let name = name.to_lowercase();
    if HABITS.contains(&&*name) || is_among(&name, PLAIN) {
        return true;
    }
    let parts: Vec<&str> =
        name.split(|c: char| "_-.+,=@()[] ".contains(c)).filter(|p| !p.is_empty()).collect();
    let mut counted = false;
    for (i, part) in parts.iter().enumerate() {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let said = match () {
            // 10, 56cu, 256threads.
            () if digits > 0 => part[digits..].bytes().all(|b| b.is_ascii_lowercase()),
            // rank0, tp2.
            () if letters.len() < part.len() => is_among(letters, KNOBS),
            // The word of `tp_2` and `run_a`.
            () if is_among(part, KNOBS) && i + 1 < parts.len() => continue,
            // The letter of `run_a`.
            () => part.len() == 1 && i > 0 && is_among(parts[i - 1], KNOBS),
        };
        if !said {
            return false;
        }
        counted = true;
    }
    counted
}

/// The names that a trace at this path may have, the shortest first: each one is longer than the
/// one before, and the last one is the whole path.
pub(crate) fn names_of(label: &Path) -> Vec<String> {
    let parts: Vec<String> = label
        .components()
        // The scheme of a URL says nothing.
        .skip(usize::from(is_url(label)))
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let Some(last) = parts.len().checked_sub(1) else { return vec!["trace".to_owned()] };
    let reach = last.saturating_sub(REACH);
    let from = (reach..=last).rev().find(|at| !says_nothing(&parts[*at])).unwrap_or(reach);
    let without =
        parts[from..last].iter().filter(|p| !HABITS.contains(&p.as_str())).chain([&parts[last]]);
    let mut out = vec![name_of(without)];
    for at in (0..=from).rev() {
        let longer = name_of(&parts[at..]);
        if !out.contains(&longer) {
            out.push(longer);
        }
    }
    out
}

/// Parts of a path as a name, `/` written as `.`.
fn name_of<'a>(parts: impl IntoIterator<Item = &'a String>) -> String {
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
    let text = parts.join(".");
    let text: String = text.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    let text = text.trim_start_matches('.');
    // Of a name that is too long the end says more.
    let from = (0..=text.len())
        .find(|at| text.is_char_boundary(*at) && text.len() - at <= LONGEST)
        .unwrap_or_default();
    match text[from..].trim_start_matches('.') {
        "" | OF_NULL => "trace".to_owned(),
        name => name.to_owned(),
    }
}

/// A name with a number, where it is taken.
pub(crate) fn numbered(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let fits = |n: &u32| {
        let end = format!("-{n}");
        let cut = (0..=name.len())
            .rev()
            .find(|at| name.is_char_boundary(*at) && at + end.len() <= LONGEST)
            .unwrap_or_default();
        format!("{}{end}", &name[..cut])
    };
    (2..=u32::MAX).map(|n| fits(&n)).find(|name| !taken(name)).unwrap_or_else(|| fits(&u32::MAX))
}

/// Characters of a trace name.
pub fn allowed(c: char) -> bool {
    c.is_alphanumeric() || "._-+[](),@".contains(c)
}

/// Refuses names that could not be a folder everywhere.
///
/// # Errors
/// `usage` with the offending character.
pub fn valid_name(name: &str) -> Result<()> {
    let bad = name.chars().find(|c| !allowed(*c));
    let is_bad = name.is_empty() || name.starts_with('.') || name.len() > 200 || name == OF_NULL;
    if is_bad || bad.is_some() {
        let why = match bad {
            Some(c) => format!("holds {c:?}"),
            None if name == OF_NULL => "stands for none where folders are parts of a table".into(),
            None => "is empty, too long, or starts with a dot".into(),
        };
        return Err(Error::new(
            "usage",
            format!("a trace cannot be named {name:?}: the name {why}"),
        )
        .hint("use letters, digits and . _ - + [ ] ( ) , @"));
    }
    Ok(())
}

/// The name that a trace got.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// The name.
    pub(crate) name: String,
    /// The reason why it is not the name that was wished for.
    pub(crate) finding: Option<String>,
    /// A trace that has a longer name now: before and after.
    pub(crate) renamed: Option<(String, String)>,
}

/// The name that a trace is to have.
pub(crate) struct Wish<'a> {
    /// Names from the path, the shortest first; one where the user named it.
    pub(crate) names: &'a [String],
    /// Whether the user named it.
    pub(crate) is_named: bool,
    /// Folder of the job.
    pub(crate) root: &'a Path,
    /// The path that the name comes from.
    pub(crate) label: &'a Path,
    /// Names that this ingest gave to other traces.
    pub(crate) given: &'a BTreeSet<String>,
    /// Names that traces had before.
    pub(crate) aliases: &'a BTreeSet<String>,
}

/// The holder of a name that a trace is to have.
enum Holder {
    /// Nobody, or the same job before.
    None,
    /// Another path.
    Other(Box<Manifest>),
    /// A trace that had it once.
    Unknown,
}

impl Store {
    /// The name for a trace, in the turn of this process: the shortest one that no other path has.
    /// Where one has it, and its name comes from its path too, both get longer ones, so that names
    /// do not depend on which was first.
    ///
    /// # Errors
    /// `io` when the other trace cannot be renamed.
    pub(crate) fn claim(&self, wish: &Wish<'_>) -> Result<Claimed> {
        let shortest = wish.names.first().cloned().unwrap_or_default();
        let other = match self.holder(wish, &shortest) {
            Holder::None => {
                return Ok(Claimed { name: shortest, ..Claimed::default() });
            }
            Holder::Other(other) => Some(other),
            Holder::Unknown => None,
        };
        let is_free = |name: &str| matches!(self.holder(wish, name), Holder::None);
        let theirs = match &other {
            Some(other) if !other.named => names_of(other.label()),
            _ => Vec::new(),
        };
        let longer = wish.names[1..].iter().find(|name| !theirs.contains(name) && is_free(name));
        let name = longer.cloned().unwrap_or_else(|| numbered(&shortest, |name| !is_free(name)));
        let mut said = format!("the name `{shortest}` was taken; this trace is `{name}`");
        let mut renamed = None;
        if let Some(other) = other {
            said = format!(
                "the name `{shortest}` was taken by the trace of {}; this one is `{name}`",
                other.label().display()
            );
            let free = |to: &&String| !wish.names.contains(to) && is_free(to) && **to != name;
            let to = theirs.iter().find(free);
            if let (Some(to), true) = (to, longer.is_some() && !wish.is_named) {
                self.rename(&other.trace, to, !wish.given.contains(&other.trace), false)?;
                said.push_str(&format!(", and that one `{to}` now"));
                renamed = Some((other.trace.clone(), to.clone()));
            }
        }
        Ok(Claimed { name, finding: Some(said), renamed })
    }

    /// The holder of a name.
    fn holder(&self, wish: &Wish<'_>, name: &str) -> Holder {
        let directory = self.directory(name);
        if !directory.exists() {
            return if wish.aliases.contains(name) { Holder::Unknown } else { Holder::None };
        }
        match Manifest::parse(&directory) {
            // What is there is of no use to anybody.
            Err(_) => Holder::None,
            Ok(m) if wish.given.contains(name) => Holder::Other(Box::new(m)),
            Ok(m) if m.root == wish.root && m.is_labelled(wish.label) => Holder::None,
            Ok(m) => Holder::Other(Box::new(m)),
        }
    }

    /// The name that a trace has now, if another process renamed it.
    pub(crate) fn current(&self, name: &str, root: &Path) -> String {
        let is_it = |m: &Manifest| m.root == root && m.aliases.iter().any(|alias| alias == name);
        if self.directory(name).exists() {
            return name.to_owned();
        }
        let found = self.found().into_iter().find(|found| is_it(&found.manifest));
        found.map_or_else(|| name.to_owned(), |found| found.manifest.trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fits_into_the_longest_name() {
        let taken = |name: &str| ["job", "job-2", "job-3"].contains(&name);
        assert_eq!(numbered("job", taken), "job-4");
        for (name, left) in [("x".repeat(LONGEST), LONGEST - 2), ("é".repeat(LONGEST / 2), 99)] {
            let found = numbered(&name, |_| false);
            assert!(found.len() <= LONGEST && found.ends_with("-2"), "{found}");
            assert_eq!(found.trim_end_matches("-2").chars().count(), left, "{found}");
        }
    }

    #[test]
    fn folders_that_say_nothing_carry_their_parents() {
        for (path, name) in [
            ("/d/jobA/profile_trace/iteration_10", "jobA.iteration_10"),
            ("/d/jobA/profile_traces", "jobA.profile_traces"),
            ("/d/jobA/traces/iteration_10", "jobA.iteration_10"),
            ("/d/jobA", "jobA"),
            ("/d/torchrec/run_a", "torchrec.run_a"),
            ("/d/torchrec/run_10", "torchrec.run_10"),
            ("/d/torchrec/run_a_longer_story", "run_a_longer_story"),
            ("/d/experiments/B/56cu_256threads", "B.56cu_256threads"),
            ("/d/rccl_a/37cu_384threads.v1.2", "rccl_a.37cu_384threads.v1.2"),
            ("/d/llama/tp2_dp4", "llama.tp2_dp4"),
            ("/d/llama/tp_2-pp_4", "llama.tp_2-pp_4"),
            ("/d/vit/2024_05_01_12_30_00", "vit.2024_05_01_12_30_00"),
            ("/d/resnet50_num_workers_4", "resnet50_num_workers_4"),
            ("/d/gloo-ddp-2rank", "gloo-ddp-2rank"),
            ("/d/jax-cpu-8dev", "jax-cpu-8dev"),
            ("/d/my job/trace", "my_job.trace"),
            ("/d/a/model", "model"),
            ("/iteration_10", "iteration_10"),
            ("/", "trace"),
            ("s3://bucket/jobA/iteration_10", "jobA.iteration_10"),
            ("s3://bucket", "bucket"),
        ] {
            assert_eq!(names_of(Path::new(path))[0], name, "{path}");
        }
    }

    #[test]
    fn each_name_is_longer_than_the_one_before() {
        let all = names_of(Path::new("/d/jobA/traces/iteration_10"));
        assert_eq!(
            all,
            ["jobA.iteration_10", "jobA.traces.iteration_10", "d.jobA.traces.iteration_10"]
        );
        // Nothing above says more: the nearest folders are taken.
        let deep = names_of(Path::new("/w/1/2/3/4/5/6"));
        assert_eq!(deep[0], "2.3.4.5.6");
        assert!(deep.windows(2).all(|pair| pair[1].len() > pair[0].len()), "{deep:?}");
    }

    #[test]
    fn no_trace_is_named_as_what_is_null_in_a_folder() {
        let path = Path::new("/d/jobA").join(OF_NULL);
        assert_eq!(names_of(&path)[..2], ["trace", "jobA.__HIVE_DEFAULT_PARTITION__"]);
        let error = valid_name(OF_NULL).expect_err("its rows would be of no trace");
        assert!(error.message.contains("stands for none"), "{error:?}");
        assert!(valid_name("jobA.__HIVE_DEFAULT_PARTITION__").is_ok());
    }

    #[test]
    fn names_fit_into_a_folder() {
        let long = format!("/{}/iteration_1", "ä".repeat(150));
        let name = &names_of(Path::new(&long))[0];
        assert!(name.len() <= LONGEST && name.ends_with("ä.iteration_1"), "{name}");
        let next = numbered(name, |n| n.ends_with("-2"));
        assert!(next.len() <= LONGEST && next.ends_with("-3"), "{next}");
        assert_eq!(numbered("job", |_| false), "job-2");
    }
}
