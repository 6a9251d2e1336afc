//! Fits of Hockney's model on random samples: exact lines, other units, another order, outliers.

use std::collections::BTreeMap;

use ccl_sql::functions::hockney::{self, Sample};
use proptest::prelude::*;

use crate::support::property::check;

/// Samples of a few sizes, in nanoseconds and kilobytes, none of them on a line.
fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (1_u32..9, 1_u32..1000);
    proptest::collection::vec(sample, 2..30).prop_map(|all| {
        all.iter().map(|(x, y)| (f64::from(*x) * 1e3, f64::from(*y) / 1e9)).collect()
    })
}

/// Alpha in microseconds, beta in picoseconds a byte, and at least five sizes.
fn exact_line() -> impl Strategy<Value = (f64, f64, Vec<f64>)> {
    let sizes = proptest::collection::btree_set(1_u64..1_000_000_000, 5..20);
    (1_u32..100_000, 1_u32..100_000, sizes).prop_map(|(alpha, beta, sizes)| {
        let sizes = sizes.iter().map(|size| *size as f64).collect();
        (f64::from(alpha) * 1e-6, f64::from(beta) * 1e-12, sizes)
    })
}

fn close(a: Option<f64>, b: f64, tolerance: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() <= tolerance)
}

#[test]
fn the_fit_of_an_exact_line_is_the_line() {
    check(200, &(exact_line(), 2_i64..600), |((alpha, beta, sizes), ranks)| {
        let points: Vec<Sample> = sizes.iter().map(|x| (*x, alpha + beta * x)).collect();
        let fit = hockney::fit(&points);
        // What rounding may do to alpha depends on the longest time, not on alpha.
        let longest = points[points.len() - 1].1;
        prop_assert!(close(fit.alpha_s, alpha, longest * 1e-12), "{fit:?}");
        prop_assert!(
            close(fit.beta_s_per_byte, beta, beta * 1e-9 + longest / sizes[sizes.len() - 1] * 1e-9),
            "{fit:?}"
        );
        prop_assert!(fit.flag.is_none(), "{fit:?}");
        let n = ranks as f64;
        let ring: Vec<Sample> =
            sizes.iter().map(|x| (*x, 2.0 * (n - 1.0) * (alpha + beta * x / n))).collect();
        let of_ring = hockney::fit_ring(&ring, ranks);
        prop_assert!(close(of_ring.alpha_s, alpha, longest * 1e-12), "{of_ring:?}");
        prop_assert!(
            close(of_ring.n_half_bytes, alpha / beta * n, n * longest / beta * 1e-9),
            "{of_ring:?}"
        );
        Ok(())
    });
}

#[test]
fn other_units_of_size_rescale_the_slope() {
    check(200, &(samples(), 1_u32..5000), |(samples, k)| {
        let k = f64::from(k);
        let scaled: Vec<Sample> = samples.iter().map(|(x, y)| (x * k, *y)).collect();
        let (one, other) = (hockney::fit(&samples), hockney::fit(&scaled));
        prop_assert_eq!(one.alpha_s.is_some(), other.alpha_s.is_some());
        prop_assert_eq!((one.samples, one.sizes), (other.samples, other.sizes));
        if let (Some(alpha), Some(beta)) = (one.alpha_s, one.beta_s_per_byte) {
            prop_assert!(
                close(other.beta_s_per_byte, beta / k, beta / k * 1e-9),
                "{one:?} {other:?}"
            );
            prop_assert!(close(other.alpha_s, alpha, 1e-6 * 1e-9), "{one:?} {other:?}");
        }
        Ok(())
    });
}

#[test]
fn the_order_of_samples_changes_no_digit_of_the_fit() {
    let shuffled = samples().prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle()));
    check(200, &shuffled, |(one, other)| {
        prop_assert_eq!(hockney::fit(&one), hockney::fit(&other));
        Ok(())
    });
}

#[test]
fn late_calls_and_odd_sizes_move_the_fit_little() {
    let odd = proptest::collection::vec(2.0_f64..50.0, 2);
    check(200, &(exact_line(), odd), |((alpha, beta, sizes), odd)| {
        let time = |x: &f64| alpha + beta * x;
        // Two of five samples of every size waited: the medians, and all of the fit, stay.
        let clean: Vec<Sample> = sizes.iter().map(|x| (*x, time(x))).collect();
        let late: Vec<Sample> = sizes
            .iter()
            .flat_map(|x| [1.0, 1.0, 1.0, odd[0], odd[1]].map(|late| (*x, time(x) * late)))
            .collect();
        let fit = hockney::fit(&clean);
        prop_assert_eq!(hockney::Fit { samples: clean.len(), ..hockney::fit(&late) }, fit);
        // All samples of one size in ten are odd: most pairs of sizes lie on the line still.
        let mut some = clean.clone();
        for i in (0..some.len()).step_by(10) {
            some[i].1 *= odd[0];
        }
        let near = hockney::fit(&some).theil_sen_beta_s_per_byte;
        let rounding = time(&sizes[sizes.len() - 1]) * 1e-9;
        prop_assert!(close(near, beta, beta * 1e-6 + rounding), "{near:?} against {beta}");
        Ok(())
    });
}

#[test]
fn no_line_with_positive_terms_fits_better() {
    let other = (0_u32..2000, 0_u32..2000);
    check(400, &(samples(), other), |(samples, (a, b))| {
        let fit = hockney::fit(&samples);
        let (Some(alpha), Some(beta)) = (fit.alpha_s, fit.beta_s_per_byte) else { return Ok(()) };
        prop_assert!(alpha >= 0.0 && beta >= 0.0, "{fit:?}");
        prop_assert!(fit.r2.is_none_or(|r2| r2 <= 1.0), "{fit:?}");
        // The medians, another way: by counting.
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        samples.iter().for_each(|(x, y)| by_size.entry(*x as u64).or_default().push(*y));
        let points: Vec<Sample> = by_size
            .into_iter()
            .map(|(x, mut y)| {
                y.sort_by(f64::total_cmp);
                (x as f64, (y[(y.len() - 1) / 2] + y[y.len() / 2]) / 2.0)
            })
            .collect();
        let misses = |alpha: f64, beta: f64| -> f64 {
            points.iter().map(|(x, y)| (y - alpha - beta * x).powi(2)).sum()
        };
        // Lines near the fit, on the axes, and anywhere.
        let anywhere = (f64::from(a) / 1e9, f64::from(b) / 1e13);
        let lines = [
            (alpha * 1.01, beta),
            (alpha, beta * 1.01),
            (alpha, beta * 0.99),
            (0.0, anywhere.1),
            anywhere,
        ];
        for (a, b) in lines {
            prop_assert!(
                misses(alpha, beta) <= misses(a, b) * (1.0 + 1e-9) + 1e-30,
                "{fit:?} against {a}, {b}"
            );
        }
        Ok(())
    });
}
