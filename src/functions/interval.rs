//! Set algebra on half-open intervals `[start, end)` of integer nanoseconds.
//!
//! Pure functions on slices, O(n log n): sort, then one sweep. Intervals that are empty or run
//! backwards hold no instant and are left out. Sums are `i128` inside and saturate on the way out,
//! so that hostile time stamps cannot overflow.

/// A half-open interval `[start, end)`.
pub type Interval = (i64, i64);

/// Merges intervals that come sorted by start; holds one open interval.
#[derive(Debug, Default)]
pub struct Merger {
    open: Option<Interval>,
}

impl Merger {
    /// Takes the next interval (starts must not fall); gives back a merged one that is complete.
    /// Intervals that touch (`next.start == open.end`) are one.
    pub fn push(&mut self, (start, end): Interval) -> Option<Interval> {
        if start >= end {
            return None;
        }
        match &mut self.open {
            Some(open) if start <= open.1 => {
                open.1 = open.1.max(end);
                None
            }
            open => open.replace((start, end)),
        }
    }

    /// The last merged interval.
    pub fn finish(&mut self) -> Option<Interval> {
        self.open.take()
    }
}

/// The union: sorted, disjoint, not touching. Takes the intervals in any order.
pub fn union(intervals: &mut [Interval]) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut merger = Merger::default();
    let mut out: Vec<Interval> = Vec::new();
    for &interval in intervals.iter() {
        out.extend(merger.push(interval));
    }
    out.extend(merger.finish());
    out
}

/// Total length in nanoseconds of disjoint intervals.
pub fn length(intervals: &[Interval]) -> i64 {
    let sum: i128 = intervals.iter().map(|(s, e)| i128::from(*e) - i128::from(*s)).sum();
    i64::try_from(sum).unwrap_or(i64::MAX)
}

/// The intersection; both arguments are unions (see [`union`]), and so is the result.
pub fn intersect(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut i, mut k) = (0, 0);
    let mut out = Vec::new();
    while i < a.len() && k < b.len() {
        let start = a[i].0.max(b[k].0);
        let end = a[i].1.min(b[k].1);
        if start < end {
            out.push((start, end));
        }
        if a[i].1 < b[k].1 {
            i += 1;
        } else {
            k += 1;
        }
    }
    out
}

/// The difference `a` without `b`; both arguments are unions, and so is the result.
pub fn subtract(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut out = Vec::new();
    let mut k = 0;
    for &(start, end) in a {
        let mut at = start;
        while k < b.len() && b[k].1 <= at {
            k += 1;
        }
        let mut j = k;
        while j < b.len() && b[j].0 < end {
            if b[j].0 > at {
                out.push((at, b[j].0));
            }
            at = at.max(b[j].1);
            j += 1;
        }
        if at < end {
            out.push((at, end));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(intervals: &[Interval]) -> Vec<Interval> {
        union(&mut intervals.to_vec())
    }

    #[test]
    fn empty_and_degenerate_input_holds_nothing() {
        assert_eq!(set(&[]), []);
        assert_eq!(set(&[(5, 5), (9, 3)]), []);
        assert_eq!(intersect(&[], &set(&[(0, 9)])), []);
        assert_eq!(subtract(&set(&[(0, 9)]), &[]), [(0, 9)]);
    }

    #[test]
    fn touching_intervals_are_one() {
        assert_eq!(set(&[(10, 20), (0, 10), (20, 21)]), [(0, 21)]);
    }

    #[test]
    fn by_hand() {
        let a = set(&[(0, 10), (20, 30), (25, 40)]);
        let b = set(&[(5, 22), (39, 50)]);
        assert_eq!(a, [(0, 10), (20, 40)]);
        assert_eq!(intersect(&a, &b), [(5, 10), (20, 22), (39, 40)]);
        assert_eq!(subtract(&a, &b), [(0, 5), (22, 39)]);
        assert_eq!(length(&a), 30);
    }

    #[test]
    fn no_interval_without_length_is_left() {
        let a = [(0, 10)];
        assert_eq!(intersect(&a, &[(10, 20)]), []);
        assert_eq!(subtract(&a, &[(0, 5)]), [(5, 10)]);
        assert_eq!(subtract(&a, &[(5, 10)]), [(0, 5)]);
        assert_eq!(subtract(&a, &a), []);
    }

    #[test]
    fn whole_range_does_not_overflow() {
        assert_eq!(length(&set(&[(i64::MIN, i64::MAX)])), i64::MAX);
    }

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0i64..200, -3i64..40).prop_map(|(s, d)| (s, s + d)), 0..40)
    }

    /// The instants that a list holds, one by one: the quadratic truth.
    fn instants(list: &[Interval]) -> Vec<bool> {
        (0..260).map(|t| list.iter().any(|(s, e)| *s <= t && t < *e)).collect()
    }

    proptest! {
        #[test]
        fn equal_to_instant_by_instant(a in intervals(), b in intervals()) {
            let (ua, ub) = (set(&a), set(&b));
            let (ia, ib) = (instants(&a), instants(&b));
            prop_assert_eq!(instants(&ua), ia.clone());
            let both: Vec<bool> = ia.iter().zip(&ib).map(|(x, y)| *x && *y).collect();
            let only: Vec<bool> = ia.iter().zip(&ib).map(|(x, y)| *x && !*y).collect();
            prop_assert_eq!(instants(&intersect(&ua, &ub)), both.clone());
            prop_assert_eq!(instants(&subtract(&ua, &ub)), only);
            prop_assert_eq!(length(&intersect(&ua, &ub)) as usize, both.iter().filter(|x| **x).count());
            prop_assert_eq!(length(&ua), length(&intersect(&ua, &ub)) + length(&subtract(&ua, &ub)));
        }

        #[test]
        fn inclusion_and_exclusion(a in intervals(), b in intervals()) {
            let both: Vec<Interval> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(
                length(&set(&a)) + length(&set(&b)),
                length(&set(&both)) + length(&intersect(&set(&a), &set(&b)))
            );
        }

        #[test]
        fn shifting_shuffling_and_cutting_change_nothing(
            a in intervals(), shift in -50i64..50, cut in 0i64..200, seed in any::<u64>()
        ) {
            let shifted: Vec<Interval> = a.iter().map(|(s, e)| (s + shift, e + shift)).collect();
            prop_assert_eq!(length(&set(&shifted)), length(&set(&a)));
            let mut pieces: Vec<Interval> = a
                .iter()
                .flat_map(|&(s, e)| if s < cut && cut < e { vec![(s, cut), (cut, e)] } else { vec![(s, e)] })
                .collect();
            let turn = seed as usize % pieces.len().max(1);
            pieces.rotate_left(turn);
            prop_assert_eq!(set(&pieces), set(&a));
        }
    }
}
