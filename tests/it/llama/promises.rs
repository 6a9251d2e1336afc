//! The promises of the README of a job, held against what was played.

use crate::llama::answers::{is_comm, is_compute, union};
use crate::llama::plan::{BALANCED_LAG_NS, BARE_NS, LAYERS, RANKS, STRAGGLER};
use crate::llama::play::Sim;
use crate::support::kineto::{Span, index};

impl Sim {
    /// Holds the job to what its README promises.
    pub fn verify(&self) {
        let mut last_calls = [0; RANKS];
        for call in &self.calls {
            let (last_rank, last_start) = call.last();
            last_calls[last_rank] += 1;
            let has_rank_2 = call.shares.iter().any(|s| s.0 == STRAGGLER);
            assert!(
                !self.plan.straggler || !has_rank_2 || last_rank == STRAGGLER,
                "rank 2 comes last in its groups"
            );
            assert!(self.plan.straggler || call.lag_ns() < BALANCED_LAG_NS, "nobody waits long");
            let ties = call.shares.iter().filter(|s| s.1 == last_start).count();
            assert_eq!(ties, 1, "one rank comes last");
            let least = call.shares.iter().map(|s| s.2 - s.1).min();
            assert_eq!(least, Some(call.comm.transfer_ns()), "the last to come waits for nobody");
            let ends = call.shares.iter().map(|s| s.2);
            let skew = ends.clone().max().unwrap_or(0) - ends.min().unwrap_or(0);
            assert!(skew < 1_000, "all leave within a microsecond");
        }
        let calls_of_a_rank =
            index(self.events.iter().filter(|e| e.rank == 0 && is_comm(e)).count());
        assert!(
            self.plan.straggler
                || last_calls.iter().all(|n| (1..=calls_of_a_rank * 2 / 3).contains(n)),
            "no rank is always last, none never: {last_calls:?}"
        );
        if self.plan.beside_attention {
            self.verify_beside_attention();
        }
        for event in &self.events {
            let (begin, end) = self.step_span(event.rank, event.step);
            assert!(begin < event.span.0 && event.span.1 < end, "a step waits for its device");
        }
        let streams: Vec<_> = self.ranks[0].stream_free.keys().collect();
        for (&stream, rank) in streams.iter().flat_map(|s| (0..RANKS).map(move |r| (*s, r))) {
            let spans = self.spans(rank, |e| e.stream == stream);
            assert_eq!(union(spans.clone()).len(), spans.len(), "a stream runs in order");
        }
    }

    /// Holds the tp calls of layer 1, every second one of a rank, to their place beside compute.
    fn verify_beside_attention(&self) {
        for rank in 0..RANKS {
            let compute = union(self.spans(rank, is_compute));
            let calls = self.spans(rank, |e| is_comm(e) && e.stream == 20);
            for (start, end) in calls.into_iter().skip(1).step_by(LAYERS) {
                let hidden = |c: &&Span| c.0 < start + BARE_NS && end < c.1;
                assert!(compute.iter().any(|c| hidden(&c)), "hidden beside flash attention");
            }
        }
    }
}
