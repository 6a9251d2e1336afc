//! Jobs of eight ranks whose truth is known because they are made: who is slow or late, who waits
//! for whom, how far the clocks are apart. A small event simulation in whole nanoseconds plays five
//! steps of a training job with tp 2 x dp 4, or of one with experts, and writes a Kineto trace for
//! each rank. The answers are asserted from the plan, which knows nothing of the JSON.
//!
//! The host launches ahead of the devices and waits once a step, for the last kernel of the
//! backward pass: the optimizer ends after the step on the host.
//!
//! In: [`Plan`]. Out: files in a temporary folder, and what the plan says of its calls.

use std::array::from_fn;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::kineto::{Args, Span, index, slice};
use crate::support::{Csv, Place};

const RANKS: usize = 8;
const STEPS: i64 = 5;
const EPOCH_NS: i64 = 1_000_000_000;
const MB: i64 = 1_000_000;
const COMPUTE: i64 = 7;

type PerRank = [i64; RANKS];

/// The differences between the jobs.
#[derive(Clone, Copy)]
struct Plan {
    /// Time of a kernel of each rank, in thousandths of what the others take.
    pace: PerRank,
    /// The same of the kernels of experts.
    experts: PerRank,
    /// Time that the host of each rank sleeps before it begins a step.
    sleep_ns: PerRank,
    /// Time by which the clock of each rank is ahead.
    clock_ns: PerRank,
    /// Experts exchange their tokens over all ranks, in place of the tensor-parallel calls.
    has_experts: bool,
}

const EVEN: Plan = Plan {
    pace: [1000; RANKS],
    experts: [1000; RANKS],
    sleep_ns: [0; RANKS],
    clock_ns: [0; RANKS],
    has_experts: false,
};

/// Rank 4 computes slowly; rank 5, its tensor-parallel neighbour, waits and so is late as well.
const SLOW_RANK: Plan = Plan { pace: [1000, 1000, 1000, 1000, 1265, 1000, 1000, 1000], ..EVEN };

/// The slow rank, by clocks that are up to 3.5 ms apart, that of rank 5 ahead of most.
const SLOW_RANK_CLOCKS: Plan = Plan {
    clock_ns: [0, -930_000, 410_000, -350_000, 1_120_000, 2_574_000, -926_000, 780_000],
    ..SLOW_RANK
};

/// The host of rank 6 begins each step late; rank 7 is its neighbour.
const LATE_HOST: Plan = Plan { sleep_ns: [0, 0, 0, 0, 0, 0, 2_500_000, 0], ..EVEN };

/// The experts of rank 2 get more tokens.
const UNEVEN_EXPERTS: Plan =
    Plan { experts: [1000, 1000, 1700, 1000, 1000, 1000, 1000, 1000], has_experts: true, ..EVEN };

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Tp,
    Dp,
    Ep,
}

impl Group {
    /// Ranks of the group that `rank` is in; rank = 2 x dp index + tp index.
    fn members(self, rank: usize) -> Vec<usize> {
        match self {
            Group::Tp => vec![rank / 2 * 2, rank / 2 * 2 + 1],
            Group::Dp => (0..RANKS).filter(|r| r % 2 == rank % 2).collect(),
            Group::Ep => (0..RANKS).collect(),
        }
    }

    /// Name, which each rank set has for itself, and description.
    fn names(self, rank: usize) -> (usize, &'static str) {
        match self {
            Group::Tp => (10 + rank / 2, "mesh_tp"),
            Group::Dp => (20 + rank % 2, "mesh_dp"),
            Group::Ep => (30, "mesh_ep"),
        }
    }

    /// Kind, kernel, stream; steps of its ring, nanoseconds of each, and picoseconds for a byte.
    fn call(self) -> (&'static str, &'static str, i64, i64, i64, i64) {
        match self {
            // 250 GB/s.
            Group::Tp => ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 2, 3_000, 4),
            // 66.7 GB/s.
            Group::Dp => {
                ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_f32", 24, 3, 9_000, 15)
            }
            Group::Ep => ("all_to_allv", "ncclDevKernel_SendRecv", 28, 1, 12_000, 20),
        }
    }
}

/// A call over its ranks, by a clock that all share: who starts when.
struct Call {
    starts: Vec<(usize, i64)>,
}

impl Call {
    fn last(&self) -> (usize, i64) {
        self.starts.iter().copied().max_by_key(|s| s.1).unwrap_or_default()
    }

    fn lag_ns(&self) -> i64 {
        self.last().1 - self.starts.iter().map(|s| s.1).min().unwrap_or_default()
    }
}

struct Sim {
    plan: Plan,
    lcg: u64,
    host: PerRank,
    free: BTreeMap<(usize, i64), i64>,
    correlation: i64,
    seq: BTreeMap<Group, i64>,
    rows: [String; RANKS],
    calls: Vec<Call>,
    steps: Vec<[Span; RANKS]>,
}

impl Sim {
    fn play(plan: Plan) -> Sim {
        let mut sim = Sim {
            plan,
            lcg: 77,
            host: [EPOCH_NS; RANKS],
            free: BTreeMap::new(),
            correlation: 0,
            seq: BTreeMap::new(),
            rows: from_fn(|_| String::new()),
            calls: Vec::new(),
            steps: Vec::new(),
        };
        (0..STEPS).for_each(|step| sim.play_step(step));
        sim
    }

    /// 0 to `limit` - 1, from Knuth's MMIX generator.
    fn jitter(&mut self, limit: i64) -> i64 {
        self.lcg = self
            .lcg
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.lcg >> 33).unwrap_or_default() % limit
    }

    fn play_step(&mut self, step: i64) {
        let begins: PerRank = from_fn(|r| {
            self.host[r] += 20_000;
            self.host[r]
        });
        (0..RANKS).for_each(|r| self.host[r] += self.plan.sleep_ns[r]);
        let exchange = if self.plan.has_experts { Group::Ep } else { Group::Tp };
        let mut met = [0; RANKS];
        for layer in 1..=4 {
            met = self.layer(600_000, exchange, layer, met);
        }
        let mut scattered = met;
        for layer in 1..=4 {
            met = self.layer(1_000_000, exchange, layer, met);
            scattered = self.collective(Group::Dp, layer * 12 * MB, met);
        }
        let differentiated: PerRank = from_fn(|r| self.free[&(r, COMPUTE)]);
        self.compute("adam_kernel", 500_000, self.plan.pace, scattered);
        for r in 0..RANKS {
            let start = self.host[r] + 500;
            self.host[r] = differentiated[r].max(start) + 3_000;
            self.correlation += 1;
            let args = Args::id(0).raw("cbid", 131).raw("correlation", self.correlation);
            self.host_row("cuda_runtime", "cudaEventSynchronize", r, (start, self.host[r]), args);
            let span = (begins[r], self.host[r]);
            self.host_row("user_annotation", &format!("ProfilerStep#{step}"), r, span, Args::id(0));
        }
        self.steps.push(from_fn(|r| (begins[r], self.host[r])));
    }

    /// A kernel that all ranks run, then their exchange; of experts, tokens go out and come back.
    fn layer(&mut self, ns: i64, exchange: Group, layer: i64, met: PerRank) -> PerRank {
        let attended = self.compute("gemm_kernel", ns, self.plan.pace, met);
        let sent = self.collective(exchange, layer * 8 * MB, attended);
        if !self.plan.has_experts {
            return sent;
        }
        let expert = self.compute("expert_gemm_kernel", ns / 2, self.plan.experts, sent);
        self.collective(exchange, layer * 8 * MB, expert)
    }

    /// The host launches; the event starts when it is launched, its stream is free and `after` has
    /// come.
    fn launch(&mut self, rank: usize, call: &str, stream: i64, after: i64) -> (i64, i64) {
        let start = self.host[rank] + 1_000 + self.jitter(300);
        let end = start + 4_000;
        self.host[rank] = end;
        self.correlation += 1;
        let args = Args::id(0).raw("cbid", 211).raw("correlation", self.correlation);
        self.host_row("cuda_runtime", call, rank, (start, end), args);
        let free = self.free.get(&(rank, stream)).copied().unwrap_or_default();
        (free.max(after).max(end) + 1_000, self.correlation)
    }

    fn compute(&mut self, name: &str, ns: i64, pace: PerRank, after: PerRank) -> PerRank {
        from_fn(|r| {
            let (start, correlation) = self.launch(r, "cudaLaunchKernel", COMPUTE, after[r]);
            let end = start + ns * pace[r] / 1000 + self.jitter(2_000);
            self.device_row(name, r, COMPUTE, (start, end), device_args(r, COMPUTE, correlation));
            end
        })
    }

    /// Each rank starts when it comes; all leave together, after the transfer, when the last has.
    fn collective(&mut self, group: Group, bytes: i64, after: PerRank) -> PerRank {
        let (kind, kernel, stream, ring_steps, alpha_ns, ps_per_byte) = group.call();
        let seq = self.seq.entry(group).or_default();
        *seq += 1;
        let seq = *seq;
        let launches: [(i64, i64); RANKS] =
            from_fn(|r| self.launch(r, "cudaLaunchKernelExC", stream, after[r]));
        let ends: PerRank = from_fn(|r| {
            let members = group.members(r);
            let last = members.iter().map(|m| launches[*m].0).max().unwrap_or_default();
            let part = bytes / index(members.len());
            last + ring_steps * (alpha_ns + part * ps_per_byte / 1000)
        });
        for r in 0..RANKS {
            let members = group.members(r);
            if members[0] == r {
                let starts = members.iter().map(|m| (*m, launches[*m].0)).collect();
                self.calls.push(Call { starts });
            }
            let (start, correlation) = launches[r];
            let ranks: Vec<String> = members.iter().map(ToString::to_string).collect();
            let (name, description) = group.names(r);
            let elements = bytes / 4;
            let out = if group == Group::Dp { elements / 4 } else { elements };
            let args = device_args(r, stream, correlation)
                .text("Collective name", kind)
                .raw("In msg nelems", elements)
                .raw("Out msg nelems", out)
                .raw("Group size", members.len())
                .text("dtype", "Float")
                .text("Process Group Name", &name.to_string())
                .text("Process Group Description", description)
                .text("Process Group Ranks", &format!("[{}]", ranks.join(", ")))
                .raw("Seq", seq);
            self.device_row(kernel, r, stream, (start, ends[r]), args);
        }
        ends
    }

    fn host_row(&mut self, cat: &str, name: &str, rank: usize, span: Span, args: Args) {
        let host = 4000 + index(rank);
        let span = self.by_its_clock(rank, span);
        self.rows[rank] += &slice(cat, name, host, host, span, args);
    }

    fn device_row(&mut self, name: &str, rank: usize, stream: i64, span: Span, args: Args) {
        self.free.insert((rank, stream), span.1);
        let span = self.by_its_clock(rank, span);
        self.rows[rank] += &slice("kernel", name, index(rank), stream, span, args);
    }

    fn by_its_clock(&self, rank: usize, (start, end): Span) -> Span {
        (start + self.plan.clock_ns[rank], end + self.plan.clock_ns[rank])
    }

    fn trace_json(&self, rank: usize) -> String {
        format!(
            "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\
             \"world_size\":{RANKS}}},\"baseTimeNanoseconds\":0,\"traceEvents\":[\n{}\n]}}\n",
            self.rows[rank].trim_end_matches(",\n")
        )
    }

    /// Calls in which each rank is last.
    fn last_counts(&self) -> BTreeMap<String, i64> {
        let mut out = BTreeMap::new();
        for call in &self.calls {
            *out.entry(call.last().0.to_string()).or_default() += 1;
        }
        out
    }

    fn mean_lag_us(&self) -> f64 {
        let total: i64 = self.calls.iter().map(Call::lag_ns).sum();
        total as f64 / self.calls.len() as f64 / 1e3
    }
}

fn device_args(rank: usize, stream: i64, correlation: i64) -> Args {
    Args::id(0).raw("device", rank).raw("stream", stream).raw("correlation", correlation)
}

/// An ingested job, and the plan that it was made from.
struct Job {
    sim: Sim,
    place: Place,
}

impl Job {
    fn of(plan: Plan) -> Job {
        let sim = Sim::play(plan);
        let place = Place::new();
        for rank in 0..RANKS {
            place.write(&format!("rank{rank}.json"), sim.trace_json(rank));
        }
        place.run(&["ingest", ".", "--name", "job", "-q"]).done();
        Job { sim, place }
    }

    fn metric(&self, name: &str, params: &[&str]) -> Value {
        self.place.metric(name, params)
    }

    fn view(&self, name: &str) -> Csv {
        let rows = self.place.tables().sheet(name, &[]).expect("the view runs");
        Csv::parse(&rows.expect("the view has rows"))
    }

    /// Ranks that anything names as a straggler, and victims with the rank that each waits for.
    fn named(&self) -> (BTreeSet<i64>, BTreeSet<(i64, i64)>) {
        let number = |v: &Value| v.as_i64().unwrap_or(-1);
        let (mut causes, mut victims) = (BTreeSet::new(), BTreeSet::new());
        for metric in ["straggler", "straggler_by_rank", "straggler_score"] {
            let details = &self.metric(metric, &[])["details"];
            causes.insert(number(&details["straggler_rank"]));
            let list = |key: &str| details[key].as_array().cloned().unwrap_or_default();
            causes.extend(list("stragglers").iter().map(|s| number(&s["rank"])));
            victims.extend(
                list("victims").iter().map(|v| (number(&v["rank"]), number(&v["cause_rank"]))),
            );
        }
        let summary = self.view("straggler_summary");
        let cell =
            |row: usize, column: &str| summary.get(row, column).and_then(|n| n.parse::<f64>().ok());
        let rows = 0..summary.rows.len();
        let origin = |row: &usize| (cell(*row, "origin_wait_us").unwrap_or_default() * 1e3) as i64;
        let most = rows.max_by_key(origin).expect("the view has rows");
        for row in [0, most] {
            causes.insert(cell(row, "rank").map_or(-1, |r| r as i64));
        }
        (causes, victims)
    }

    /// The paths that end on any rank in any step: each as long as its step, without gap; gives the
    /// ranks on which most of them lie, and why.
    fn paths(&self) -> BTreeSet<(i64, String)> {
        let mut out = BTreeSet::new();
        for rank in [0, 4, 5, 7] {
            for step in [1, 3] {
                let params = [format!("rank={rank}"), format!("step={step}")];
                let result = self.metric("critical_path", &[&params[0], &params[1]]);
                let details = &result["details"];
                let length = result["value"].as_f64().expect("there is a path");
                assert!((length - details["step_ms"].as_f64().unwrap_or_default()).abs() < 1e-9);
                let segments = details["segments"].as_array().expect("the path has segments");
                let at = |s: &Value, key: &str| s[key].as_i64().expect("nanoseconds");
                for pair in segments.windows(2) {
                    let end = at(&pair[0], "start_ns") + at(&pair[0], "dur_ns");
                    assert_eq!(end, at(&pair[1], "start_ns"), "rank {rank}, step {step}");
                }
                let reason = details["reason"].as_str().unwrap_or_default().to_owned();
                out.insert((details["rank"].as_i64().unwrap_or(-1), reason));
            }
        }
        out
    }
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value}, planned {expected}");
}

/// Ranks, as a set.
fn only(rank: i64) -> BTreeSet<i64> {
    BTreeSet::from([rank])
}

#[test]
fn a_slow_rank_is_named_and_its_victim_is_not() {
    for plan in [SLOW_RANK, SLOW_RANK_CLOCKS] {
        let job = Job::of(plan);
        assert_eq!(job.named(), (only(4), BTreeSet::from([(5, 4)])));
        let by_rank = job.metric("straggler_by_rank", &[]);
        assert!(by_rank["details"]["origin_pct"].as_f64().expect("a share") > 90.0);
        let lag = job.metric("straggler_lag", &[]);
        assert_eq!(lag["details"]["last_rank_counts"], json!(job.sim.last_counts()));
        near(&lag["value"], job.sim.mean_lag_us());
        assert_eq!(job.paths(), BTreeSet::from([(4, "compute".to_owned())]));
    }
}

#[test]
fn a_path_is_no_longer_than_the_plan_says() {
    let job = Job::of(SLOW_RANK);
    let details = job.metric("critical_path", &["rank=7", "step=2"])["details"].clone();
    // From one end of the optimizer to the next, whatever the host does in between.
    let step_ms = details["step_ms"].as_f64().expect("a step");
    let marker = |step: usize| job.sim.steps[step][7];
    let period_ms = (marker(3).0 - marker(2).0) as f64 / 1e6;
    assert!((step_ms - period_ms).abs() < 0.1, "{step_ms} ms, a step is {period_ms} ms");
    assert_eq!(details["end_rank"], 7);
}

#[test]
fn clocks_that_are_apart_change_nothing() {
    let (even, apart) = (Job::of(SLOW_RANK), Job::of(SLOW_RANK_CLOCKS));
    let offsets = apart.metric("clock_offsets", &[]);
    assert_eq!(offsets["details"]["taken_away"], true);
    let by_rank = offsets["details"]["by_rank"].as_array().expect("offsets of ranks");
    assert_eq!(by_rank.len(), RANKS - 1);
    for offset in by_rank {
        let rank = usize::try_from(offset["rank"].as_i64().expect("a rank")).expect("from 0 on");
        near(&offset["offset_us"], SLOW_RANK_CLOCKS.clock_ns[rank] as f64 / 1e3);
    }
    for metric in [
        "straggler",
        "straggler_by_rank",
        "straggler_score",
        "straggler_lag",
        "straggler_delay_ms",
        "sync_overhead_ms",
        "bubble_time_s",
        "wall_time_s",
    ] {
        let (mut a, mut b) = (even.metric(metric, &[]), apart.metric(metric, &[]));
        let said = |r: &Value| r["warnings"].to_string().contains("-p align=false");
        assert!(!said(&a) && said(&b), "{metric}: {} and {}", a["warnings"], b["warnings"]);
        for (result, aligned) in [(&mut a, false), (&mut b, true)] {
            let details = result["details"].as_object_mut().expect("details");
            assert_eq!(details.remove("clock_aligned"), Some(json!(aligned)), "{metric}");
            details.remove("alignment_spread_us");
        }
        assert_eq!(a["details"], b["details"], "{metric}");
    }
    for view in ["straggler_summary", "nccl_implicit_sync", "step_timeline"] {
        let rows = |job: &Job| -> Vec<Vec<Option<String>>> {
            let csv = job.view(view);
            let aligned = csv.columns.iter().position(|c| c == "clock_aligned");
            assert!(aligned.is_some() || view == "step_timeline", "{view} does not say it");
            // Calls are numbered by the clocks as recorded.
            let number = csv.columns.iter().position(|c| c == "collective_id");
            let kept = |place: &usize| Some(*place) != aligned && Some(*place) != number;
            let keep = |row: Vec<Option<String>>| -> Vec<Option<String>> {
                let cells = row.into_iter().enumerate().filter(|(place, _)| kept(place));
                cells.map(|(_, cell)| cell).collect()
            };
            let mut rows: Vec<Vec<Option<String>>> = csv.rows.into_iter().map(keep).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(&even), rows(&apart), "{view}");
    }
    // As recorded another rank seems to be late, and nothing says that it was set right.
    let raw = apart.metric("straggler_by_rank", &["align=false"]);
    assert_eq!(raw["details"]["straggler_rank"], 5);
    assert_eq!(raw["details"]["clock_aligned"], false);
}

#[test]
fn a_late_host_is_named_with_its_reason() {
    let job = Job::of(LATE_HOST);
    assert_eq!(job.named(), (only(6), BTreeSet::from([(7, 6)])));
    let paths = job.paths();
    assert!(paths.iter().all(|p| p.0 == 6), "{paths:?}");
    let details = &job.metric("critical_path", &[])["details"];
    let ranks = details["by_rank"].as_array().expect("the path is on ranks");
    let late = ranks.iter().find(|r| r["rank"] == 6).expect("the late rank is on the path");
    assert!(late["by_kind_ms"]["host"].as_f64().expect("time of the host") > 1.0, "{details}");
}

#[test]
fn a_rank_with_more_tokens_is_named() {
    let job = Job::of(UNEVEN_EXPERTS);
    let (causes, victims) = job.named();
    assert_eq!((causes, victims), (only(2), BTreeSet::new()));
    assert_eq!(job.paths(), BTreeSet::from([(2, "compute".to_owned())]));
}
