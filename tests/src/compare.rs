//! How a result is held against the oracle.

use crate::Measure;

/// The largest difference, NaN if there is one.
///
/// # Panics
///
/// When the lengths differ.
pub fn max_error(out: &[f32], oracle: &[f64]) -> f64 {
    assert_eq!(out.len(), oracle.len(), "lengths");
    let errors = out.iter().zip(oracle).map(|(&o, &r)| (f64::from(o) - r).abs());
    errors.fold(0.0, |worst, e| if e > worst || e.is_nan() { e } else { worst })
}

/// Whether `out` is at most twice as far from the oracle as the textbook formula in f32, give or
/// take one rounding of a number as large as `magnitude`; if not, in words.
pub fn as_accurate_as_textbook(
    out: &[f32],
    textbook: &[f32],
    oracle: &[f64],
    magnitude: f64,
) -> Result<(), String> {
    let measure = Measure {
        name: String::new(),
        error: max_error(out, oracle),
        textbook: max_error(textbook, oracle),
        rounding: one_rounding(magnitude),
    };
    measure.verdict()
}

/// The rounding error of a number in f32.
pub(crate) fn one_rounding(magnitude: f64) -> f64 {
    f64::from(f32::EPSILON) * magnitude
}

/// Panics unless [`as_accurate_as_textbook`], with the largest number of the oracle as magnitude.
#[track_caller]
pub fn assert_as_accurate_as_textbook(name: &str, out: &[f32], textbook: &[f32], oracle: &[f64]) {
    if let Err(error) = as_accurate_as_textbook(out, textbook, oracle, largest(oracle)) {
        panic!("{name}: {error}");
    }
}

/// The largest absolute value.
pub fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |max, x| x.abs().max(max))
}

/// Panics unless every number is within `tolerance` of the one expected.
#[track_caller]
pub fn assert_close(out: &[f32], expected: &[f64], tolerance: f64) {
    let error = max_error(out, expected);
    assert!(
        error <= tolerance,
        "error {error:e} over {tolerance:e}; the first numbers: {:?} for {:?}",
        &out[..out.len().min(8)],
        &expected[..out.len().min(8)],
    );
}

/// Panics unless all numbers are the same, NaN for NaN.
#[track_caller]
pub fn assert_same(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "lengths");
    let differ = |(x, y): (&f32, &f32)| x != y && !(x.is_nan() && y.is_nan());
    if let Some(index) = a.iter().zip(b).position(differ) {
        panic!("at {index} of {}: {} and {}", a.len(), a[index], b[index]);
    }
}

/// The same numbers in double precision.
pub fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| x.into()).collect()
}
