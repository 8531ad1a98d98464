//! The softmax: exact zeros for hidden pairs, sinks, log-sum-exp, and a gradient of its own.

use burn::tensor::{Bool, Tensor, activation, backend::Backend};

use super::mask_fill::fill;
use super::sink::SinkInput;

/// Weights and their log-sum-exp.
pub(crate) struct Softmax<B: Backend> {
    /// `[batch, n_heads, rows, n_keys]`
    pub(crate) weights: Tensor<B, 4>,
    /// The logarithm of the denominator, off the graph, if asked for: `[batch, n_heads, rows, 1]`.
    pub(crate) lse: Option<Tensor<B, 4>>,
}

/// Softmax over the keys, where hidden pairs and scores of -∞ weigh exactly 0, and so does a whole
/// row of them.
///
/// The row maximum keeps `exp` in range; the sink is part of it.
pub(crate) fn softmax<B: Backend>(
    scores: Tensor<B, 4>,
    hidden: Option<Tensor<B, 4, Bool>>,
    can_hide: bool,
    sink: &SinkInput<B>,
    lse: bool,
) -> Softmax<B> {
    let learned = matches!(sink, SinkInput::Learned(_));
    let sink = sink.logits(&scores.device(), scores.dtype());
    let values = scores.clone().detach();
    let values = match hidden {
        Some(hidden) => fill(values, hidden, f64::NEG_INFINITY),
        None => values,
    };
    let hidden = can_hide.then(|| values.clone().equal_elem(f64::NEG_INFINITY));

    let max = values.clone().max_dim(3);
    let sunk = sink.clone().map(|sink| sink.detach().expand(max.dims()));
    let max = match &sunk {
        Some(sink) => max.max_pair(sink.clone()),
        None => max,
    };
    // A row without a visible key has the maximum -∞, and -∞ - -∞ is NaN.
    let max = if can_hide {
        let empty = max.clone().equal_elem(f64::NEG_INFINITY);
        max.mask_fill(empty, 0.0)
    } else {
        max
    };
    let exp = (values - max.clone()).exp();
    let exp = match &hidden {
        Some(hidden) => exp.mask_fill(hidden.clone(), 0.0),
        None => exp,
    };
    let sunk = sunk.map(|sink| (sink - max.clone()).exp());
    let sum = exp.clone().sum_dim(3);
    let sum = match &sunk {
        Some(sunk) => sum + sunk.clone(),
        None => sum,
    };
    let lse = lse.then(|| max + sum.clone().log());
    let sum = if can_hide {
        let empty = sum.clone().equal_elem(0.0);
        sum.mask_fill(empty, 1.0)
    } else {
        sum
    };
    let sink = sunk.zip(sink).filter(|_| learned).map(|(sunk, sink)| (sunk / sum.clone(), sink));
    let weights = with_softmax_gradient(exp / sum, scores, hidden, sink);
    Softmax { weights, lse }
}

/// The softmax of `burn::nn`, bit for bit.
pub(crate) fn overwritten_softmax<B: Backend>(
    scores: Tensor<B, 4>,
    quiet: bool,
    lse: bool,
) -> Softmax<B> {
    let values = scores.clone().detach();
    let lse = lse.then(|| {
        let max = values.clone().max_dim(3);
        let max = if quiet { max.clamp_min(0.0) } else { max };
        let sum = (values.clone() - max.clone()).exp().sum_dim(3);
        let sum = if quiet { sum + max.clone().neg().exp() } else { sum };
        max + sum.log()
    });
    let weights =
        if quiet { activation::quiet_softmax(values, 3) } else { activation::softmax(values, 3) };
    Softmax { weights: with_softmax_gradient(weights, scores, None, None), lse }
}

/// Gives softmax weights, computed off the graph, the gradient of the softmax.
///
/// With p the weights and g their gradient, the scores' is p (g - Σ p g). It comes from
/// `p + w - p Σ w` with w = p z and a z = 0 that has the scores' gradient: going back, the sum
/// gives g - Σ p g and the product then p times that, so that what g has in common over the keys
/// cancels before it is rounded. A sink is one more term of the sum, its weight times its own z.
/// Through the softmax itself the gradient would pass Burn's derivative of a quotient, whose
/// reciprocal is approximate on NdArray (relative error 5e-5).
fn with_softmax_gradient<B: Backend>(
    weights: Tensor<B, 4>,
    scores: Tensor<B, 4>,
    hidden: Option<Tensor<B, 4, Bool>>,
    sink: Option<(Tensor<B, 4>, Tensor<B, 4>)>,
) -> Tensor<B, 4> {
    if !B::ad_enabled(&scores.device()) {
        return weights;
    }
    let zero = scores.clone() - scores.detach();
    // -∞ - -∞ would be NaN; a hidden pair has no gradient anyway.
    let zero = match hidden {
        Some(hidden) => zero.mask_fill(hidden, 0.0),
        None => zero,
    };
    let zero = weights.clone() * zero;
    let sum = zero.clone().sum_dim(3);
    let sum = match sink {
        Some((weight, logit)) => {
            let zero = (logit.clone() - logit.detach()).expand(weight.dims());
            sum + weight * zero
        }
        None => sum,
    };
    weights.clone() + zero - weights * sum
}
