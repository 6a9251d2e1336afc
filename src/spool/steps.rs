//! Steps of a rank by the names of ranges on its host: which range is one, by patterns in the order
//! of their rank, and which of those that are found are kept.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::error::{Error, Result};
use crate::spool::events::StepRow;
use crate::spool::launches::{NONE, some};
use crate::spool::rows::Rows;
use crate::spool::sort_ints::Spill;

/// Names of ranges that mark steps when the user gives none, the surest first: of a rank, the first
/// pattern that occurs says what its steps are. A group holds the number of the step.
///
/// Sources: PyTorch's own marker; scripts that follow NVIDIA's and PyTorch's profiling guides
/// (`iteration 5`, `iteration5`, `step 5`); Megatron-LM and NeMo (`train_step`, `training_step`);
/// PyTorch Lightning's profiler connector; vLLM's and SGLang's engine steps.
const DEFAULTS: [(&str, &str); 8] = [
    ("ProfilerStep", r"^ProfilerStep#(\d+)$"),
    (
        "iteration N",
        r"^(?:(?:train|training|global)[ _-]?)?iter(?:ation)?[ _:#=-]*(\d+)(?: of \d+|/\d+)?$",
    ),
    (
        "step N",
        r"^(?:(?:train|training|global|optim|optimizer)[ _-]?)?step[ _:#=-]*(\d+)(?: of \d+|/\d+)?$",
    ),
    ("run_training_batch", r"^\[pl\]\[profile\]run_training_batch$"),
    ("train_step", r"^(?:[\w.]+(?:\.|::))?(?:train|training)_step$"),
    ("iteration", r"^(?:(?:train|training)[ _-]?)?iteration$"),
    (
        "engine step",
        r"^(?:execute_(?:\d+_)?context_\d+\([^()]*\)_generation_\d+\([^()]*\)|step\[[A-Z_]+(?: [^\]]*)?\]|(?:[\w.]+(?:\.|: ?))?execute_model(?:: .*)?|(?:[\w.]+\.)?run_batch|(?:[\w.]+\.)?engine_step)$",
    ),
    ("step", r"^step$"),
];

/// Stands for a pattern: the profiler of XLA says the number of the step with the range.
pub const STEP_NUMBER: i64 = -2;
/// Stands for a pattern: the profiler of XLA lists the steps of a device.
pub const STEP_LINE: i64 = -1;

/// Longest pattern that is taken, and the memory that its automaton may use: a pattern comes from
/// the user, but a typing error must not eat the machine.
const MAX_AUTOMATON: usize = 4 << 20;

/// What a range must be named to mark a step.
#[derive(Debug)]
pub struct StepPatterns {
    any: RegexSet,
    each: Vec<(String, Regex)>,
    /// Whether the user gave the pattern.
    pub by_user: bool,
}

/// A range that may be a step: priority of its pattern, start, end negated (longer first), event,
/// number of the step or `NONE`.
pub type Candidate = [i64; 5];

impl StepPatterns {
    /// The patterns of every profiler and framework that is known. They are made once, where a
    /// trace needs them: that costs as much as a small file.
    pub fn known() -> Arc<Self> {
        static KNOWN: LazyLock<Arc<StepPatterns>> = LazyLock::new(|| {
            let patterns = DEFAULTS.iter().map(|(label, text)| ((*label).to_owned(), *text));
            let patterns = StepPatterns::new(patterns.collect(), true);
            Arc::new(patterns.expect("the patterns are regular expressions"))
        });
        KNOWN.clone()
    }

    /// The pattern that the user gave.
    ///
    /// # Errors
    /// `usage` when it is no regular expression.
    pub fn of_user(pattern: &str) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::new("usage", "--step-range is empty, and would take every range")
                .hint(r"write for example --step-range '^train_step (\d+)$'"));
        }
        let wrong = |e: regex::Error| {
            Error::new("usage", format!("--step-range {pattern:?} is no regular expression"))
                .facts(e.to_string().lines().last().unwrap_or_default().trim().to_owned())
                .hint(r"write for example --step-range '^train_step (\d+)$'")
        };
        let mut out = Self::new(vec![(pattern.to_owned(), pattern)], false).map_err(wrong)?;
        out.by_user = true;
        Ok(out)
    }

    fn new(patterns: Vec<(String, &str)>, any_case: bool) -> Result<Self, regex::Error> {
        let texts: Vec<&str> = patterns.iter().map(|(_, text)| *text).collect();
        let any = RegexSetBuilder::new(&texts)
            .case_insensitive(any_case)
            .size_limit(MAX_AUTOMATON)
            .build()?;
        let mut each = Vec::with_capacity(patterns.len());
        for (label, text) in &patterns {
            let regex = RegexBuilder::new(text)
                .case_insensitive(any_case)
                .size_limit(MAX_AUTOMATON)
                .build()?;
            each.push((label.clone(), regex));
        }
        Ok(Self { any, each, by_user: false })
    }

    /// The pattern that a name matches, and the number that the name says.
    pub fn find(&self, name: &str) -> Option<(i64, i64)> {
        let at = self.any.matches(name).iter().next()?;
        let found = self.each[at].1.captures(name)?;
        let number = match found.get(1) {
            Some(group) => group.as_str().parse().ok(),
            None if self.by_user => first_number(&name[found.get(0)?.start()..]),
            None => None,
        };
        Some((at as i64, number.unwrap_or(NONE)))
    }
}

/// The first digits of a text as a number.
fn first_number(text: &str) -> Option<i64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[from..].bytes().take_while(u8::is_ascii_digit).count();
    text[from..from + digits].parse().ok()
}

/// Collects the ranges of a rank that may be steps.
pub struct StepRanges {
    found: Spill<5>,
    /// Ranges of each pattern.
    counts: std::collections::BTreeMap<i64, u64>,
}

impl StepRanges {
    /// Records past so many bytes go into files of `folder`.
    pub fn new(folder: &Path, bytes: usize) -> Self {
        Self { found: Spill::new(folder, "steps", bytes), counts: Default::default() }
    }

    /// Takes candidates whose events count from `first`.
    ///
    /// # Errors
    /// `io` when they cannot be written.
    pub fn add(&mut self, candidates: &[Candidate], first: i64) -> Result<()> {
        for [pattern, start, end, event, step] in candidates {
            *self.counts.entry(*pattern).or_default() += 1;
            self.found.push([*pattern, *start, *end, event + first, *step])?;
        }
        Ok(())
    }

    /// Gives the rows of `step_ranges`: those of the surest pattern that occurs more than once
    /// (else of the surest), without those that lie inside another (a marker on two threads, or
    /// nested in itself). Ranges without a number are numbered in order. Returns the pattern and
    /// the number of steps.
    ///
    /// # Errors
    /// `io` when records cannot be read; what `flush` returns.
    pub fn finish(
        self,
        patterns: &StepPatterns,
        rows: &mut Rows,
        mut flush: impl FnMut(&mut Rows) -> Result<()>,
    ) -> Result<Option<(String, u64)>> {
        // One range alone may be named so by accident, where another name comes often.
        let often = self.counts.iter().find(|(_, n)| **n > 1).or(self.counts.iter().next());
        let Some(chosen) = often.map(|(pattern, _)| *pattern) else { return Ok(None) };
        let label = match usize::try_from(chosen) {
            Ok(at) => patterns.each[at].0.as_str(),
            Err(_) if chosen == STEP_NUMBER => "step_num",
            Err(_) => "Steps",
        };
        let mut open_until = i64::MIN;
        let mut count = 0;
        for row in self.found.sorted()? {
            let [pattern, start, end, event, step] = row?;
            let end = -end;
            if pattern != chosen {
                continue;
            }
            if end <= open_until {
                continue;
            }
            open_until = end;
            StepRow {
                event_id: event,
                step: some(step).unwrap_or(count),
                ts_ns: start,
                dur_ns: end.checked_sub(start),
                marker: label,
            }
            .push(rows);
            flush(rows)?;
            count += 1;
        }
        Ok(Some((label.to_owned(), count as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    #[test]
    fn names_of_steps() {
        let known = StepPatterns::known();
        for (name, label, number) in [
            ("ProfilerStep#12", "ProfilerStep", 12),
            ("iteration 5", "iteration N", 5),
            ("iteration5", "iteration N", 5),
            ("Iteration: 7/100", "iteration N", 7),
            ("train_iter_3", "iteration N", 3),
            ("step 0", "step N", 0),
            ("Step #4", "step N", 4),
            ("global_step=9", "step N", 9),
            ("train_step", "train_step", NONE),
            ("training_step", "train_step", NONE),
            ("[pl][profile]run_training_batch", "run_training_batch", NONE),
            ("iteration", "iteration", NONE),
            ("execute_context_1(512)_generation_3(3)", "engine step", NONE),
            (
                "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)",
                "engine step",
                NONE,
            ),
            ("step[DECODE bs=32]", "engine step", NONE),
            ("step[EXTEND bs=2 toks=1024]", "engine step", NONE),
            ("gpu_model_runner: execute_model", "engine step", NONE),
            ("Scheduler.run_batch", "engine step", NONE),
        ] {
            let (at, found) = known.find(name).unwrap_or_else(|| panic!("{name} is a step"));
            assert_eq!((known.each[at as usize].0.as_str(), found), (label, number), "{name}");
        }
        for name in [
            "aten::mm",
            "optimizer.step",
            "Optimizer.step#AdamW.step",
            "forward_step",
            "lr_step_size",
            "step 3 of nothing else",
            "step[3]",
            "ncclGroupStart",
            "layer 4",
            "FSDP::pre_forward (layers.3)",
        ] {
            assert_eq!(known.find(name), None, "{name}");
        }
    }

    #[test]
    fn the_pattern_of_the_user_is_searched_for() {
        let own = StepPatterns::of_user("my batch").expect("it is an expression");
        assert_eq!(own.find("the my batch 17 of 20"), Some((0, 17)));
        assert_eq!(own.find("batch 17"), None);
        let group = StepPatterns::of_user(r"epoch \d+ batch (\d+)").expect("it is an expression");
        assert_eq!(group.find("epoch 1 batch 17"), Some((0, 17)));
        assert_eq!(StepPatterns::of_user("(").map(|_| ()).map_err(|e| e.code), Err("usage"));
        assert!(StepPatterns::of_user(r"(\w{500}){500}").is_err());
        assert_eq!(StepPatterns::of_user("").map(|_| ()).map_err(|e| e.code), Err("usage"));
    }

    /// Rows as (step, start, length).
    type Found = (Option<(String, u64)>, Vec<(i64, i64, i64)>);

    fn steps(candidates: &[Candidate]) -> Found {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut ranges = StepRanges::new(folder.path(), 1 << 20);
        ranges.add(candidates, 0).expect("it fits in memory");
        let table = crate::schema::table("step_ranges").expect("the table is in the schema");
        let mut rows = Rows::new(table, &["source", "rank"]);
        let found = ranges.finish(&StepPatterns::known(), &mut rows, |_| Ok(()));
        let batch = rows.take().expect("the rows are whole");
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
        let (step, start, length) = (column(1), column(2), column(3));
        let rows = step.into_iter().zip(start).zip(length).map(|((a, b), c)| (a, b, c)).collect();
        (found.expect("nothing is on disk"), rows)
    }

    #[test]
    fn the_surest_pattern_wins_and_inner_ranges_are_none() {
        // Of pattern 2: a step, the same on another thread, the next one. Of pattern 4: an outer
        // one.
        let candidates =
            [[4, 0, -1000, 0, NONE], [2, 10, -100, 1, 5], [2, 20, -90, 2, 5], [2, 100, -200, 3, 6]];
        let (found, rows) = steps(&candidates);
        assert_eq!(found, Some(("step N".to_owned(), 2)));
        assert_eq!(rows, [(5, 10, 90), (6, 100, 100)]);
        // A pattern that comes once gives way to one that comes often.
        let (found, _) = steps(&[[1, 0, -5, 9, 7], candidates[1], candidates[3]]);
        assert_eq!(found, Some(("step N".to_owned(), 2)));
        let (found, rows) = steps(&candidates[..1]);
        assert_eq!(found, Some(("train_step".to_owned(), 1)));
        assert_eq!(rows, [(0, 0, 1000)]);
        assert_eq!(steps(&[]), (None, vec![]));
        // The same range on two threads is one step.
        let (found, rows) = steps(&[[2, 10, -100, 1, 5], [2, 10, -100, 2, 5], candidates[3]]);
        assert_eq!(found, Some(("step N".to_owned(), 2)));
        assert_eq!(rows, [(5, 10, 90), (6, 100, 100)]);
        // What the profiler of XLA says itself is surer than a name.
        let own = [STEP_NUMBER, 0, -10, 0, 3];
        assert_eq!(steps(&[own, own]).0, Some(("step_num".to_owned(), 1)));
        let own = [STEP_LINE, 0, -10, 0, 3];
        assert_eq!(steps(&[own]).0, Some(("Steps".to_owned(), 1)));
    }
}
