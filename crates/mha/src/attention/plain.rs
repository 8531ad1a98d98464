//! Attention in tensor operations: any backend, gives weights; the path to read.

use burn::tensor::{Bool, DType, Tensor, backend::Backend};

use super::mask_fill::fill;
use super::options::WantedWeights;
use super::sink::SinkInput;
use super::sizes::Sizes;
use super::softmax::{Softmax, overwritten_softmax, softmax};
use super::trace::{Stage, Trace};
use super::{Attention, Masking, Problem, distance};

/// softmax(Q Kᵀ / √head_dim + bias) V, head by head (Vaswani et al. 2017, section 3.2.1).
pub(crate) fn attention<B: Backend>(
    problem: Problem<B>,
    trace: &mut impl Trace<B>,
) -> Attention<B> {
    let dtype = problem.query.dtype();
    if problem.is_empty() {
        return nothing_to_attend(&problem);
    }
    let hidden = Hidden::of(&problem);
    let value = heads_first(problem.value.clone(), &hidden);
    let Softmax { weights, lse } = weigh(&problem, hidden, trace);
    trace.see(Stage::Weights, &weights);

    let options = &problem.options;
    let pairs = Sizes { seq_k: problem.n_keys(), ..problem.sizes };
    let kept = match options.dropout.pattern(&pairs, &weights.device()) {
        Some(dropped) => {
            let kept = weights.clone().mask_fill(dropped, 0.0);
            let kept = kept.mul_scalar(1.0 / (1.0 - options.dropout.probability));
            trace.see(Stage::Dropped, &kept);
            kept
        }
        None => weights.clone(),
    };
    let context = grouped_matmul(kept.clone(), value).swap_dims(1, 2); // [batch, seq_q, n_heads, value_dim]
    Attention {
        context: scaled_heads(context, options.head_scale.clone(), dtype),
        weights: match options.weights {
            WantedWeights::None => None,
            WantedWeights::BeforeDropout => Some(weights),
            WantedWeights::AfterDropout => Some(kept),
        },
        lse: lse.map(|lse| lse.squeeze_dim(3)),
    }
}

/// The context, `[batch, seq_q, n_heads, value_dim]`, with each head times its scale, in this type.
pub(super) fn scaled_heads<B: Backend>(
    context: Tensor<B, 4>,
    scale: Option<Tensor<B, 1>>,
    dtype: DType,
) -> Tensor<B, 4> {
    let context = match scale {
        Some(scale) => {
            let [n_heads] = scale.dims();
            in_f32(context) * in_f32(scale).reshape([1, 1, n_heads, 1])
        }
        None => context,
    };
    if context.dtype() == dtype { context } else { context.cast(dtype) }
}

/// The weights alone, before dropout: `[batch, n_heads, rows, n_keys]`.
pub(crate) fn weights<B: Backend>(problem: &Problem<B>) -> Tensor<B, 4> {
    if problem.is_empty() {
        return no_weights(problem);
    }
    weigh(problem, Hidden::of(problem), &mut ()).weights
}

/// What masks hide from a call.
struct Hidden<B: Backend> {
    /// Pairs, `[batch or 1, n_heads or 1, rows, n_keys]`, if there can be any.
    pairs: Option<Tensor<B, 4, Bool>>,
    /// Keys that nobody sees, `[batch or 1, n_kv_heads or 1, n_keys, 1]`, if there can be any.
    keys: Option<Tensor<B, 4, Bool>>,
}

impl<B: Backend> Hidden<B> {
    fn of(problem: &Problem<B>) -> Self {
        let pairs = problem.hidden_pairs();
        let keys = pairs.as_ref().and_then(|pairs| problem.unseen_keys(pairs));
        Self { pairs, keys }
    }
}

/// Scores, then weights.
fn weigh<B: Backend>(
    problem: &Problem<B>,
    hidden: Hidden<B>,
    trace: &mut impl Trace<B>,
) -> Softmax<B> {
    let Problem { query, key, sizes, options, .. } = problem;
    let exclude = options.masking == Masking::Exclude;
    let query = in_f32(query.clone()).swap_dims(1, 2);
    let key = heads_first(key.clone(), &hidden);
    let hidden = hidden.pairs;

    let scores = grouped_matmul(query, key.transpose()); // [batch, n_heads, rows, n_keys]
    trace.see(Stage::Raw, &scores);
    let scores = match options.scale {
        Some(scale) => scores.mul_scalar(scale),
        None if exclude => scores.mul_scalar(1.0 / (sizes.head_dim as f64).sqrt()),
        // The same rounding as burn-nn's.
        None => scores.div_scalar((sizes.head_dim as f32).sqrt()),
    };
    trace.see(Stage::Scaled, &scores);
    let scores = match options.softcap {
        Some(cap) => {
            let scores = scores.mul_scalar(1.0 / cap).tanh().mul_scalar(cap);
            trace.see(Stage::Capped, &scores);
            scores
        }
        None => scores,
    };
    let mut can_hide = hidden.is_some();
    let mut scores = scores;
    for (name, bias) in biases(problem) {
        let bias = problem.over_all_keys(bias);
        trace.see(Stage::Bias(name), &bias);
        scores = scores + bias;
        can_hide = true; // by -∞
    }
    trace.see(Stage::Biased, &scores);

    match options.masking {
        Masking::Exclude => softmax(scores, hidden, can_hide, &options.sink, options.lse),
        Masking::Overwrite { min_float } => {
            let scores = match hidden {
                Some(hidden) => fill(scores, hidden, min_float),
                None => scores,
            };
            let scores = if options.bias.is_some() {
                // What a bias of -∞ hides; a row of nothing else would be NaN.
                let hidden = scores.clone().equal_elem(f64::NEG_INFINITY);
                fill(scores, hidden, min_float)
            } else {
                scores
            };
            overwritten_softmax(scores, matches!(options.sink, SinkInput::Quiet), options.lse)
        }
    }
}

/// What is added to the scores, `[batch or 1, n_heads or 1, rows or 1, seq_k or 1]` each.
fn biases<B: Backend>(problem: &Problem<B>) -> Vec<(&'static str, Tensor<B, 4>)> {
    let Problem { query, frame, options, .. } = problem;
    if problem.sizes.seq_k == 0 {
        return Vec::new(); // only the memory's keys, which have none
    }
    let dtype = at_least_f32(query.dtype());
    let alibi = options
        .alibi
        .as_ref()
        .map(|slopes| ("ALiBi", distance::alibi(slopes, frame, dtype, &query.device())));
    let t5 = options
        .t5
        .clone()
        .map(|(buckets, table)| ("T5", distance::t5(&buckets, in_f32(table), frame)));
    let given = options.bias.clone().map(|bias| ("bias", in_f32(bias)));
    [alibi, t5, given].into_iter().flatten().collect()
}

/// Keys or values with the heads beside the batch, in f32 at least, and with zeros in place of what
/// nobody sees: `[batch, n_kv_heads, n_keys, features]`.
///
/// A key hidden from every query of its batch entry and heads may hold anything, NaN too: in a
/// product 0 · NaN would be NaN.
fn heads_first<B: Backend>(keys: Tensor<B, 4>, hidden: &Hidden<B>) -> Tensor<B, 4> {
    let keys = in_f32(keys).swap_dims(1, 2);
    match &hidden.keys {
        Some(unseen) => fill(keys, unseen.clone(), 0.0),
        None => keys,
    }
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

pub(crate) fn in_f32<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, D> {
    if let DType::QFloat(_) = tensor.dtype() {
        return tensor.dequantize(); // a parameter in 8 bits
    }
    let dtype = at_least_f32(tensor.dtype());
    if tensor.dtype() == dtype { tensor } else { tensor.cast(dtype) }
}

/// The type that scores and weights are computed in.
pub(crate) fn at_least_f32(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

fn no_weights<B: Backend>(problem: &Problem<B>) -> Tensor<B, 4> {
    let Sizes { batch, n_heads, .. } = problem.sizes;
    let dims = [batch, n_heads, problem.frame.n_rows(), problem.n_keys()];
    Tensor::zeros(dims, (&problem.query.device(), at_least_f32(problem.query.dtype())))
}

/// Without a key the context is 0, and the log-sum-exp that of the sink alone.
fn nothing_to_attend<B: Backend>(problem: &Problem<B>) -> Attention<B> {
    let Sizes { batch, seq_q, n_heads, value_dim, .. } = problem.sizes;
    let (device, dtype) = (problem.query.device(), problem.query.dtype());
    let lse = || {
        let dims = [batch, n_heads, seq_q];
        let wide = at_least_f32(dtype);
        if batch * seq_q == 0 {
            return Tensor::zeros(dims, (&device, wide));
        }
        match problem.options.sink.logits(&device, wide) {
            Some(sink) => sink.detach().expand([batch, n_heads, seq_q, 1]).reshape(dims),
            None => Tensor::full(dims, f64::NEG_INFINITY, (&device, wide)),
        }
    };
    Attention {
        context: Tensor::zeros([batch, seq_q, n_heads, value_dim], (&device, dtype)),
        weights: (problem.options.weights != WantedWeights::None).then(|| no_weights(problem)),
        lse: problem.options.lse.then(lse),
    }
}
