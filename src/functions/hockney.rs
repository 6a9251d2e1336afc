//! The Hockney model of a transfer, `seconds = alpha + beta x bytes`, fitted to measured calls.
//!
//! In come raw samples in any order; a sample counts when its size and its time are finite and
//! positive. Each size stands for itself once, with the median time of its samples, so that neither
//! a size that is sent often nor a call that waited pulls the line. Through these points goes the
//! line of least squares with alpha, beta >= 0: of two variables, so in closed form. Where alpha
//! would fall below 0 the line goes through the origin; where times do not grow with the size the
//! fit is their mean, beta is 0 and there is no bandwidth. Both cannot happen at once, as times are
//! positive. The slope of Theil and Sen over the same points stands beside it as a check; it knows
//! no clamps.
//!
//! `flag` says why there is no fit, or why it is to be doubted: all that hold, in the order of the
//! table, with commas between them. None for a plain line:
//!
//! | flag | meaning |
//! | --- | --- |
//! | `group_too_small` | no fit: the ring has fewer than two ranks |
//! | `no_samples` | no fit: nothing counts |
//! | `few_calls` | fewer than [`ENOUGH_CALLS`] samples |
//! | `one_size` | no fit: a line needs two sizes |
//! | `two_sizes` | a line goes through any two points: `r2` says nothing |
//! | `out_of_range` | no fit: it does not fit into doubles |
//! | `low_r2` | `r2` is below [`LOW_R2`] |
//! | `beta_clamped` | times do not grow with the size: beta is 0, alpha the mean |
//! | `alpha_clamped` | the line would cut the axis below 0: it goes through the origin |
//! | `theil_sen_differs` | the slope of Theil and Sen is more than [`SLOPES_DIFFER`] away |
//!
//! `r2` is measured against the mean of the medians: 1 - residuals / deviations. A line through the
//! origin can be worse than that mean, and `r2` is negative then. It is None where all are equal.
//!
//! Sources: R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2",
//! Parallel Computing 20 (1994), for the model, the asymptotic bandwidth 1/beta and n½ =
//! alpha/beta, the size that reaches half of it; H. Theil (1950) and P. K. Sen, JASA 63 (1968), for
//! the check.

use std::collections::BTreeMap;

/// Size of a message in bytes and its time in seconds.
pub type Sample = (f64, f64);

/// Samples below which a fit is to be doubted: the least of which a metric makes its value.
const ENOUGH_CALLS: usize = 5;

/// Share of the deviations below which a line says little of the times.
const LOW_R2: f64 = 0.8;

/// Part of the larger slope by which the two may differ. Two estimators of one clean line agree to
/// a few percent; a quarter says that some sizes do not lie on the line of the others.
const SLOPES_DIFFER: f64 = 0.25;

/// Part of the mean time by which a line may cut the axis below 0 and still count as one through
/// the origin: what rounding makes of times that are proportional to the size.
const ROUNDING: f64 = 1e-12;

/// Sizes that the slope of Theil and Sen is taken over, at most: half a million pairs, 4 MB. Of
/// more sizes, so many are taken at equal distances in their order, the first and the last among
/// them.
const THEIL_SEN_SIZES: usize = 1_000;

/// A fit, and what it rests on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fit {
    /// Time of an empty message, in seconds.
    pub alpha_s: Option<f64>,
    /// Time of one more byte, in seconds.
    pub beta_s_per_byte: Option<f64>,
    /// 1 / beta; None where beta is 0.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// alpha / beta, the size that reaches half the bandwidth; None where beta is 0.
    pub n_half_bytes: Option<f64>,
    /// Share of the deviations from the mean that the fit explains.
    pub r2: Option<f64>,
    /// Slope of Theil and Sen, in seconds per byte.
    pub theil_sen_beta_s_per_byte: Option<f64>,
    /// Samples that count.
    pub samples: usize,
    /// Distinct sizes among them.
    pub sizes: usize,
    /// See the table above.
    pub flag: Option<String>,
}

impl Fit {
    /// The same with one flag more.
    fn flagged(mut self, flag: &str) -> Self {
        let flags = self.flag.get_or_insert_default();
        if !flags.is_empty() {
            flags.push_str(", ");
        }
        flags.push_str(flag);
        self
    }
}

/// Fits `seconds = alpha + beta x bytes`.
pub fn fit(samples: &[Sample]) -> Fit {
    let mut counted: Vec<Sample> = samples.iter().copied().filter(counts).collect();
    counted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let points: Vec<Sample> = counted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| (same[0].0, middle(same.len(), |i| same[i].1)))
        .collect();
    let mut basis = Fit { samples: counted.len(), sizes: points.len(), ..Fit::default() };
    if (1..ENOUGH_CALLS).contains(&counted.len()) {
        basis = basis.flagged("few_calls");
    }
    match points.len() {
        0 => basis.flagged("no_samples"),
        1 => basis.flagged("one_size"),
        2 => line(&points, basis.flagged("two_sizes")),
        _ => line(&points, basis),
    }
}

/// Fits an all-reduce over `ranks` as a ring: `seconds = 2(n - 1) x (alpha + beta x bytes / n)`, as
/// each of its 2(n - 1) steps sends an n-th of the message. Alpha and beta are those of one step;
/// `n_half_bytes` is a size of the whole message.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
/// Operations in MPICH", IJHPCA 19(1) (2005); nccl-tests doc/PERFORMANCE.md.
pub fn fit_ring(samples: &[Sample], ranks: i64) -> Fit {
    if ranks < 2 {
        let Fit { samples, sizes, .. } = fit(samples);
        return Fit { samples, sizes, ..Fit::default() }.flagged("group_too_small");
    }
    let n = ranks as f64;
    let step = |s: &Sample| (s.0 / n, s.1 / (2.0 * (n - 1.0)));
    let steps: Vec<Sample> = samples.iter().filter(|s| counts(s)).map(step).collect();
    let fit = fit(&steps);
    Fit { n_half_bytes: fit.n_half_bytes.map(|size| size * n), ..fit }
}

/// The fits of rings of several sizes, by ascending number of ranks: each of its own samples.
pub fn fit_rings(samples: &[(i64, Sample)]) -> Vec<(i64, Fit)> {
    let mut rings: BTreeMap<i64, Vec<Sample>> = BTreeMap::new();
    for (ranks, sample) in samples {
        rings.entry(*ranks).or_default().push(*sample);
    }
    rings.into_iter().map(|(ranks, samples)| (ranks, fit_ring(&samples, ranks))).collect()
}

fn counts(sample: &Sample) -> bool {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    positive(sample.0) && positive(sample.1)
}

/// The median of `count` ascending numbers, the mean of the middle two where their count is even,
/// as DuckDB's `median` has it.
fn middle(count: usize, at: impl Fn(usize) -> f64) -> f64 {
    let (low, high) = (at((count - 1) / 2), at(count / 2));
    low + (high - low) * 0.5
}

/// The fit of two or more points, sorted by size; no two sizes are equal.
fn line(points: &[Sample], basis: Fit) -> Fit {
    // Sizes go up to 1e12 and times down to 1e-7: both are scaled into 0..2 and centred before
    // they are multiplied.
    let x_unit = power_of_two(points[points.len() - 1].0);
    let y_unit = power_of_two(points.iter().fold(0.0, |most: f64, p| most.max(p.1)));
    let scaled: Vec<Sample> = points.iter().map(|(x, y)| (x / x_unit, y / y_unit)).collect();
    let count = scaled.len() as f64;
    let x_mean = scaled.iter().map(|p| p.0).sum::<f64>() / count;
    let y_mean = scaled.iter().map(|p| p.1).sum::<f64>() / count;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 { scaled.iter().map(|p| of(p.0, p.1)).sum() };
    let sxx = sum(&|x, _| (x - x_mean) * (x - x_mean));
    let sxy = sum(&|x, y| (x - x_mean) * (y - y_mean));
    let syy = sum(&|_, y| (y - y_mean) * (y - y_mean));
    let slope = sxy / sxx;
    let intercept = y_mean - slope * x_mean;
    let (alpha, beta, clamped) = if slope <= 0.0 {
        (y_mean, 0.0, Some("beta_clamped"))
    } else if intercept < 0.0 {
        let below = intercept < -ROUNDING * y_mean;
        (0.0, sum(&|x, y| x * y) / sum(&|x, _| x * x), below.then_some("alpha_clamped"))
    } else {
        (intercept, slope, None)
    };
    let offset = alpha + beta * x_mean - y_mean;
    let residuals = sum(&|x, y| {
        let left = (y - y_mean) - beta * (x - x_mean) - offset;
        left * left
    });
    let alpha_s = alpha * y_unit;
    let beta_s_per_byte = beta * (y_unit / x_unit);
    let theil_sen = theil_sen(points);
    let bandwidth = (beta > 0.0).then(|| x_unit / y_unit / beta);
    let n_half = (beta > 0.0).then(|| alpha / beta * x_unit);
    let numbers = [Some(alpha_s), Some(beta_s_per_byte), Some(theil_sen), bandwidth, n_half];
    if !numbers.into_iter().flatten().all(f64::is_finite) {
        return basis.flagged("out_of_range");
    }
    let distance = (theil_sen - beta_s_per_byte).abs();
    let differs = distance > SLOPES_DIFFER * beta_s_per_byte.max(theil_sen.abs());
    let r2 = (syy > 0.0).then(|| 1.0 - residuals / syy);
    let low = r2.is_some_and(|r2| r2 < LOW_R2);
    let doubts = [
        low.then_some("low_r2"),
        clamped,
        // The slope of Theil and Sen knows no clamps: a clamped one differs, and that is said.
        (differs && clamped.is_none()).then_some("theil_sen_differs"),
    ];
    let fit = Fit {
        alpha_s: Some(alpha_s),
        beta_s_per_byte: Some(beta_s_per_byte),
        bandwidth_bytes_per_s: bandwidth,
        n_half_bytes: n_half,
        r2,
        theil_sen_beta_s_per_byte: Some(theil_sen),
        ..basis
    };
    doubts.into_iter().flatten().fold(fit, Fit::flagged)
}

/// The largest power of two up to a positive number: to scale by it costs no digit. A number so
/// small that it is subnormal gives 0, and with that no fit.
fn power_of_two(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & f64::INFINITY.to_bits())
}

/// The median of the slopes of all pairs of points, which come sorted by size.
fn theil_sen(points: &[Sample]) -> f64 {
    let kept: Vec<Sample> = if points.len() <= THEIL_SEN_SIZES {
        points.to_vec()
    } else {
        let (last, steps) = (points.len() - 1, THEIL_SEN_SIZES - 1);
        (0..=steps).map(|i| points[i * last / steps]).collect()
    };
    let slope = |a: &Sample, b: &Sample| (b.1 - a.1) / (b.0 - a.0);
    let mut slopes: Vec<f64> = kept
        .iter()
        .enumerate()
        .flat_map(|(i, a)| kept[i + 1..].iter().map(move |b| slope(a, b)))
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    middle(slopes.len(), |i| slopes[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() <= 1e-9 * b.abs())
    }

    /// Points of a line with one sample each.
    fn exact(alpha: f64, beta: f64, sizes: &[f64]) -> Vec<Sample> {
        sizes.iter().map(|x| (*x, alpha + beta * x)).collect()
    }

    #[test]
    fn too_little_gives_no_fit_and_the_reason() {
        let none = fit(&[]);
        assert_eq!((none.alpha_s, none.samples, none.sizes), (None, 0, 0));
        assert_eq!(none.flag.as_deref(), Some("no_samples"));
        let one = fit(&[(8.0, 1.0), (8.0, 2.0)]);
        assert_eq!((one.beta_s_per_byte, one.samples, one.sizes), (None, 2, 1));
        assert_eq!(one.flag.as_deref(), Some("few_calls, one_size"));
        assert_eq!(fit(&[(8.0, 1.0)]).flag.as_deref(), Some("few_calls, one_size"));
        assert_eq!(fit(&[(8.0, 1.0); 5]).flag.as_deref(), Some("one_size"));
    }

    #[test]
    fn a_fit_that_rests_on_little_says_so() {
        let points = exact(1.0, 2.0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let flag = |samples: &[Sample]| fit(samples).flag;
        assert_eq!(flag(&points), None);
        assert_eq!(flag(&points[..4]).as_deref(), Some("few_calls"));
        assert_eq!(flag(&points[..2]).as_deref(), Some("few_calls, two_sizes"));
        // Six calls of two sizes: r2 is 1 whatever they take.
        let two = [&points[..2], &points[..2], &points[..2]].concat();
        assert_eq!((fit(&two).r2, flag(&two).as_deref()), (Some(1.0), Some("two_sizes")));
        // Sizes 1 to 5 take 2, 1, 4, 3, 5: slope 8/10, r2 1 - 3.6/10.
        // With 2, 1, 3, 4, 5 the slope is 9/10, r2 1 - 1.9/10.
        let with = |times: [f64; 5]| -> Vec<Sample> {
            (1..6).map(f64::from).zip(times.map(|t| t + 100.0)).collect()
        };
        let low = fit(&with([2.0, 1.0, 4.0, 3.0, 5.0]));
        assert!(near(low.r2, 0.64) && low.flag.as_deref() == Some("low_r2"), "{low:?}");
        let enough = fit(&with([2.0, 1.0, 3.0, 4.0, 5.0]));
        assert!(near(enough.r2, 0.81) && enough.flag.is_none(), "{enough:?}");
    }

    #[test]
    fn what_is_no_measurement_does_not_count() {
        let bad = [
            (0.0, 1.0),
            (-8.0, 1.0),
            (8.0, 0.0),
            (8.0, -1.0),
            (f64::NAN, 1.0),
            (8.0, f64::NAN),
            (f64::INFINITY, 1.0),
            (8.0, f64::INFINITY),
        ];
        assert_eq!(fit(&bad), fit(&[]));
        assert_eq!(fit_ring(&bad, 4), fit_ring(&[], 4));
        let good = exact(1.0, 2.0, &[1.0, 2.0, 3.0]);
        assert_eq!(fit(&[&good[..], &bad[..]].concat()), fit(&good));
    }

    #[test]
    fn by_hand() {
        // Medians 2 (of 1, 3), 4 and 5 at 1, 2 and 3 bytes: slope 3/2, mean 11/3, so alpha 2/3.
        // Residuals -1/6, 1/3, -1/6 against deviations -5/3, 1/3, 4/3: 1 - (1/6)/(42/9) = 27/28.
        // Slopes of pairs: 2, 1, 3/2.
        let f = fit(&[(3.0, 5.0), (1.0, 1.0), (2.0, 4.0), (1.0, 3.0)]);
        assert!(near(f.alpha_s, 2.0 / 3.0) && near(f.beta_s_per_byte, 1.5), "{f:?}");
        assert!(near(f.bandwidth_bytes_per_s, 2.0 / 3.0) && near(f.n_half_bytes, 4.0 / 9.0));
        assert!(near(f.r2, 27.0 / 28.0) && near(f.theil_sen_beta_s_per_byte, 1.5), "{f:?}");
        assert_eq!((f.samples, f.sizes, f.flag.as_deref()), (4, 3, Some("few_calls")));
    }

    #[test]
    fn a_line_below_the_origin_goes_through_it() {
        // x 1, 2 and y 1, 3: slope 2, alpha -1. Through the origin: (1 + 6) / (1 + 4) = 1.4;
        // residuals -0.4 and 0.2, deviations -1 and 1: 1 - 0.2/2.
        let f = fit(&[(1.0, 1.0), (2.0, 3.0)]);
        let flags = Some("few_calls, two_sizes, alpha_clamped");
        assert_eq!((f.alpha_s, f.flag.as_deref()), (Some(0.0), flags));
        assert!(near(f.beta_s_per_byte, 1.4) && near(f.r2, 0.9), "{f:?}");
        assert_eq!(f.n_half_bytes, Some(0.0));
        assert!(near(f.theil_sen_beta_s_per_byte, 2.0));
    }

    #[test]
    fn what_rounding_puts_below_the_origin_is_not_said() {
        let f = fit(&exact(0.0, 0.1, &[1.0, 2.0, 3.0, 4.0, 5.0]));
        assert!(near(f.beta_s_per_byte, 0.1), "{f:?}");
        assert_eq!((f.alpha_s, f.flag.as_deref()), (Some(0.0), None));
    }

    #[test]
    fn times_that_do_not_grow_give_their_mean() {
        let f = fit(&[(1.0, 3.0), (2.0, 1.0)]);
        assert_eq!((f.alpha_s, f.beta_s_per_byte, f.r2), (Some(2.0), Some(0.0), Some(0.0)));
        assert_eq!((f.bandwidth_bytes_per_s, f.n_half_bytes), (None, None));
        assert_eq!(f.theil_sen_beta_s_per_byte, Some(-2.0));
        assert_eq!(f.flag.as_deref(), Some("few_calls, two_sizes, low_r2, beta_clamped"));
        let equal = fit(&[(1.0, 3.0), (2.0, 3.0)]);
        assert_eq!((equal.alpha_s, equal.r2), (Some(3.0), None));
        assert_eq!(equal.flag.as_deref(), Some("few_calls, two_sizes, beta_clamped"));
    }

    #[test]
    fn large_sizes_and_short_times_keep_their_digits() {
        // 20 us and 25 GB/s, up to a terabyte.
        let sizes = [1e3, 1e6, 1e9, 1e12];
        let f = fit(&exact(2e-5, 4e-11, &sizes));
        assert!(near(f.beta_s_per_byte, 4e-11), "{f:?}");
        assert!((f.alpha_s.unwrap_or_default() - 2e-5).abs() < 1e-13, "{f:?}");
        // Sizes that differ in their last digits only.
        let f = fit(&exact(1e-7, 1e-19, &[1e12, 1e12 + 1.0, 1e12 + 2.0]));
        assert_eq!(f.sizes, 3);
        let tiny = fit(&exact(1e-7, 1e-13, &[1.0, 2.0, 3.0]));
        assert!((tiny.alpha_s.unwrap_or_default() - 1e-7).abs() < 1e-15, "{tiny:?}");
        // Sizes 0, 1 and 3 beyond a megabyte take 0, 2 and 3 units beyond a second: squares of the
        // deviations 14/3 and 14/3, products 13/3. Squares less the square of the mean lose them.
        let unit = 2f64.powi(-21);
        let times = [(1e6, 1.0), (1e6 + 1.0, 1.0 + 2.0 * unit), (1e6 + 3.0, 1.0 + 3.0 * unit)];
        let f = fit(&times);
        assert!(near(f.beta_s_per_byte, 13.0 / 14.0 * unit) && near(f.r2, 169.0 / 196.0), "{f:?}");
    }

    #[test]
    fn what_leaves_the_doubles_is_no_fit() {
        let f = fit(&[(1e300, 1e-300), (2e300, 2e-300), (3e300, f64::MAX)]);
        assert!(f.flag.is_some());
        let f = fit(&[(f64::MIN_POSITIVE, 1.0), (2.0 * f64::MIN_POSITIVE, f64::MAX)]);
        let flags = Some("few_calls, two_sizes, out_of_range");
        assert_eq!((f.alpha_s, f.flag.as_deref(), f.sizes), (None, flags, 2));
        // Six of ten slopes are beyond all doubles, that of the line is not.
        let steep = [1.0, 2.0, 3.0, 4.0].map(|i| (i * 1e-300, i * 1e10));
        let f = fit(&[&steep[..], &[(1.0, 5e10)]].concat());
        assert_eq!((f.alpha_s, f.flag.as_deref()), (None, Some("out_of_range")));
    }

    #[test]
    fn one_size_off_the_line_is_said() {
        let mut points = exact(2.0, 1.0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(fit(&points).flag, None);
        // 3, 4, 5, 6 and 10: slope 16/10, alpha 5.6 - 4.8; six of the ten slopes of pairs are 1.
        points[4].1 = 10.0;
        let f = fit(&points);
        assert!(near(f.alpha_s, 0.8) && near(f.beta_s_per_byte, 1.6), "{f:?}");
        assert!(near(f.theil_sen_beta_s_per_byte, 1.0), "{f:?}");
        // Residuals 0.6, 0, -0.6, -1.2, 1.2 of deviations -2.6, -1.6, -0.6, 0.4, 4.4.
        assert!(near(f.r2, 1.0 - 3.6 / 29.2), "{f:?}");
        assert_eq!(f.flag.as_deref(), Some("theil_sen_differs"));
        // It is a share of the slope, in whatever unit.
        let quick: Vec<Sample> = points.iter().map(|(x, y)| (*x, y * 1e-6)).collect();
        assert_eq!(fit(&quick).flag.as_deref(), Some("theil_sen_differs"));
        // Further off the line falls below the origin, which says more.
        points[4].1 = 60.0;
        assert_eq!(fit(&points).flag.as_deref(), Some("low_r2, alpha_clamped"));
    }

    #[test]
    fn a_ring_is_fitted_by_its_steps() {
        // Over 4 ranks: 6 steps of alpha 1 and beta 2 a byte of a quarter.
        let samples: Vec<Sample> =
            [4.0, 8.0, 40.0].iter().map(|s| (*s, 6.0 * (1.0 + 2.0 * s / 4.0))).collect();
        let f = fit_ring(&samples, 4);
        assert!(near(f.alpha_s, 1.0) && near(f.beta_s_per_byte, 2.0), "{f:?}");
        assert!(near(f.bandwidth_bytes_per_s, 0.5), "{f:?}");
        // Half the rate where S/4 = alpha/beta = 0.5.
        assert!(near(f.n_half_bytes, 2.0), "{f:?}");
        for ranks in [1, 0, -3, i64::MIN] {
            let f = fit_ring(&samples, ranks);
            assert_eq!((f.alpha_s, f.samples, f.sizes), (None, 3, 3));
            assert_eq!(f.flag.as_deref(), Some("group_too_small"));
        }
        // Two ranks are a ring: 2 steps, each of a half.
        let two = fit_ring(&[(2.0, 4.0), (4.0, 6.0), (6.0, 8.0)], 2);
        assert!(near(two.alpha_s, 1.0) && near(two.beta_s_per_byte, 1.0), "{two:?}");
    }

    #[test]
    fn many_sizes_are_thinned_for_the_check_only() {
        let sizes: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let f = fit(&exact(1e-3, 1e-6, &sizes));
        assert_eq!((f.samples, f.sizes, f.flag.as_deref()), (100_000, 100_000, None));
        assert!(near(f.beta_s_per_byte, 1e-6), "{f:?}");
        assert!(f.theil_sen_beta_s_per_byte.is_some_and(|b| (b - 1e-6).abs() < 1e-15), "{f:?}");
        // Of 1,999 sizes every second one is taken. The slope from a to b is a + b.
        let square = |x: u32| (f64::from(x), f64::from(x * x));
        let all: Vec<Sample> = (1..=1_999).map(square).collect();
        let every_second: Vec<Sample> = (1..=1_999).step_by(2).map(square).collect();
        assert_eq!(theil_sen(&all), theil_sen(&every_second));
    }
}
