//! The last line: one number that matters.

use crate::{
    case::{Case, Visible},
    implementation::Implementation,
    op::Op,
    results::Results,
};

/// Who is worth being compared with, first the best known.
const RIVALS: [Implementation; 5] = [
    Implementation::Torch,
    Implementation::Onnxruntime,
    Implementation::Candle,
    Implementation::BurnNnFlex,
    Implementation::BurnNnNdarray,
];

/// How fast the faster of ours is beside the first rival in the case that matters most: a forward
/// pass over 4096 tokens, or else the last case that both did.
pub(crate) fn headline(results: &Results) -> Option<String> {
    let preferred = Case::new(Op::Forward, 1, 4096, Visible::All);
    let cases = results.cases();
    let cases = std::iter::once(&preferred).chain(cases.iter().rev());
    cases.flat_map(|case| RIVALS.map(|rival| compared(results, case, rival))).flatten().next()
}

fn compared(results: &Results, case: &Case, rival: Implementation) -> Option<String> {
    let (ours, ms) = results.fastest(rival.measured_against(), case)?;
    let times = results.median_ms(rival, case)? / ms;
    let (case, ours, rival) = (case.title(), ours.name(), rival.name());
    Some(format!("{case}: {ours} {times:.2} times as fast as {rival}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn torch_comes_first() {
        let expected = "1 x 4096, forward: mha-flex 3.00 times as fast as torch";
        assert_eq!(headline(&results()).as_deref(), Some(expected));
    }

    #[test]
    fn without_torch_there_are_others_and_without_ours_nothing() {
        let mut results = results();
        results.measurements.pop();
        let expected = "1 x 4096, forward: mha-ndarray 1.50 times as fast as burn-nn-ndarray";
        assert_eq!(headline(&results).as_deref(), Some(expected));
        results.measurements.remove(0);
        assert_eq!(headline(&results), None);
    }
}
