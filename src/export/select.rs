//! What of a trace is written: ranks, steps, a time, the device or the host, slices from a length
//! on. Everything that is not asked for is left out before it is read.

use std::ops::RangeInclusive;

/// The device or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Events of devices, and what the profiler annotated on them.
    Device,
    /// Events of threads.
    Host,
}

/// What is asked for; the default is all.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Steps, by their numbers.
    pub steps: Option<RangeInclusive<i64>>,
    /// Ranks; none for all.
    pub ranks: Vec<RangeInclusive<i64>>,
    /// Nanoseconds since the first event of the trace.
    pub from_ns: Option<i64>,
    /// Likewise.
    pub to_ns: Option<i64>,
    /// One side alone.
    pub only: Option<Side>,
    /// Slices that last at least so long; instants are left out with a limit.
    pub min_dur_ns: Option<i64>,
}

impl Selection {
    /// Whether a rank is asked for. What is of no rank is where all are.
    pub fn has_rank(&self, rank: Option<i64>) -> bool {
        match rank {
            _ if self.ranks.is_empty() => true,
            Some(rank) => self.ranks.iter().any(|range| range.contains(&rank)),
            None => false,
        }
    }

    /// Whether a side is asked for.
    pub fn has(&self, side: Side) -> bool {
        self.only.is_none_or(|only| only == side)
    }

    /// The condition of rows `r` that last long enough, behind others.
    pub fn long(&self) -> String {
        self.min_dur_ns.map_or(String::new(), |min| format!("AND r.dur_ns >= {min}"))
    }
}

/// Ranges of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks(pub Vec<RangeInclusive<i64>>);

fn number(text: &str) -> Result<i64, String> {
    let text = text.trim();
    text.parse().ok().filter(|n| *n >= 0).ok_or_else(|| format!("{text:?} is no number from 0 on"))
}

/// Numbers from one to another, both included.
fn range(first: &str, last: &str) -> Result<RangeInclusive<i64>, String> {
    let range = number(first)?..=number(last)?;
    if range.is_empty() { Err(format!("{first} is more than {last}")) } else { Ok(range) }
}

/// `3..5`, `3..` or `3`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn steps(text: &str) -> Result<RangeInclusive<i64>, String> {
    match text.split_once("..") {
        None => range(text, text),
        Some((first, "")) => Ok(number(first)?..=i64::MAX),
        Some((first, last)) => range(first, last.trim_start_matches('=')),
    }
}

/// `0-7,12`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn ranks(text: &str) -> Result<Ranks, String> {
    let parts = text.split(',').map(|part| match part.split_once('-') {
        Some((first, last)) => range(first, last),
        None => range(part, part),
    });
    Ok(Ranks(parts.collect::<Result<_, _>>()?))
}

/// `10us`, `1.5ms`, `2s`: nanoseconds.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn time(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let scale = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" => return Err(format!("{text:?} has no unit: write ns, us, ms or s behind the number")),
        unit => return Err(format!("{unit:?} is no unit of time: write ns, us, ms or s")),
    };
    let number: f64 =
        digits.trim().parse().map_err(|_| format!("{digits:?} is no number of a time"))?;
    let ns = (number * scale).round();
    // A year is longer than any trace.
    if (0.0..3.2e16).contains(&ns) {
        Ok(ns as i64)
    } else {
        Err(format!("{text:?} is no time from 0 on within a trace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(steps("3..5"), Ok(3..=5));
        assert_eq!(steps("3..=5"), Ok(3..=5));
        assert_eq!(steps("3"), Ok(3..=3));
        assert_eq!(steps("3.."), Ok(3..=i64::MAX));
        assert_eq!(ranks("0-7,12"), Ok(Ranks(vec![0..=7, 12..=12])));
        for wrong in ["", "5..3", "-1", "a..b", "..5"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "7-0", "1,,2", "-3", "1-"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("10us"), Ok(10_000));
        assert_eq!(time("1.5 ms"), Ok(1_500_000));
        assert_eq!(time("2s"), Ok(2_000_000_000));
        assert_eq!(time("0ns"), Ok(0));
        for wrong in ["10", "us", "-1us", "1h", "nans", "infs", "1e300s", "9999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_of_no_rank_is_with_all() {
        let some = Selection { ranks: vec![0..=1, 4..=4], ..Selection::default() };
        assert!(some.has_rank(Some(4)) && !some.has_rank(Some(2)) && !some.has_rank(None));
        assert!(Selection::default().has_rank(None));
    }
}
