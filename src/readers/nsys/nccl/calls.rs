//! The calls of NCCL that a range or the name of a kernel says.

use crate::spool::launches::NONE;

/// What a range of NCCL's API is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    code: i64,
}

pub(super) const OTHER: i64 = 0;
pub(super) const GROUP_START: i64 = 1;
pub(super) const GROUP_END: i64 = 2;
pub(super) const INIT: i64 = 3;
/// Codes from here on are calls that communicate.
pub(super) const FIRST: i64 = 10;
pub(super) const ALL_GATHER: i64 = 11;
pub(super) const REDUCE_SCATTER: i64 = 12;
pub(super) const SEND: i64 = 15;
pub(super) const RECV: i64 = 16;
pub(super) const BROADCAST: i64 = 13;
pub(super) const ALL_TO_ALL: i64 = 17;
pub(super) const GATHER: i64 = 18;
pub(super) const SCATTER: i64 = 19;
/// A group of sends and receives.
pub(super) const SEND_RECV: i64 = 20;
/// A group of calls of several kinds.
pub(super) const MIXED: i64 = 21;

/// Names of the calls that communicate, from [`FIRST`] on.
pub(super) const NAMES: [&str; 11] = [
    "ncclAllReduce",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclReduce",
    "ncclSend",
    "ncclRecv",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
    "ncclSendRecv",
];

impl Call {
    /// The call that the name of a range in NCCL's domain says.
    pub fn of(name: &str) -> Self {
        let code = match name {
            "ncclGroupStart" => GROUP_START,
            "ncclGroupEnd" | "ncclGroupSimulateEnd" => GROUP_END,
            "ncclBcast" => BROADCAST,
            "ncclAllToAll" => ALL_TO_ALL,
            n if n.starts_with("ncclCommInit") || n == "ncclCommSplit" => INIT,
            n => NAMES[..10].iter().position(|k| *k == n).map_or(OTHER, |at| FIRST + at as i64),
        };
        Self { code }
    }

    /// Whether it communicates.
    pub fn communicates(self) -> bool {
        self.code >= FIRST
    }

    /// Whether kernels may be launched inside it for calls that communicate.
    pub fn launches(self) -> bool {
        self.communicates() || self.code == GROUP_END
    }

    /// Whether it makes a communicator.
    pub fn is_init(self) -> bool {
        self.code == INIT
    }

    /// Whether it says anything about kernels.
    pub fn matters(self) -> bool {
        self.code != OTHER && self.code != INIT
    }
}

/// A range of NCCL's API: thread, start, event, code of the call, communicator, bytes, root or
/// peer.
pub type Range = [i64; 7];

/// The record of a range.
pub fn range(
    thread: i64,
    start: i64,
    event: i64,
    call: Call,
    communicator: Option<i64>,
    bytes: Option<i64>,
    other_rank: Option<i64>,
) -> Range {
    let or = |value: Option<i64>| value.unwrap_or(NONE);
    [thread, start, event, call.code, or(communicator), or(bytes), or(other_rank)]
}

/// The call that a kernel of this name is made for, as far as the name says it.
pub fn code_of_kernel(name: &str) -> i64 {
    let name = name.to_lowercase();
    let kinds = [
        ("sendrecv", SEND_RECV),
        ("allreduce", FIRST),
        ("allgather", ALL_GATHER),
        ("reducescatter", REDUCE_SCATTER),
        ("broadcast", BROADCAST),
    ];
    kinds.iter().find(|(word, _)| name.contains(word)).map_or(OTHER, |(_, code)| *code)
}

/// Whether a kernel may serve a call.
pub(super) fn fits(kernel: i64, call: i64) -> bool {
    let in_pairs = [SEND, RECV, SEND_RECV, ALL_TO_ALL, GATHER, SCATTER];
    kernel == OTHER
        || call == MIXED
        || kernel == call
        || (kernel == SEND_RECV && in_pairs.contains(&call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_say_what_they_are_made_for() {
        for (name, code) in [
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", FIRST),
            ("ncclDevKernel_AllGather_RING_LL", ALL_GATHER),
            ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", REDUCE_SCATTER),
            ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", BROADCAST),
            ("ncclDevKernel_SendRecv", SEND_RECV),
            ("ncclDevKernel_Generic", OTHER),
        ] {
            assert_eq!(code_of_kernel(name), code, "{name}");
        }
        // What does not say it fits any call, and pairs fit what is made of them.
        assert!(fits(OTHER, FIRST) && fits(FIRST, MIXED) && fits(ALL_GATHER, ALL_GATHER));
        assert!(fits(SEND_RECV, ALL_TO_ALL) && fits(SEND_RECV, RECV));
        assert!(!fits(FIRST, ALL_GATHER) && !fits(SEND_RECV, FIRST) && !fits(SEND, RECV));
    }

    #[test]
    fn kernels_are_launched_by_calls_that_communicate_and_at_the_end_of_a_group() {
        for (name, launches, matters) in [
            ("ncclAllReduce", true, true),
            ("ncclSend", true, true),
            ("ncclGroupEnd", true, true),
            ("ncclGroupStart", false, true),
            ("ncclCommInitRankConfig", false, false),
            ("ncclMemAlloc", false, false),
        ] {
            let call = Call::of(name);
            assert_eq!((call.launches(), call.matters()), (launches, matters), "{name}");
        }
        for name in ["ncclCommInitRank", "ncclCommInitAll", "ncclCommSplit"] {
            assert!(Call::of(name).is_init(), "{name}");
        }
    }
}
