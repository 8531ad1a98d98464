//! The softmax of one query's scores, with the sink's share and the logarithm of the denominator.

use num_traits::Float;

use super::super::sum;

/// What [`softmax`] returns.
pub(super) struct Softmax<T> {
    /// exp(score) / denominator, for each key.
    pub(super) weights: Vec<T>,
    /// exp(sink) / denominator: what the weights lack to a sum of 1.
    pub(super) sink: T,
    /// ln of the denominator, exp(sink) + Σ exp(score).
    pub(super) lse: T,
}

/// The weights of a row of scores, −∞ where a key is hidden, beside a sink, −∞ if there is none.
///
/// A hidden key gets exactly 0. With neither key nor sink every weight is 0 and `lse` is −∞.
pub(super) fn softmax<T: Float>(scores: &[T], sink: T) -> Softmax<T> {
    // A NaN must not be passed over, as `max` would.
    let larger = |a: T, b: T| if b > a || b.is_nan() { b } else { a };
    // Taken out of every exponent, so that none overflows and the largest is 1.
    let max = scores.iter().copied().fold(sink, larger);
    if max == T::neg_infinity() {
        return Softmax { weights: vec![T::zero(); scores.len()], sink: T::zero(), lse: max };
    }
    let exps: Vec<T> = scores.iter().map(|&score| (score - max).exp()).collect();
    let sink = (sink - max).exp();
    let total = sum(exps.iter().copied()) + sink;
    let weights = exps.into_iter().map(|exp| exp / total).collect();
    Softmax { weights, sink: sink / total, lse: max + total.ln() }
}

#[cfg(test)]
mod tests {
    use super::super::super::check::assert_close;
    use super::*;

    const NONE: f64 = f64::NEG_INFINITY;

    #[test]
    fn small_scores_are_the_direct_sums() {
        let scores = [0.3, -1.2, NONE, 2.0];
        for sink in [NONE, -0.7, 0.0, 1.9] {
            let exps = scores.map(f64::exp); // exp(−∞) is 0
            let total = exps.iter().sum::<f64>() + sink.exp();
            let row = softmax(&scores, sink);
            assert_close("weights", &row.weights, &exps.map(|exp| exp / total), 1e-15);
            assert_close("sink", &[row.sink], &[sink.exp() / total], 1e-15);
            assert_close("lse", &[row.lse], &[total.ln()], 1e-15);
        }
    }

    #[test]
    fn large_scores_and_sinks_stay_finite() {
        let two = 2f64.ln();
        for large in [1e4, -1e4] {
            let row = softmax(&[large, large, NONE], NONE);
            assert_eq!((row.weights, row.sink, row.lse), (vec![0.5, 0.5, 0.0], 0.0, large + two));
            let row = softmax(&[large, NONE], large);
            assert_eq!((row.weights, row.sink, row.lse), (vec![0.5, 0.0], 0.5, large + two));
        }
        let row = softmax(&[1e4, -1e4], 0.0);
        assert_eq!((row.weights, row.sink, row.lse), (vec![1.0, 0.0], 0.0, 1e4));
        let row = softmax(&[-1e4, -1e4], 0.0);
        assert_eq!((row.weights, row.sink, row.lse), (vec![0.0, 0.0], 1.0, 0.0));
    }

    #[test]
    fn without_a_key_the_sink_is_all() {
        let row = softmax(&[NONE, NONE], 3.0);
        assert_eq!((row.weights, row.sink, row.lse), (vec![0.0, 0.0], 1.0, 3.0));
        let row = softmax(&[NONE, NONE], NONE);
        assert_eq!((row.weights, row.sink, row.lse), (vec![0.0, 0.0], 0.0, NONE));
        let row = softmax(&[], 3.0);
        assert_eq!((row.weights, row.sink, row.lse), (vec![], 1.0, 3.0));
    }

    #[test]
    fn nan_is_not_passed_over() {
        for (scores, sink) in
            [([0.0, f64::NAN], NONE), ([f64::NAN, 0.0], 1.0), ([0.0, 0.0], f64::NAN)]
        {
            let row = softmax(&scores, sink);
            assert!(row.weights.iter().chain([&row.lse]).all(|x| x.is_nan()));
        }
    }
}
