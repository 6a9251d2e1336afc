//! Changes of level in made series: those that are planted are found, and nothing else.

use ccl_sql::engine::ResultRow;

use crate::support::{Csv, Tables};

/// Numbers that look random, the same in each run: xorshift64*.
struct Noise(u64);

impl Noise {
    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's t with 3 degrees of freedom.
    fn heavy(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / 3.0).sqrt()
    }
}

/// The rows of `history` over made series, a metric each.
fn judged(series: &[Vec<Option<f64>>]) -> Csv {
    let longest = series.iter().map(Vec::len).max().unwrap_or(0);
    let traces: Vec<String> = (0..longest).map(|run| format!("run-{run:03}")).collect();
    let metrics: Vec<String> = (0..series.len()).map(|i| format!("metric-{i:04}")).collect();
    let mut rows: Vec<ResultRow<'_>> = Vec::new();
    for (place, values) in series.iter().enumerate() {
        for (run, value) in values.iter().enumerate() {
            let place_of = i64::try_from(place).expect("a small number");
            rows.push((
                &traces[run],
                place_of,
                &metrics[place],
                1,
                Some("s"),
                Some("lower"),
                *value,
            ));
        }
    }
    Tables::with_results(&rows).rows_of("history", &[("threshold", 1.0)])
}

/// Runs at which a level begins, by series.
fn changes(series: &[Vec<Option<f64>>]) -> Vec<Vec<(usize, f64, String)>> {
    let csv = judged(series);
    let mut out = vec![Vec::new(); series.len()];
    for row in 0..csv.rows.len() {
        if csv.get(row, "is_change") == Some("true") {
            let text = |column| csv.get(row, column).expect("it is there").to_owned();
            let at: usize = text("metric")["metric-".len()..].parse().expect("a number");
            let run: usize = text("run").parse().expect("a number");
            out[at].push((run, text("change_pct").parse().expect("a number"), text("status")));
        }
    }
    out
}

fn known(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

/// By hand: 10, 11, 10, 11, 10 then 20, 21, 20: jumps of 1, 1, 1, 1, 10, 1, 1: noise 1.4826 / 1.414
/// = 1.048; at run 6 the median 20 against 10: least 4 x 1.048 x sqrt(1.571 x (1/5 + 1/3)) = 3.84.
#[test]
fn a_step_is_found_where_it_is() {
    let up = known(&[10.0, 11.0, 10.0, 11.0, 10.0, 20.0, 21.0, 20.0]);
    let down: Vec<Option<f64>> = up.iter().map(|v| v.map(|v| 31.0 - v)).collect();
    // A run without a value is none of the neighbours.
    let mut holes = up.clone();
    holes.insert(5, None);
    let one_outlier = known(&[10.0, 11.0, 10.0, 11.0, 10.0, 30.0, 10.0, 11.0, 10.0]);
    let drop_in_noise = known(&[10.0, 12.0, 8.0, 11.0, 9.0, 12.0, 10.0, 13.0, 9.0]);
    let too_few = known(&[10.0, 10.0, 10.0, 20.0, 20.0]);
    let exact = known(&[4.0, 4.0, 4.0, 5.0, 5.0, 5.0]);
    let below_threshold = known(&[1000.0, 1000.0, 1000.0, 1005.0, 1005.0, 1005.0]);
    let found =
        changes(&[up, down, holes, one_outlier, drop_in_noise, too_few, exact, below_threshold]);
    let one = |run: usize, pct: f64, status: &str| vec![(run, pct, status.to_owned())];
    assert_eq!(found[0], one(6, 100.0, "Worse"));
    assert_eq!(found[1][0].0, 6);
    assert_eq!(found[1][0].2, "Better");
    assert_eq!(found[2], one(7, 100.0, "Worse"));
    assert_eq!(found[6], one(4, 25.0, "Worse"));
    for (i, quiet) in found.iter().enumerate().filter(|(i, _)| [3, 4, 5, 7].contains(i)) {
        assert!(quiet.is_empty(), "series {i}: {quiet:?}");
    }
}

#[test]
fn levels_and_bands_are_those_of_their_stretch() {
    let csv = judged(&[known(&[10.0, 11.0, 10.0, 11.0, 10.0, 20.0, 21.0, 20.0, 40.0])]);
    let column =
        |name| (0..csv.rows.len()).map(|r| csv.get(r, name).unwrap_or("")).collect::<Vec<_>>();
    assert_eq!(column("level"), ["10.0"; 5].into_iter().chain(["20.5"; 4]).collect::<Vec<_>>());
    assert_eq!(column("is_outside")[8], "true");
    assert_eq!(column("is_outside")[..8], ["false"; 8]);
    let high: f64 = column("high")[0].parse().expect("a number");
    // The jumps are 1, 1, 1, 1, 10, 1, 1, 20: their median is 1.
    assert!((high - 10.0 - 4.0 * 1.4826 / 2f64.sqrt()).abs() < 1e-9, "{high}");
    let few = judged(&[known(&[1.0, 2.0, 3.0])]);
    assert!((0..few.rows.len()).all(|row| few.get(row, "low").is_none()));
}

/// The rates that the caveat of the comparison states.
#[test]
fn false_alarms_are_as_rare_as_is_said() {
    let mut noise = Noise(7);
    let mut series = |make: &mut dyn FnMut(&mut Noise) -> f64| -> Vec<Vec<Option<f64>>> {
        (0..200).map(|_| (0..30).map(|_| Some(make(&mut noise))).collect()).collect()
    };
    let normal = series(&mut |n| 100.0 + 2.0 * n.normal());
    let heavy = series(&mut |n| 100.0 + 2.0 * n.heavy());
    let outliers = series(&mut |n| {
        let value = 100.0 + 2.0 * n.normal();
        if n.uniform() < 0.05 { value * 1.3 } else { value }
    });
    let steps: Vec<Vec<Option<f64>>> = normal
        .iter()
        .map(|values| {
            let late = |(i, v): (usize, &Option<f64>)| v.map(|v| if i < 15 { v } else { v + 12.0 });
            values.iter().enumerate().map(late).collect()
        })
        .collect();
    let share = |all: &[Vec<Option<f64>>]| {
        changes(all).iter().filter(|found| !found.is_empty()).count() as f64 / all.len() as f64
    };
    for (name, all) in [("normal", &normal), ("heavy", &heavy), ("outliers", &outliers)] {
        let rate = share(all);
        assert!(rate <= 0.02, "{name}: {rate}");
    }
    // A step of six times the noise is found, within a run of where it is.
    let found = changes(&steps);
    let right = found.iter().filter(|f| f.iter().any(|(run, ..)| (15..=17).contains(run))).count();
    assert!(right as f64 / found.len() as f64 > 0.9, "{right} of {}", found.len());
}
