//! Jobs that nobody thought out: the tables of a trace with everything that a profiler records, at
//! random. Times lie on a coarse grid, values are few, and anything may be missing, so that ends
//! meet, ranks tie and rows have no partner. The same number gives the same trace on any machine.
//!
//! No answer about them is known. What is asked of them must hold of any trace: no error, the same
//! answers in any order of the rows, rank by rank and beside other traces, and those of before.

mod dice;
mod job;
mod plan;
mod rest;
mod sheet;

use std::collections::BTreeMap;

pub use dice::Dice;
use sheet::Sheet;

use crate::support::Csv;

/// How the name of such a fixture begins; its number stands behind it.
pub const PREFIX: &str = "wild-";

/// The name of a job by its number.
pub fn case(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// The name of several jobs that are compared.
pub fn case_of(numbers: &[u64]) -> String {
    numbers.iter().copied().map(case).collect::<Vec<_>>().join("+")
}

/// The number of a job, by its name.
pub fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// The numbers of several jobs, by the name of all.
pub fn numbers(name: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = name.split('+').map(number).collect();
    numbers.filter(|numbers| numbers.len() > 1)
}

/// Numbers of the jobs that are asked, one for each kind of job below.
pub const ALL: u64 = 10;

/// A moment of the clocks that count from 1970.
const EPOCH: i64 = 1_700_000_000_000_000_000;

/// What kind of job a trace is of.
struct World {
    number: u64,
    /// Profilers that recorded it, each of them all ranks.
    sources: &'static [&'static str],
    ranks: i64,
    steps: i64,
    /// Nanoseconds of the grid on which times lie.
    unit: i64,
    /// Start of the clock.
    base: i64,
    /// Percent of values that are missing.
    loss: u64,
    /// Words of the plan: what it trains or serves with.
    has: &'static str,
}

impl World {
    fn new(number: u64) -> Self {
        let kinds: [(&[_], [i64; 4], u64, _); ALL as usize] = [
            (&["kineto"], [4, 4, 1_000_000, EPOCH], 2, "fsdp tp shapes snapshot card"),
            (&["kineto"], [3, 5, 10, 0], 15, "ddp shapes p2p card graph gloo"),
            (&["nsys"], [4, 3, 100_000, 0], 3, "tp ddp p2p sampled nvtx graph"),
            (&["xla"], [4, 4, 10_000, EPOCH], 3, "tp ddp hlo card p2p"),
            (&["kineto"], [2, 6, 1_000_000, 0], 4, "engine tp bench graph moe card shapes"),
            (&["kineto"], [4, 5, 100_000, EPOCH], 5, "pp p2p ddp timeline card et ids warm shapes"),
            (&["kineto"], [1, 3, 1_000, 0], 10, "shapes timeline python moe gloo"),
            (&["kineto", "nsys"], [3, 3, 10_000, 0], 5, "fsdp ddp moe sampled et shapes warm"),
            // No time passes, and most is not known.
            (
                &["kineto"],
                [3, 3, 0, EPOCH],
                30,
                "fsdp tp moe sampled shapes card p2p snapshot bench",
            ),
            // Some ranks lack what others have.
            (
                &["kineto"],
                [5, 4, 100_000, 0],
                3,
                "fsdp tp moe ddp shapes card p2p graph gloo uneven",
            ),
        ];
        let (sources, [ranks, steps, unit, base], loss, has) = kinds[(number % ALL) as usize];
        Self { number, sources, ranks, steps, unit, base, loss, has }
    }

    fn has(&self, word: &str) -> bool {
        self.has.split(' ').any(|has| has == word)
    }
}

/// The tables of a job by their names.
pub fn tables(number: u64) -> BTreeMap<String, Csv> {
    tables_of(&World::new(number))
}

/// The same, by a clock that begins elsewhere.
pub fn tables_at(number: u64, base: i64) -> BTreeMap<String, Csv> {
    tables_of(&World { base, ..World::new(number) })
}

fn tables_of(world: &World) -> BTreeMap<String, Csv> {
    let mut sheets: BTreeMap<&'static str, Sheet> = BTreeMap::new();
    job::play(world, &mut sheets);
    rest::fill(world, &mut sheets);
    sheets.into_iter().map(|(name, sheet)| (name.to_owned(), sheet.into_csv())).collect()
}

/// The profiler whose rows are asked for, where several recorded a job.
pub fn shown(number: u64) -> Option<&'static str> {
    let sources = World::new(number).sources;
    sources.first().copied().filter(|_| sources.len() > 1)
}

/// What metrics say of a trace, as comparisons read it: a value for each of some names, in rows of
/// place, metric, unit, better direction and value.
pub fn results(number: u64, metrics: &[(&str, Option<&str>, Option<&str>)]) -> Csv {
    let mut dice = Dice::new(&[number, 55]);
    let mut sheet = Sheet::default();
    for (place, (metric, unit, better)) in metrics.iter().enumerate() {
        let start = 10 + place as i64 % 7;
        sheet.add(&[("place", &place), ("metric", metric)]);
        for (column, word) in [("unit", unit), ("better", better)] {
            if let Some(word) = word {
                sheet.set(column, word);
            }
        }
        if !dice.chance(10) {
            let change = dice.one(&[0, 0, 1, -1, 5, -5, 20, -10 * start]);
            sheet.set("value", &((10 * start + change) as f64 / 10.0));
        }
    }
    sheet.into_csv()
}

/// The same rows in another order.
pub fn shuffled(csv: &mut Csv, dice: &mut Dice) {
    for end in (1..csv.rows.len()).rev() {
        let other = dice.below(end as u64 + 1) as usize;
        csv.rows.swap(end, other);
    }
}
