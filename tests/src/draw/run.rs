//! How a property is tested on many draws.

use std::io::Write;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

/// The seed of all draws: `MHA_SEED` from the environment, and 1 without it.
///
/// # Panics
///
/// When `MHA_SEED` is no whole number.
pub fn seed() -> u64 {
    match std::env::var("MHA_SEED") {
        Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("MHA_SEED must be a u64, got {seed}")),
        Err(_) => 1,
    }
}

/// Calls `check`, which panics where the property does not hold, with `count` draws.
///
/// # Panics
///
/// When `check` does: with the smallest case found, and the seed that leads to it.
#[track_caller]
pub fn for_all_draws<S: Strategy>(name: &str, count: u32, strategy: &S, check: impl Fn(S::Value)) {
    let seed = seed();
    // Past the capture of the test harness, so that a run that passes says it too.
    let _ = writeln!(std::io::stderr(), "{name}: {count} draws, MHA_SEED={seed}");
    let config = Config {
        cases: count,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let test = |case| {
        check(case);
        Ok(())
    };
    match TestRunner::new(config).run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => {
            panic!("{name}, MHA_SEED={seed}: {reason}\nthe smallest case: {case:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("{name}, MHA_SEED={seed}: {reason}"),
    }
}
