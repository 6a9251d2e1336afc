//! Records of benchmarks: each is of the whole job, hence of no rank, and joins the trace beside
//! it. All that lie beside no trace are one trace together.

use std::path::Path;

use crate::ingest::ranks::facts::{Facts, Left, Member};

/// Joins records to the traces that are there, or makes a trace of them where there are none.
/// `lost` says that there is a trace that cannot be made.
pub(crate) fn join(
    files: &[Facts],
    which: &[usize],
    traces: &mut Vec<Vec<Member>>,
    lost: bool,
) -> Vec<Left> {
    let member = |file: usize| Member { file, rank: None, rank_source: "", world_size: None };
    if which.is_empty() {
        return Vec::new();
    }
    if traces.is_empty() && !lost {
        traces.push(which.iter().copied().map(member).collect());
        return Vec::new();
    }
    let mut left = Vec::new();
    let mut joined = Vec::new();
    let folder = |file: usize| Path::new(&files[file].path).parent();
    for file in which.iter().copied() {
        let beside: Vec<usize> = (0..traces.len())
            .filter(|trace| traces[*trace].iter().any(|m| folder(m.file) == folder(file)))
            .collect();
        match (traces.len(), &beside[..]) {
            (1, _) => joined.push((0, file)),
            (_, [one]) => joined.push((*one, file)),
            (0, _) => left.push(Left {
                file,
                code: "bench-apart",
                why: "records of benchmarks beside a trace that cannot be made; left out".to_owned(),
            }),
            _ => left.push(Left {
                file,
                code: "bench-apart",
                why: "records of benchmarks beside several traces; left out, because nothing says of which run they are".to_owned(),
            }),
        }
    }
    for (trace, file) in joined {
        traces[trace].push(member(file));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::find::names;
    use crate::ingest::ranks;
    use crate::schema::source::Source;

    fn file(path: &str, source: &str) -> Facts {
        Facts {
            source: Source::of_word(source).expect("a source"),
            path: path.to_owned(),
            shares: 1,
            is_rank: source != "bench",
            name_rank: names::rank_in_name(Path::new(path), Path::new("")),
            stem: names::stem(Path::new(path)),
            sha256: path.to_owned(),
            ..Facts::default()
        }
    }

    /// Members of each trace as source and rank, and what was left out.
    fn split(files: &[Facts]) -> (Vec<Vec<String>>, Vec<usize>) {
        let (traces, errors, left) = ranks::split(files);
        assert_eq!(errors, []);
        let said = |m: &Member| format!("{} {:?}", files[m.file].source, m.rank);
        let traces = traces.iter().map(|t| t.iter().map(said).collect()).collect();
        (traces, left.iter().map(|l| l.file).collect())
    }

    #[test]
    fn records_join_the_only_trace_and_are_of_no_rank() {
        let files = [
            file("rank0.json", "kineto"),
            file("rank1.json", "kineto"),
            file("rank1_bench.json", "bench"),
            file("results_json/a.json", "bench"),
        ];
        let expected = ["kineto Some(0)", "kineto Some(1)", "bench None", "bench None"];
        assert_eq!(split(&files), (vec![expected.map(str::to_owned).to_vec()], vec![]));
    }

    #[test]
    fn records_alone_are_one_trace() {
        let files = [file("a/x.json", "bench"), file("b/y.json", "bench")];
        let expected = ["bench None", "bench None"].map(str::to_owned).to_vec();
        assert_eq!(split(&files), (vec![expected], vec![]));
    }

    #[test]
    fn of_several_traces_the_one_in_the_same_folder_has_them() {
        let files = [
            file("a/bert.json", "kineto"),
            file("b/gpt.json", "kineto"),
            file("b/bench.json", "bench"),
            file("bench.json", "bench"),
        ];
        let (traces, left) = split(&files);
        assert_eq!(traces, [vec!["kineto Some(0)"], vec!["kineto Some(0)", "bench None"]]);
        assert_eq!(left, [3]);
    }

    #[test]
    fn records_join_a_snapshot() {
        let files = [file("rank0.pickle", "memory"), file("bench.json", "bench")];
        assert_eq!(split(&files).0, [["memory Some(0)", "bench None"]]);
    }
}
