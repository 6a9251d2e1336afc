//! To which job's folder a snapshot of memory belongs: scripts write them beside the traces, below
//! them, into `memory_snapshot/iteration_N` beside `profile_traces/iteration_N`, or into
//! `memory_snapshot` beside the only `iteration_N`.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::ingest::find::names::{is_numbered, is_process_folder, is_rank_folder};
use crate::ingest::find::walk::{self, Candidate};
use crate::ingest::options::Kinds;
use crate::input::place::{entries, is_dir, is_remote};
use crate::schema::source::Source;

/// The folder of the job of a file: the deepest one left after stripping the folders that belong
/// to one rank or to a profiler's habits (`rank3`, `torch_profiler`, `profile_trace`,
/// `plugins/profile/<time>`).
pub fn job_root(file: &Path) -> PathBuf {
    let mut root = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut of_xla = false;
    loop {
        let Some(name) = root.file_name().map(|n| n.to_string_lossy().into_owned()) else {
            return root;
        };
        let parent_is = |depth: usize, wanted: &str| {
            root.ancestors().nth(depth).and_then(Path::file_name).is_some_and(|n| n == wanted)
        };
        let levels = if is_rank_folder(&name)
            || of_xla && is_process_folder(&name)
            || matches!(
                name.as_str(),
                "torch_profiler"
                    | "profile_trace"
                    | "profile_traces"
                    | "memory_snapshot"
                    | "memory_snapshots"
            ) {
            1
        } else if parent_is(1, "profile") && parent_is(2, "plugins") {
            of_xla = true;
            3
        } else {
            return root;
        };
        match root.ancestors().nth(levels) {
            // A bucket may be named like anything.
            Some(parent) if parent != Path::new("") && !is_above_buckets(&root, parent) => {
                root = parent.to_owned();
            }
            _ => return root,
        }
    }
}

/// Whether a path above one in an object store is that of no bucket any more.
fn is_above_buckets(path: &Path, above: &Path) -> bool {
    is_remote(path) && !is_remote(above)
}

/// The folder of the job of a record of a benchmark: without the folders that scripts make for such
/// records alone.
pub fn bench_root(file: &Path) -> PathBuf {
    let mut root = job_root(file);
    while let (Some(name), Some(parent)) = (root.file_name(), root.parent()) {
        let name = name.to_string_lossy();
        let is_own = name == "results_json" || name.contains("gates_logs");
        if !is_own || parent == Path::new("") || is_above_buckets(&root, parent) {
            break;
        }
        root = parent.to_owned();
    }
    root
}

/// Folders of traces.
const OF_TRACES: [&str; 3] = ["profile_trace", "profile_traces", "torch_profiler"];
/// Folders of snapshots.
const OF_SNAPSHOTS: [&str; 2] = ["memory_snapshot", "memory_snapshots"];

fn is_one_of(component: &Component<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| component.as_os_str() == *name)
}

/// A path without the folders that say only what lies in them.
fn plain(path: &Path) -> PathBuf {
    let says_kind = |c: &Component<'_>| is_one_of(c, &OF_TRACES) || is_one_of(c, &OF_SNAPSHOTS);
    path.components().filter(|c| !says_kind(c)).collect()
}

/// Folders between one of traces and that of a job, as scripts make them: `iteration_N` and one
/// more.
const BETWEEN: usize = 2;

/// The folder that holds the folder of the traces which the folder of a job lies in, where it does.
pub(crate) fn folder_above(root: &Path) -> Option<PathBuf> {
    let near = root.ancestors().take(BETWEEN + 1);
    let of_traces =
        |path: &Path| path.file_name().is_some_and(|n| OF_TRACES.iter().any(|o| n == *o));
    near.filter(|path| of_traces(path)).last()?.parent().map(Path::to_owned)
}

/// Folders with snapshots that scripts write beside the folder of a trace.
pub(crate) fn folders_beside(root: &Path, first_file: &Path) -> Vec<PathBuf> {
    // The folder of the traces is part of the root, or was stripped from it.
    let is_of_traces =
        |path: &&Path| path.components().next_back().is_some_and(|c| is_one_of(&c, &OF_TRACES));
    let traces = root.ancestors().find(is_of_traces);
    let (above, rest) = match traces.and_then(|traces| Some((traces, traces.parent()?))) {
        Some((traces, above)) => (above, root.strip_prefix(traces).unwrap_or(Path::new(""))),
        None => {
            let below = first_file.strip_prefix(root).ok().and_then(|p| p.components().next());
            if !below.is_some_and(|c| is_one_of(&c, &OF_TRACES)) {
                return Vec::new();
            }
            (root, Path::new(""))
        }
    };
    let folders = OF_SNAPSHOTS.iter().map(|name| above.join(name).join(rest));
    folders.filter(|folder| is_dir(folder)).collect()
}

/// Folders with snapshots beside the folder of an iteration that say no iteration themselves: they
/// are of the only one that there is.
pub(crate) fn folders_of_only(root: &Path) -> Vec<PathBuf> {
    let iteration = |path: &Path| {
        path.file_name().is_some_and(|n| is_numbered(&n.to_string_lossy(), "iteration"))
    };
    let folders = |path: &Path| -> Vec<PathBuf> {
        entries(path).into_iter().filter(|path| is_dir(path)).collect()
    };
    let Some(parent) = root.parent().filter(|_| iteration(root)) else { return Vec::new() };
    if folders(parent).iter().filter(|folder| iteration(folder)).count() != 1 {
        return Vec::new();
    }
    // Beside it, or beside the folder of traces that it lies in.
    let of_traces = parent.components().next_back().is_some_and(|c| is_one_of(&c, &OF_TRACES));
    let above = parent.parent().filter(|_| of_traces);
    let places = [Some(parent), above].into_iter().flatten();
    let named = places.flat_map(|place| OF_SNAPSHOTS.iter().map(|name| place.join(name)));
    named.filter(|f| is_dir(f) && !folders(f).iter().any(|below| iteration(below))).collect()
}

/// The folder of the job of a snapshot at `file`: among those of traces the one of the same name,
/// else the innermost one that holds it; else its own.
pub(crate) fn home<'r>(
    file: &Path,
    mut roots: impl Iterator<Item = &'r PathBuf> + Clone,
    by_hand: bool,
) -> PathBuf {
    let own = job_root(file);
    let same = roots.clone().find(|root| plain(root) == plain(&own));
    let around = || roots.clone().filter(|root| file.starts_with(root));
    let innermost = || around().max_by_key(|root| root.components().count());
    // What says no iteration is of the only one.
    let names_kind = file.components().any(|c| is_one_of(&c, &OF_SNAPSHOTS));
    let below = || {
        let mut below = roots.clone().filter(|root| plain(root).starts_with(plain(&own)));
        below.next().filter(|_| names_kind && below.next().is_none())
    };
    if let Some(root) = same.or_else(innermost).or_else(below) {
        return root.clone();
    }
    if by_hand {
        // Of several jobs the one whose folder is named alike, else the first.
        let alike = roots.clone().find(|root| root.file_name() == own.file_name());
        if let Some(root) = alike.or_else(|| roots.next()) {
            return root.clone();
        }
    }
    own
}

/// The folder of the job of a record of a benchmark: among those of traces its own, else the
/// innermost one that holds it, else the only one below its folder; else its own.
pub(crate) fn bench_home(file: &Path, roots: &[PathBuf]) -> PathBuf {
    let own = bench_root(file);
    let around = roots.iter().filter(|root| own.starts_with(root));
    if let Some(root) = around.max_by_key(|root| root.components().count()) {
        return root.clone();
    }
    let mut below = roots.iter().filter(|root| root.starts_with(&own));
    match (below.next(), below.next()) {
        (Some(root), None) => root.clone(),
        _ => own,
    }
}

/// Snapshots below a path that was given for them.
///
/// # Errors
/// `file-unreadable`; `nothing-found` when there is none.
pub(crate) fn given(path: &Path, kinds: &Kinds) -> Result<Vec<Candidate>> {
    let mut found = walk::below(path, None, kinds)?;
    found.retain(|c| c.kind.is_read() && c.kind.source() == Source::Memory);
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::new("nothing-found", "no memory snapshot was found")
            .at(path.display().to_string())
            .hint("give a pickle of torch.cuda.memory._dump_snapshot (.pickle, .pkl), or a folder with such files")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_jobs() {
        for (file, root) in [
            ("exp/56cu/torch_profiler/rank0/trace.json", "exp/56cu"),
            (
                "out/profile_trace/llama/iteration_10/rank0_trace.json",
                "out/profile_trace/llama/iteration_10",
            ),
            ("w/profile_traces/rank0.json", "w"),
            ("j/plugins/profile/2026_11_21/vm.trace.json.gz", "j"),
            ("j/proc1/plugins/profile/2026_11_21/vm.xplane.pb", "j"),
            ("j/proc1/vm.json", "j/proc1"),
            ("a/b.json", "a"),
            ("rank0/trace.json", "rank0"),
        ] {
            assert_eq!(job_root(Path::new(file)), Path::new(root), "{file}");
        }
    }

    #[test]
    fn roots_of_benchmark_records() {
        for (file, root) in [
            ("run/results_json/qps4.json", "run"),
            ("run/baseline_gates_logs/gates_logs_0/gate_logs_12.json", "run"),
            ("run/bench_results.jsonl", "run"),
            ("results_json/a.json", "results_json"),
        ] {
            assert_eq!(bench_root(Path::new(file)), Path::new(root), "{file}");
        }
    }

    #[test]
    fn snapshots_find_the_iteration_of_their_name() {
        let roots: Vec<PathBuf> = [
            "w/profile_traces/iteration_10",
            "w/profile_traces/iteration_20",
            "v",
            "u/iteration_10",
            "t/profile_trace/iteration_10",
        ]
        .map(PathBuf::from)
        .into();
        for (file, by_hand, expected) in [
            ("w/memory_snapshot/iteration_20/rank0_memory_snapshot.pickle", false, &roots[1]),
            ("v/memory_snapshot/rank0_memory_snapshot.pickle", false, &roots[2]),
            ("v/a/b/rank0.pickle", false, &roots[2]),
            ("w/profile_traces/iteration_10/rank0.pickle", false, &roots[0]),
            ("w/memory_snapshot/rank0.pickle", false, &PathBuf::from("w")),
            ("u/memory_snapshot/rank0.pickle", false, &roots[3]),
            ("t/profile_trace/memory_snapshot/rank0.pickle", false, &roots[4]),
            ("t/rank0.pickle", false, &PathBuf::from("t")),
            ("x/iteration_20/rank0.pickle", false, &PathBuf::from("x/iteration_20")),
            ("x/iteration_20/rank0.pickle", true, &roots[1]),
            ("x/rank0.pickle", true, &roots[0]),
        ] {
            assert_eq!(&home(Path::new(file), roots.iter(), by_hand), expected, "{file}");
        }
    }

    #[test]
    fn records_of_benchmarks_find_the_job_beside_them() {
        let roots: Vec<PathBuf> = ["w/traces", "v", "u/a", "u/b"].map(PathBuf::from).into();
        for (file, expected) in [
            ("w/bench.json", "w/traces"),
            ("w/traces/x/bench.json", "w/traces"),
            ("w/traces/bench.json", "w/traces"),
            ("v/results_json/a.json", "v"),
            ("u/bench.json", "u"),
            ("u/a/bench.json", "u/a"),
            ("t/bench.json", "t"),
        ] {
            assert_eq!(bench_home(Path::new(file), &roots), Path::new(expected), "{file}");
        }
    }

    #[test]
    fn a_folder_that_says_no_iteration_is_of_the_only_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let w = folder.path();
        let make = |name: &str| std::fs::create_dir_all(w.join(name)).expect("a folder");
        make("profile_trace/iteration_10");
        make("memory_snapshot");
        let root = w.join("profile_trace/iteration_10");
        assert_eq!(folders_of_only(&root), [w.join("memory_snapshot")]);
        assert!(folders_of_only(&w.join("profile_trace")).is_empty());
        make("profile_trace/iteration_20");
        assert!(folders_of_only(&root).is_empty());
        make("one/iteration_1");
        make("one/memory_snapshots/iteration_1");
        assert!(folders_of_only(&w.join("one/iteration_1")).is_empty());
    }

    #[test]
    fn the_folder_above_is_near() {
        for (root, expected) in [
            ("/w/profile_traces/iteration_10", Some("/w")),
            ("/w/profile_trace/a/iteration_10", Some("/w")),
            ("/w/profile_trace/a/b/iteration_10", None),
            ("/w/iteration_10", None),
        ] {
            assert_eq!(folder_above(Path::new(root)).as_deref(), expected.map(Path::new), "{root}");
        }
    }

    #[test]
    fn folders_of_snapshots_lie_beside_those_of_traces() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let w = folder.path();
        let beside = w.join("memory_snapshot/iteration_10");
        std::fs::create_dir_all(&beside).expect("a folder");
        let root = w.join("profile_traces/iteration_10");
        assert_eq!(folders_beside(&root, &root.join("rank0.json")), [beside]);
        let stripped = w.join("profile_traces/rank0.json");
        assert_eq!(folders_beside(w, &stripped), [w.join("memory_snapshot/")]);
        assert!(folders_beside(w, &w.join("rank0.json")).is_empty());
    }
}
