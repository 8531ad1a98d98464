//! Attention in tensor operations: any backend, gives weights; the path to read.

use burn::tensor::{Bool, DType, Tensor, activation, backend::Backend};

use super::Attention;
use super::mask::fill;
use super::masking::Masking;
use super::problem::Problem;
use super::sizes::Sizes;

/// softmax(Q Kᵀ / √head_dim + bias) V, head by head (Vaswani et al. 2017, section 3.2.1).
pub(crate) fn attention<B: Backend>(problem: Problem<'_, B>) -> Attention<B> {
    let Problem { query, key, value, sizes, options } = problem;
    let (device, dtype) = (query.device(), query.dtype());
    if sizes.is_empty() {
        return nothing_to_attend(&sizes, dtype, options.return_weights, &device);
    }
    let exclude = options.masking == Masking::Exclude;
    let hidden = options.masks.hidden_pairs(&sizes, &device);

    // Heads beside the batch: [batch, heads, seq, features], in f32 at least.
    let [query, key, value] = [query, key, value].map(|x| in_f32(x).swap_dims(1, 2));
    let (key, value) = match &hidden {
        Some(hidden) if exclude => zero_hidden_keys(key, value, hidden),
        _ => (key, value),
    };

    let scores = grouped_matmul(query, key.transpose()); // [batch, n_heads, seq_q, seq_k]
    let scores = match options.scale {
        Some(scale) => scores.mul_scalar(scale),
        None if exclude => scores.mul_scalar(1.0 / (sizes.head_dim as f64).sqrt()),
        // The same rounding as burn-nn's.
        None => scores.div_scalar((sizes.head_dim as f32).sqrt()),
    };
    let scores = match options.softcap {
        Some(cap) => scores.mul_scalar(1.0 / cap).tanh().mul_scalar(cap),
        None => scores,
    };
    let scores = match options.bias.clone() {
        Some(bias) => scores + in_f32(bias),
        None => scores,
    };

    let weights = match options.masking {
        Masking::Exclude => {
            let can_hide = hidden.is_some() || options.bias.is_some();
            softmax(scores, hidden, can_hide, options.quiet_softmax)
        }
        Masking::Overwrite { min_float } => {
            let scores = match hidden {
                Some(hidden) => fill(scores, hidden, min_float),
                None => scores,
            };
            overwritten_softmax(scores, options.quiet_softmax)
        }
    };
    let kept = match options.dropout.pattern(&sizes, &device) {
        Some(dropped) => weights
            .clone()
            .mask_fill(dropped, 0.0)
            .mul_scalar(1.0 / (1.0 - options.dropout.probability)),
        None => weights.clone(),
    };
    let context = grouped_matmul(kept, value).swap_dims(1, 2); // [batch, seq_q, n_heads, value_dim]

    Attention {
        context: if context.dtype() == dtype { context } else { context.cast(dtype) },
        weights: options.return_weights.then_some(weights),
    }
}

/// Softmax over the keys, where hidden pairs and scores of -∞ weigh exactly 0, and so does a whole
/// row of them.
///
/// The row maximum keeps `exp` in range; the quiet softmax counts its key of score 0 in.
fn softmax<B: Backend>(
    scores: Tensor<B, 4>,
    hidden: Option<Tensor<B, 4, Bool>>,
    can_hide: bool,
    quiet: bool,
) -> Tensor<B, 4> {
    let values = scores.clone().detach();
    let values = match hidden {
        Some(hidden) => fill(values, hidden, f64::NEG_INFINITY),
        None => values,
    };
    let hidden = can_hide.then(|| values.clone().equal_elem(f64::NEG_INFINITY));

    let max = values.clone().max_dim(3);
    // A row without a visible key has the maximum -∞, and -∞ - -∞ is NaN.
    let max = if can_hide {
        let empty = max.clone().equal_elem(f64::NEG_INFINITY);
        max.mask_fill(empty, 0.0)
    } else {
        max
    };
    let max = if quiet { max.clamp_min(0.0) } else { max };
    let exp = (values - max.clone()).exp();
    let exp = match &hidden {
        Some(hidden) => exp.mask_fill(hidden.clone(), 0.0),
        None => exp,
    };
    let sum = exp.clone().sum_dim(3);
    let sum = if quiet { sum + max.neg().exp() } else { sum };
    let sum = if can_hide {
        let empty = sum.clone().equal_elem(0.0);
        sum.mask_fill(empty, 1.0)
    } else {
        sum
    };
    with_softmax_gradient(exp / sum, scores, hidden)
}

/// The softmax of `burn::nn`, bit for bit.
fn overwritten_softmax<B: Backend>(scores: Tensor<B, 4>, quiet: bool) -> Tensor<B, 4> {
    let values = scores.clone().detach();
    let weights =
        if quiet { activation::quiet_softmax(values, 3) } else { activation::softmax(values, 3) };
    with_softmax_gradient(weights, scores, None)
}

/// Gives softmax weights, computed off the graph, the gradient of the softmax.
///
/// With p the weights and g their gradient, the scores' is p (g - Σ p g). It comes from
/// `p + w - p Σ w` with w = p z and a z = 0 that has the scores' gradient: going back, the sum
/// gives g - Σ p g and the product then p times that, so that what g has in common over the keys
/// cancels before it is rounded. Through the softmax itself the gradient would pass Burn's
/// derivative of a quotient, whose reciprocal is approximate on NdArray (relative error 5e-5).
fn with_softmax_gradient<B: Backend>(
    weights: Tensor<B, 4>,
    scores: Tensor<B, 4>,
    hidden: Option<Tensor<B, 4, Bool>>,
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
    weights.clone() + zero - weights * sum
}

/// Multiplies `[batch, n_heads, rows, inner]` with `[batch, n_kv_heads, inner, columns]`, each of
/// the second's heads with its group of the first's.
///
/// The heads of a group lie side by side, so that their rows make one matrix: a reshape, where
/// Burn's own broadcast would copy keys and values.
fn grouped_matmul<B: Backend>(left: Tensor<B, 4>, right: Tensor<B, 4>) -> Tensor<B, 4> {
    let [batch, n_heads, rows, inner] = left.dims();
    let [_, n_kv_heads, _, columns] = right.dims();
    if n_heads == n_kv_heads {
        return left.matmul(right);
    }
    left.reshape([batch, n_kv_heads, n_heads / n_kv_heads * rows, inner])
        .matmul(right)
        .reshape([batch, n_heads, rows, columns])
}

/// A key hidden from every query of its batch entry and heads may hold anything, NaN too: in a
/// product 0 · NaN would be NaN, so its key and value count as 0.
fn zero_hidden_keys<B: Backend>(
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    hidden: &Tensor<B, 4, Bool>,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let [_, n_kv_heads, ..] = key.dims();
    let [batch, n_heads, seq_q, seq_k] = hidden.dims();
    let by_group = if n_heads == 1 {
        hidden.clone()
    } else {
        hidden.clone().reshape([batch, n_kv_heads, n_heads / n_kv_heads * seq_q, seq_k])
    };
    let rows = by_group.all_dim(2).swap_dims(2, 3); // [batch or 1, n_kv_heads or 1, seq_k, 1]
    (fill(key, rows.clone(), 0.0), fill(value, rows, 0.0))
}

fn in_f32<B: Backend>(tensor: Tensor<B, 4>) -> Tensor<B, 4> {
    let dtype = at_least_f32(tensor.dtype());
    if tensor.dtype() == dtype { tensor } else { tensor.cast(dtype) }
}

/// The type that scores and weights are computed in.
fn at_least_f32(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

fn nothing_to_attend<B: Backend>(
    sizes: &Sizes,
    dtype: DType,
    return_weights: bool,
    device: &B::Device,
) -> Attention<B> {
    let &Sizes { batch, seq_q, seq_k, n_heads, value_dim, .. } = sizes;
    let weights = || Tensor::zeros([batch, n_heads, seq_q, seq_k], (device, at_least_f32(dtype)));
    Attention {
        context: Tensor::zeros([batch, seq_q, n_heads, value_dim], (device, dtype)),
        weights: return_weights.then(weights),
    }
}
