//! The true answers, computed from what was played and never from the JSON; and the README.

use std::array::from_fn;
use std::collections::BTreeMap;

use crate::llama::plan::{
    ALPHA_NS, BATCH_SIZE, BYTES_PER_NS, FIRST_STEP, Group, Kind, PerRank, RANKS, SEQ_LEN, STEPS,
    Work,
};
use crate::llama::play::{Call, EPOCH_NS, Event, Sim};
use crate::support::kineto::{Span, decimal, index};

/// One true answer; numbers are decimal text, exact unless the README says otherwise.
pub struct Answer {
    /// Metric as `ccl-sql list` names it.
    pub metric: &'static str,
    /// Key in the metric's details.
    pub field: &'static str,
    /// Unit of the numbers.
    pub unit: &'static str,
    /// Value over the whole job.
    pub job: String,
    /// Values of ranks 0 to 3; empty where a rank has none of its own.
    pub per_rank: Vec<String>,
}

/// An answer: metric, field and unit; value of the job; values of the ranks.
fn answer(
    [metric, field, unit]: [&'static str; 3],
    job: String,
    per_rank: impl IntoIterator<Item = String>,
) -> Answer {
    let per_rank = per_rank.into_iter().collect();
    Answer { metric, field, unit, job, per_rank }
}

/// Sorted, disjoint intervals that cover the same time.
pub fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn union_ns(spans: Vec<Span>) -> i64 {
    union(spans).iter().map(|(start, end)| end - start).sum()
}

/// Mean over ranks of a ratio, in double precision.
fn mean_ratio(names: [&'static str; 3], per_rank: [f64; RANKS]) -> Answer {
    let mean = per_rank.iter().sum::<f64>() / RANKS as f64;
    answer(names, format!("{mean:.12}"), per_rank.map(|ratio| format!("{ratio:.12}")))
}

/// Whether an event is communication.
pub fn is_comm(event: &Event) -> bool {
    matches!(event.work, Work::Comm(_))
}

/// Whether an event is a kernel of compute.
pub fn is_compute(event: &Event) -> bool {
    matches!(event.work, Work::Compute(_))
}

/// Times of the ranks, in nanoseconds.
struct Totals {
    comm: PerRank,
    compute: PerRank,
    overlap: PerRank,
    window: PerRank,
}

impl Sim {
    /// The device events of a rank that are wanted.
    pub fn spans(&self, rank: usize, keep: impl Fn(&Event) -> bool) -> Vec<Span> {
        self.events.iter().filter(|e| e.rank == rank && keep(e)).map(|e| e.span).collect()
    }

    fn totals(&self) -> Totals {
        let comm: PerRank = from_fn(|r| union_ns(self.spans(r, is_comm)));
        let compute: PerRank = from_fn(|r| union_ns(self.spans(r, is_compute)));
        let both: PerRank = from_fn(|r| union_ns(self.spans(r, |e| is_comm(e) || is_compute(e))));
        let window = from_fn(|r| {
            let all = union(self.spans(r, |_| true));
            all[all.len() - 1].1 - all[0].0
        });
        Totals { comm, compute, overlap: from_fn(|r| comm[r] + compute[r] - both[r]), window }
    }

    /// Union of compute and communication launched in a step of a rank. No call is a send or
    /// receive, so all of them are work here.
    pub fn busy_ns(&self, rank: usize, step: i64) -> i64 {
        union_ns(self.spans(rank, |e| e.step == step && (is_comm(e) || is_compute(e))))
    }

    /// The marker of a step.
    pub fn step_span(&self, rank: usize, step: i64) -> Span {
        self.ranks[rank].steps[usize::try_from(step).unwrap_or_default()]
    }

    /// All answers, in the order of the README.
    pub fn answers(&self) -> Vec<Answer> {
        let mut answers = self.answers_of_steps();
        answers.extend(self.answers_of_time());
        answers.extend(self.answers_of_calls());
        answers
    }

    fn answers_of_steps(&self) -> Vec<Answer> {
        let steps: PerRank = from_fn(|r| self.ranks[r].steps.iter().map(|s| s.1 - s.0).sum());
        let iter_ms = |ns: i64, ranks: i64| decimal(ns, ranks * STEPS * 1_000_000, 12);
        // Of steps 10 to 13 the middle two are kept, each up to the start of the next.
        let kept: PerRank = from_fn(|r| self.step_span(r, 3).0 - self.step_span(r, 1).0);
        let step_s = |ns: i64, ranks: i64| decimal(ns, ranks * 2 * 1_000_000_000, 12);
        let kept_all: i64 = kept.iter().sum();
        let tokens_per_s = decimal(BATCH_SIZE * SEQ_LEN * 8 * 1_000_000_000, kept_all, 6);
        let bubble: [f64; RANKS] =
            from_fn(|r| (0..STEPS).map(|s| self.bubble(r, s)).sum::<f64>() / STEPS as f64);
        vec![
            answer(
                ["iter_time", "avg_iter_time_ms", "ms"],
                iter_ms(steps.iter().sum(), 4),
                steps.map(|ns| iter_ms(ns, 1)),
            ),
            answer(
                ["avg_step_time", "avg_step_time", "s"],
                step_s(kept_all, 4),
                kept.map(|ns| step_s(ns, 1)),
            ),
            answer(["throughput_tokens", "throughput_tokens_per_s", "tokens/s"], tokens_per_s, []),
            mean_ratio(["pipeline_bubble", "bubble_ratio", "ratio"], bubble),
        ]
    }

    fn bubble(&self, rank: usize, step: i64) -> f64 {
        let (start, end) = self.step_span(rank, step);
        1.0 - self.busy_ns(rank, step) as f64 / (end - start) as f64
    }

    fn answers_of_time(&self) -> Vec<Answer> {
        let times = self.totals();
        let (comm, compute, overlap) = (times.comm, times.compute, times.overlap);
        let exposed: PerRank = from_fn(|r| comm[r] - overlap[r]);
        let sum = |of: PerRank| of.iter().sum::<i64>();
        let ms = |field, of: PerRank| {
            let text = |ns| decimal(ns, 1_000_000, 12);
            answer(["comm_comp_overlap", field, "ms"], text(sum(of)), of.map(text))
        };
        let ratio = |field, of: PerRank, by: PerRank| {
            let ranks = (0..RANKS).map(|r| decimal(of[r], by[r], 12));
            answer(["comm_comp_overlap", field, "ratio"], decimal(sum(of), sum(by), 12), ranks)
        };
        let seconds = |metric, ns, of: i64, per_rank: PerRank| {
            let ranks = per_rank.map(|ns| decimal(ns, 1_000_000_000, 12));
            answer([metric, metric, "s"], decimal(ns, of * 1_000_000_000, 12), ranks)
        };
        let window = times.window;
        let largest = window.iter().copied().max().unwrap_or_default();
        let fraction = from_fn(|r| comm[r] as f64 / window[r] as f64);
        vec![
            ms("comm_time_ms", comm),
            ms("comp_time_ms", compute),
            ms("overlap_time_ms", overlap),
            ms("exposed_comm_time_ms", exposed),
            ratio("overlap_ratio_of_comm", overlap, comm),
            ratio("overlap_ratio_of_comp", overlap, compute),
            seconds("wall_time_s", largest, 1, window),
            seconds("total_comm_time_s", sum(comm), 4, comm),
            seconds("total_compute_time_s", sum(compute), 4, compute),
            mean_ratio(["communication_fraction", "communication_fraction", "ratio"], fraction),
        ]
    }

    fn answers_of_calls(&self) -> Vec<Answer> {
        // Sums over the shares of calls: of the job and of each rank.
        let counted = |names, weigh: &dyn Fn(&Call, usize) -> i64| {
            let of = |rank: usize| -> i64 {
                let mine = self.calls.iter().filter(|c| c.shares.iter().any(|s| s.0 == rank));
                mine.map(|call| weigh(call, rank)).sum()
            };
            let ranks: PerRank = from_fn(of);
            answer(names, ranks.iter().sum::<i64>().to_string(), ranks.map(|n| n.to_string()))
        };
        let mut answers = vec![counted(["coll_call_num", "total_calls", "calls"], &|_, _| 1)];
        answers.extend(Kind::ALL.map(|kind| {
            let names = ["coll_call_num", kind.calls_by_type_field(), "calls"];
            counted(names, &|call, _| i64::from(call.comm.kind == kind))
        }));
        for (field, group) in
            [("dp_bytes", Group::Dp), ("tp_bytes", Group::Tp), ("unknown_bytes", Group::World)]
        {
            answers.push(counted(["traffic_distribution", field, "bytes"], &|call, _| {
                i64::from(call.comm.group == group) * call.comm.wire_bytes()
            }));
        }

        let last = |call: &Call, rank| i64::from(call.last().0 == rank);
        answers.push(counted(["straggler_lag", "last_rank_counts", "calls"], &last));
        let mut lags: Vec<_> = self.calls.iter().map(Call::lag_ns).collect();
        lags.sort_unstable();
        let (calls, half) = (index(lags.len()), lags.len() / 2);
        let mut single = |metric, field, unit, numerator, denominator| {
            let value = decimal(numerator, denominator, 18);
            answers.push(answer([metric, field, unit], value, []));
        };
        single("straggler_lag", "mean_lag_us", "us", lags.iter().sum(), calls * 1000);
        single("straggler_lag", "p50_lag_us", "us", lags[half - 1] + lags[half], 2000);
        single("straggler_lag", "min_lag_us", "us", lags[0], 1000);
        single("straggler_lag", "max_lag_us", "us", lags[lags.len() - 1], 1000);
        single("straggler_lag", "num_collectives", "calls", calls, 1);
        let (name, second) = ("hockney_alpha_s", 1_000_000_000);
        single(name, name, "s", ALPHA_NS, second);
        let name = "hockney_beta_s_per_byte";
        single(name, name, "s/B", 1, BYTES_PER_NS * second);
        let name = "hockney_inverse_beta_Bps";
        single(name, name, "B/s", BYTES_PER_NS * second, 1);
        let wire = self.calls.iter().map(|c| c.comm.wire_bytes()).sum();
        let transfer = self.calls.iter().map(|c| c.comm.transfer_ns()).sum();
        let name = "avg_comm_bandwidth_GBps";
        single(name, name, "GB/s", wire, transfer);
        answers
    }
}

impl Sim {
    /// The README of the job.
    pub fn readme(&self, answers: &[Answer]) -> String {
        let mut table = String::new();
        for a in answers {
            let ranks = (0..RANKS).map(|r| a.per_rank.get(r).map_or("", String::as_str));
            let ranks = ranks.collect::<Vec<_>>().join(" | ");
            table +=
                &format!("| `{}` | `{}` | {} | {} | {ranks} |\n", a.metric, a.field, a.unit, a.job);
        }
        let mut steps = String::new();
        for (rank, step) in (0..RANKS).flat_map(|r| (0..STEPS).map(move |s| (r, s))) {
            let (start, end) = self.step_span(rank, step);
            steps += &format!(
                "| {rank} | {} | {} | {} | {} | {:.12} |\n",
                FIRST_STEP + step,
                start - EPOCH_NS,
                end - start,
                self.busy_ns(rank, step),
                self.bubble(rank, step)
            );
        }
        let mut sizes = BTreeMap::new();
        for Call { comm, .. } in &self.calls {
            let group = comm.group;
            let key = (comm.kind.names()[0], group.description(), group.size(), comm.bytes);
            sizes.entry(key).or_insert((0, comm.transfer_ns())).0 += 1;
        }
        let sizes: String = sizes
            .into_iter()
            .map(|((kind, group, n, bytes), (calls, ns))| {
                format!("| `{kind}` | `{group}` | {n} | {bytes} | {calls} | {ns} |\n")
            })
            .collect();
        include_str!("README.template.md")
            .replace("{name}", self.plan.name)
            .replace("{pair}", self.plan.pair)
            .replace("{layer_1}", self.plan.layer_1)
            .replace("{delays}", self.plan.delays)
            .replace("{rows}", self.plan.rows)
            .replace("{answers}", &table)
            .replace("{steps}", &steps)
            .replace("{sizes}\n", &sizes)
    }
}
