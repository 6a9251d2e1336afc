//! Which files of one folder are one trace, and which rank each of them is.
//!
//! The rules, for the files of one job root:
//! 1. A rank is what `--rank` says, then the trace, then the file name. Files of equal bytes under
//!    different rank names are different ranks, whatever stands inside.
//! 2. Files with distinct ranks and one world size are one trace.
//! 3. A rank that comes twice: consecutive windows of one process are read as one; recordings of a
//!    single rank that say different things are a trace each; anything else is an error.
//! 4. Files without any rank are ranks in the order of their pids when they share stem, device and
//!    world size and ran at the same time; otherwise a trace each.
//! 5. Files of Nsight Systems hold several ranks each, and follow rules of their own (`nodes`). A
//!    trace of Kineto and one of Nsight Systems of the same ranks are one trace.
//! 6. So do files of XLA (`hosts`).
//! 7. Execution traces belong to the ranks of the traces beside them (`beside`); where there are no
//!    traces, the rules for files of one rank each are theirs.
//! 8. Snapshots of memory join the trace of their rank (`memory`).
//! 9. Records of benchmarks are of no rank, and join the trace beside them (`bench`).

pub(crate) mod bench;
pub(crate) mod et;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod findings;
pub(crate) mod memory;
pub(crate) mod nsys;
pub(crate) mod xla;

use std::collections::BTreeSet;

use crate::error::Error;
use crate::ingest::ranks::et::is_execution_trace;
use crate::ingest::ranks::facts::{Facts, Left, Member};
use crate::ingest::ranks::files::by_file;
use crate::input::time::EPOCH_FROM_NS;
use crate::schema::source::Source;

/// The traces that the files make, each in the order of its ranks; then what is wrong with the
/// files that make none; then what is left out.
pub fn split(files: &[Facts]) -> (Vec<Vec<Member>>, Vec<Error>, Vec<Left>) {
    let (mut nsys, mut xla, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut ets = Vec::new();
    let mut snapshots = Vec::new();
    let mut benches = Vec::new();
    for (i, file) in files.iter().enumerate() {
        match file.source {
            Source::Nsys => nsys.push(i),
            Source::Xla => xla.push(i),
            Source::Et => ets.push(i),
            Source::Memory => snapshots.push(i),
            Source::Bench => benches.push(i),
            Source::Kineto => others.push(i),
        }
    }
    let (mut traces, mut errors) = by_file(files, &others);
    let (of_nodes, more) = nsys::split(files, &nsys);
    let ranks = |trace: &[Member]| trace.iter().filter_map(|m| m.rank).collect::<BTreeSet<i64>>();
    match (&mut traces[..], &of_nodes[..]) {
        // Side by side: one job, seen by two profilers.
        ([one], [other])
            if errors.is_empty()
                && more.is_empty()
                && are_one_run(files, one, other)
                && (ranks(one).is_subset(&ranks(other)) || ranks(other).is_subset(&ranks(one))) =>
        {
            one.extend(other.iter().cloned());
        }
        _ => traces.extend(of_nodes),
    }
    traces.extend(xla::split(files, &xla));
    errors.extend(more);
    if ets.len() + snapshots.len() + benches.len() == files.len() {
        let (alone, more) = by_file(files, &ets);
        traces.extend(alone);
        errors.extend(more);
    } else {
        et::join(files, &ets, &mut traces);
    }
    let lost = !errors.is_empty();
    let (mut left, more) = memory::join(files, &snapshots, &mut traces, lost);
    errors.extend(more);
    left.extend(bench::join(files, &benches, &mut traces, !errors.is_empty()));
    for trace in &mut traces {
        // What is of no rank comes last, and what only tells more of a rank after the rank.
        trace.sort_by_key(|m| {
            let f = &files[m.file];
            (m.rank.is_none(), m.rank, is_execution_trace(f), f.span_ns, m.file)
        });
    }
    traces.sort_by_key(|trace| trace.iter().map(|m| m.file).min());
    (traces, errors, left)
}

/// Whether traces of two profilers may be of one run: ranks that are known on one side at least, or
/// the same time, or the same name.
fn are_one_run(files: &[Facts], one: &[Member], other: &[Member]) -> bool {
    let known =
        |trace: &[Member]| trace.iter().any(|m| m.rank.is_some() && m.rank_source != "order");
    let span = |trace: &[Member]| {
        let spans = trace.iter().filter_map(|m| files[m.file].span_ns);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let stems = |trace: &[Member]| -> BTreeSet<&str> {
        trace.iter().map(|m| files[m.file].stem.as_str()).collect()
    };
    // Times that count from the start of a capture say nothing.
    let at_once = matches!((span(one), span(other)), (Some(a), Some(b))
        if a.0.min(b.0) >= EPOCH_FROM_NS && a.0 < b.1 && b.0 < a.1);
    known(one) || known(other) || at_once || stems(one) == stems(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::find::names;

    fn file(path: &str, trace_rank: Option<i64>, world: Option<i64>) -> Facts {
        let p = std::path::Path::new(path);
        Facts {
            path: path.to_owned(),
            shares: 1,
            is_rank: true,
            trace_rank,
            name_rank: names::rank_in_name(p, std::path::Path::new("")),
            world_size: world,
            pid: Some(100),
            span_ns: Some((0, 100)),
            stem: names::stem(p),
            sha256: path.to_owned(),
            ..Facts::default()
        }
    }

    /// Ranks of the files of each trace, by path.
    fn shape(files: &[Facts]) -> Vec<Vec<(String, i64)>> {
        let (traces, errors, _) = split(files);
        assert_eq!(errors, []);
        traces
            .iter()
            .map(|t| t.iter().map(|m| (files[m.file].path.clone(), m.rank.unwrap_or(-1))).collect())
            .collect()
    }

    #[test]
    fn stated_ranks_of_one_world_are_one_trace() {
        let files = [file("b_77.1.json", Some(1), Some(2)), file("a_76.2.json", Some(0), Some(2))];
        assert_eq!(shape(&files), [[("a_76.2.json".into(), 0), ("b_77.1.json".into(), 1)]]);
    }

    #[test]
    fn unrelated_models_are_a_trace_each() {
        let files = [file("bert_1.json", None, None), file("gpt_1.json", None, None)];
        assert_eq!(shape(&files).len(), 2);
    }

    #[test]
    fn recordings_of_one_worker_are_a_trace_each() {
        let files = [
            file("worker0.1.pt.trace.json", None, None),
            file("worker0.2.pt.trace.json", None, None),
        ];
        assert_eq!(shape(&files).len(), 2);
    }

    #[test]
    fn consecutive_windows_of_a_stated_rank_are_one_trace() {
        let mut files = [
            file("h_1.5.json", Some(0), Some(2)),
            file("h_1.6.json", Some(0), Some(2)),
            file("h_2.5.json", Some(1), Some(2)),
        ];
        files[1].span_ns = Some((100, 200));
        assert_eq!(shape(&files)[0].len(), 3);
        files[1].span_ns = Some((99, 200));
        let (traces, errors, _) = split(&files);
        assert!(traces.is_empty());
        assert_eq!(errors[0].code, "duplicate-rank");
        // A rank that only a name says is no proof of one run.
        let mut named = [file("rank0.5.json", None, None), file("rank0.6.json", None, None)];
        named[1].span_ns = Some((100, 200));
        assert_eq!(shape(&named).len(), 2);
    }

    #[test]
    fn a_retry_beside_a_job_is_an_error() {
        let files = [
            file("rank4.json", Some(4), Some(8)),
            file("rank5.json", Some(5), Some(8)),
            file("rank5_retry.json", Some(5), Some(8)),
        ];
        let (_, errors, _) = split(&files);
        assert_eq!(errors[0].message, "two traces claim rank 5");
        assert_eq!(errors[0].place.as_deref(), Some("rank5.json and rank5_retry.json"));
    }

    #[test]
    fn a_copy_of_the_only_file_is_an_error() {
        let mut files = [file("a.json", Some(0), Some(2)), file("b.json", Some(0), Some(2))];
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(split(&files).1[0].code, "duplicate-rank");
    }

    #[test]
    fn equal_bytes_under_other_rank_names_are_other_ranks() {
        let mut files =
            [file("rank0.json", Some(0), Some(8)), file("rank1.json", Some(0), Some(8))];
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(shape(&files), [[("rank0.json".into(), 0), ("rank1.json".into(), 1)]]);
    }

    #[test]
    fn a_rank_by_hand_joins_the_job() {
        let mut files =
            [file("rank0.json", Some(0), Some(8)), file("rank0_retry.json", Some(0), None)];
        files[1].flag_rank = Some(6);
        assert_eq!(shape(&files), [[("rank0.json".into(), 0), ("rank0_retry.json".into(), 6)]]);
    }

    #[test]
    fn two_jobs_side_by_side_are_told_apart_by_name() {
        let files = [
            file("a_rank0.json", Some(0), Some(2)),
            file("a_rank1.json", Some(1), Some(2)),
            file("b_rank0.json", Some(0), Some(2)),
            file("b_rank1.json", Some(1), Some(2)),
        ];
        assert_eq!(shape(&files).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn equal_pids_of_several_hosts_are_ranks_by_name() {
        let mut files = [file("node10_1.json", None, None), file("node9_1.json", None, None)];
        for f in &mut files {
            f.span_ns = Some((EPOCH_FROM_NS, EPOCH_FROM_NS + 100));
        }
        assert_eq!(shape(&files), [[("node9_1.json".into(), 0), ("node10_1.json".into(), 1)]]);
        // A copy is no other process, and neither is what ran at a time that nobody knows.
        files[1].sha256 = files[0].sha256.clone();
        assert_eq!(shape(&files).len(), 2);
        let relative = [file("node10_1.json", None, None), file("node9_1.json", None, None)];
        assert_eq!(shape(&relative).len(), 2);
    }

    #[test]
    fn files_without_rank_that_ran_together_are_ranks_by_pid() {
        let mut files = [file("h_9.1.json", None, None), file("h_8.1.json", None, None)];
        files[0].pid = Some(9);
        files[1].pid = Some(8);
        assert_eq!(shape(&files), [[("h_8.1.json".into(), 0), ("h_9.1.json".into(), 1)]]);
    }
}
