//! Properties of random cases.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Runs a property on a few random cases, the same in every run; nothing is written to disk when
/// one fails.
pub fn check<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) where
    S::Value: std::fmt::Debug,
{
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 8, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        .run(strategy, test)
        .unwrap_or_else(|e| panic!("{e}"));
}
