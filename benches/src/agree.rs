//! Whether all compute the same: what differs is not worth comparing.

use crate::{
    case::{Case, Visible},
    contestants::{Contestant, Tokens},
    data::{self, Weights},
    implementation::Implementation,
    layers,
    op::Op,
    plan::WINDOW,
    progress::Progress,
    scratch::Scratch,
    step::Part,
};

/// Whose results the others are held against.
const REFERENCE: Implementation = Implementation::MhaNdarray;

/// The largest difference, as a part of the largest value.
const TOLERANCE: f32 = 1e-4;

/// A part whose values are far below those of the others, such as the gradient of the key's bias,
/// which is 0 but for rounding, is measured by this share of them.
const SHARE: f32 = 0.1;

/// Small cases of every kind.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in [Op::Forward, Op::TrainStep] {
        cases.push(Case::new(op, 3, 37, Visible::All));
        cases.push(Case::new(op, 2, 37, Visible::Causal));
        cases.push(Case::new(op, 1, WINDOW + 41, Visible::Window(WINDOW)));
    }
    cases.push(Case::decode(37));
    cases
}

/// Holds each contestant's results against [`REFERENCE`]'s. Those that cannot compute something come
/// back with the reason.
///
/// # Errors
///
/// When one computes something else.
pub(crate) fn check(
    contestants: &mut [Box<dyn Contestant + '_>],
    weights: &Weights,
    scratch: &Scratch,
    progress: &mut Progress,
) -> Result<Vec<(Implementation, String)>, String> {
    let mut failed: Vec<(Implementation, String)> = Vec::new();
    for case in cases() {
        let values = data::tokens(&case);
        let tokens = Tokens { values: &values, file: &scratch.write(&values)? };
        let expected = layers::prepare(REFERENCE, &case, weights, &values)?.outcome()?;
        for contestant in contestants.iter_mut() {
            let implementation = contestant.implementation();
            let unable = failed.iter().any(|(other, _)| *other == implementation);
            if unable || implementation.why_not(&case).is_some() {
                continue;
            }
            let name = implementation.name();
            progress.say(format_args!("do all compute the same? {name} {case}"));
            let outcome = contestant.prepare(&case, &tokens).and_then(|()| contestant.outcome());
            contestant.release();
            match outcome {
                Ok(parts) => compare(&expected, &parts).map_err(|difference| {
                    let reference = REFERENCE.name();
                    format!("{name} does not compute what {reference} does: {case}, {difference}")
                })?,
                Err(error) => failed.push((implementation, format!("{case}: {error}"))),
            }
        }
    }
    Ok(failed)
}

/// Says where two outcomes differ.
fn compare(expected: &[Part], actual: &[Part]) -> Result<(), String> {
    let names = |parts: &[Part]| parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
    if names(expected) != names(actual) {
        return Err(format!("{:?} instead of {:?}", names(actual), names(expected)));
    }
    let everywhere = expected.iter().map(|part| largest(&part.values)).fold(0.0, f32::max);
    for (expected, actual) in expected.iter().zip(actual) {
        let Part { name, values } = expected;
        if values.len() != actual.values.len() {
            return Err(format!("{name}: {} values, not {}", actual.values.len(), values.len()));
        }
        let allowed = TOLERANCE * largest(values).max(SHARE * everywhere);
        let mut differences = values.iter().zip(&actual.values).map(|(a, b)| (a - b).abs());
        if let Some(difference) = differences.find(|&d| d > allowed || d.is_nan()) {
            return Err(format!("{name} differs by {difference:e}, allowed is {allowed:e}"));
        }
    }
    Ok(())
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(output: &[f32]) -> Vec<Part> {
        vec![Part::new("output", output.to_vec()), Part::new("input", vec![1.0])]
    }

    #[test]
    fn what_differs_is_named() {
        let expected = parts(&[1.0, -2.0]);
        assert_eq!(compare(&expected, &parts(&[1.0001, -2.0])), Ok(()));
        for wrong in [[1.01, -2.0], [f32::NAN, -2.0]] {
            let error = compare(&expected, &parts(&wrong)).unwrap_err();
            assert!(error.contains("output differs by"), "{error}");
        }
        assert!(compare(&expected, &parts(&[1.0])).unwrap_err().contains("1 values, not 2"));
        assert!(compare(&expected, &expected[..1]).unwrap_err().contains("input"));
    }
}
