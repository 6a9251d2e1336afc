//! The differences between the jobs, and what each plants.

pub const RANKS: usize = 8;
pub const MB: i64 = 1_000_000;

pub type PerRank = [i64; RANKS];

/// The differences between the jobs.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Steps before the first that is recorded, in which the ranks fall into their rhythm.
    pub early_steps: i64,
    /// Time of a kernel of each rank, in thousandths of what the others take.
    pub pace: PerRank,
    /// The same of the kernels of experts; the tokens that come to the rank grow with it.
    pub experts: PerRank,
    /// Time that the host of each rank sleeps before it begins a step.
    pub sleep_ns: PerRank,
    /// Time that the host of each rank waits for its input after that, in a range that says so.
    pub load_ns: PerRank,
    /// Time by which the clock of each rank is ahead.
    pub clock_ns: PerRank,
    /// Experts exchange their tokens over all ranks, in place of the tensor-parallel calls.
    pub has_experts: bool,
    /// Bytes of the exchange of the first layer; that of layer n has n times as many.
    pub exchange_bytes: i64,
    /// Bytes of the gradients of each layer, in the order of the backward pass.
    pub gradient_bytes: [i64; 4],
    /// Time that a byte takes between the odd ranks of data parallelism, of what it takes
    /// elsewhere.
    pub odd_link: i64,
    /// Reduce-scatters of 4 KB before the optimizer, one after the other.
    pub small_calls: i64,
    /// Time of the host before it launches a layer.
    pub host_ns: i64,
    /// Kernels that do the work of a layer of the forward pass.
    pub pieces: i64,
    /// How the host waits for the device after each layer of the forward pass.
    pub sync: Option<Sync>,
    /// Bytes copied from pageable memory at the start of a step.
    pub copy_bytes: i64,
    /// Time that every host does nothing for, in the middle of the forward pass.
    pub stall_ns: i64,
}

/// How the host waits for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// `cudaDeviceSynchronize`.
    Device,
    /// `aten::item`, which copies 4 bytes.
    Item,
}

pub const EVEN: Plan = Plan {
    early_steps: 0,
    pace: [1000; RANKS],
    experts: [1000; RANKS],
    sleep_ns: [0; RANKS],
    load_ns: [0; RANKS],
    clock_ns: [0; RANKS],
    has_experts: false,
    exchange_bytes: 8 * MB,
    gradient_bytes: [12 * MB, 24 * MB, 36 * MB, 48 * MB],
    odd_link: 1,
    small_calls: 0,
    host_ns: 0,
    pieces: 1,
    sync: None,
    copy_bytes: 0,
    stall_ns: 0,
};

/// Rank 4 computes slowly; rank 5, its tensor-parallel neighbour, waits and so is late as well.
pub const SLOW_RANK: Plan = Plan { pace: [1000, 1000, 1000, 1000, 1265, 1000, 1000, 1000], ..EVEN };

/// The slow rank, by clocks that are up to 3.5 ms apart, that of rank 5 ahead of most.
pub const SLOW_RANK_CLOCKS: Plan = Plan {
    clock_ns: [0, -930_000, 410_000, -350_000, 1_120_000, 2_574_000, -926_000, 780_000],
    ..SLOW_RANK
};

/// The host of rank 6 begins each step late; rank 7 is its neighbour.
pub const LATE_HOST: Plan = Plan { sleep_ns: [0, 0, 0, 0, 0, 0, 2_500_000, 0], ..EVEN };

/// The experts of rank 2 get more tokens.
pub const UNEVEN_EXPERTS: Plan =
    Plan { experts: [1000, 1000, 1700, 1000, 1000, 1000, 1000, 1000], has_experts: true, ..EVEN };

/// Nothing is wrong: calls are short or hidden, and the host is ahead of the devices.
pub const HEALTHY: Plan = Plan {
    early_steps: 4,
    load_ns: [50_000; RANKS],
    exchange_bytes: MB / 4,
    gradient_bytes: [16 * MB, 12 * MB, 8 * MB, MB],
    host_ns: 80_000,
    ..EVEN
};

/// The same with gradients that the calls just hide.
const LARGE: Plan = Plan { gradient_bytes: [48 * MB, 36 * MB, 24 * MB, 12 * MB], ..HEALTHY };

/// A cause that a job was made with.
#[derive(Clone, Copy)]
pub struct Cause {
    /// The diagnosis that finds it.
    pub diagnosis: &'static str,
    /// What of its place is known: names of keys, and the value as text.
    pub place: &'static [(&'static str, &'static str)],
    /// The job without it.
    pub without: Plan,
}

/// A job with causes, the one that costs most first.
#[derive(Clone, Copy)]
pub struct Planted {
    pub name: &'static str,
    pub plan: Plan,
    pub causes: &'static [Cause],
}

const fn one(diagnosis: &'static str, place: &'static [(&'static str, &'static str)]) -> Cause {
    Cause { diagnosis, place, without: HEALTHY }
}

const LOADING: PerRank = [2_500_000; RANKS];

/// Rank 4 computes slowly, and every rank waits for its input.
const TWO_CAUSES: Plan = Plan { load_ns: LOADING, pace: SLOW_RANK.pace, ..HEALTHY };

/// The jobs of the diagnoses.
pub const JOBS: [Planted; 16] = [
    Planted { name: "healthy", plan: HEALTHY, causes: &[] },
    Planted {
        name: "slow_rank",
        plan: Plan { pace: SLOW_RANK.pace, ..HEALTHY },
        causes: &[one("slow_rank", &[("rank", "4")])],
    },
    Planted {
        name: "slow_rank_clocks",
        plan: Plan { pace: SLOW_RANK.pace, clock_ns: SLOW_RANK_CLOCKS.clock_ns, ..HEALTHY },
        causes: &[one("slow_rank", &[("rank", "4")])],
    },
    Planted {
        name: "late_rank",
        plan: Plan {
            load_ns: [50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 2_500_000, 50_000],
            ..HEALTHY
        },
        causes: &[one("late_rank", &[("rank", "6")])],
    },
    Planted {
        name: "late_rank_sleep",
        plan: Plan { sleep_ns: LATE_HOST.sleep_ns, ..HEALTHY },
        causes: &[one("late_rank", &[("rank", "6")])],
    },
    Planted {
        name: "data_loading",
        plan: Plan { load_ns: LOADING, ..HEALTHY },
        causes: &[one("data_loading", &[])],
    },
    Planted {
        name: "slow_link",
        plan: Plan { odd_link: 3, ..LARGE },
        causes: &[Cause {
            diagnosis: "slow_group",
            place: &[("group", "mesh_dp [1, 3, 5, 7]"), ("kind", "reduce_scatter")],
            without: LARGE,
        }],
    },
    Planted {
        name: "exposed_comm",
        plan: Plan { gradient_bytes: [12 * MB, 12 * MB, 48 * MB, 96 * MB], ..HEALTHY },
        causes: &[one("exposed_comm", &[("group", "mesh_dp"), ("kind", "reduce_scatter")])],
    },
    Planted {
        name: "small_calls",
        plan: Plan { small_calls: 40, ..HEALTHY },
        causes: &[one("small_calls", &[("group", "mesh_dp"), ("kind", "reduce_scatter")])],
    },
    Planted {
        name: "launch_bound",
        plan: Plan { pieces: 200, ..HEALTHY },
        causes: &[one("launch_bound", &[])],
    },
    Planted {
        name: "host_sync",
        plan: Plan { sync: Some(Sync::Device), ..HEALTHY },
        causes: &[one("host_sync", &[])],
    },
    Planted {
        name: "host_item",
        plan: Plan { sync: Some(Sync::Item), ..HEALTHY },
        causes: &[one("host_sync", &[("operator", "aten::item")])],
    },
    Planted {
        name: "uneven_experts",
        plan: Plan { has_experts: true, experts: UNEVEN_EXPERTS.experts, ..HEALTHY },
        causes: &[Cause {
            diagnosis: "uneven_all_to_all",
            place: &[("rank", "2")],
            without: Plan { has_experts: true, ..HEALTHY },
        }],
    },
    Planted {
        name: "pageable_copies",
        plan: Plan { copy_bytes: 20 * MB, ..HEALTHY },
        causes: &[one("exposed_copies", &[("kind", "h2d")])],
    },
    Planted {
        name: "host_stall",
        plan: Plan { stall_ns: 3_000_000, ..HEALTHY },
        causes: &[one("host_stalls", &[])],
    },
    Planted {
        name: "two_causes",
        plan: TWO_CAUSES,
        causes: &[
            Cause {
                diagnosis: "data_loading",
                place: &[],
                without: Plan { load_ns: HEALTHY.load_ns, ..TWO_CAUSES },
            },
            Cause {
                diagnosis: "slow_rank",
                place: &[("rank", "4")],
                without: Plan { pace: HEALTHY.pace, ..TWO_CAUSES },
            },
        ],
    },
];
