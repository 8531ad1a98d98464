//! Attention over parts of the keys, put together.

use burn::tensor::{Tensor, backend::Backend};

use super::Attention;
use super::check::like;
use super::plain::in_f32;
use crate::Error;
use crate::error::check_shape;

/// Attention over all keys from that over parts of them, each computed with
/// [`return_lse`](crate::AttentionOptions::return_lse): a shared prefix once and the rest per
/// sequence, say. Weights are not merged.
///
/// The parts count by e^lse. Log-sum-exps carry no gradient, so this is for inference. Without sinks:
/// each part would count its own.
///
/// # Shapes
///
/// - each part: context `[batch, seq_q, n_heads, value_dim]`, lse `[batch, n_heads, seq_q]`
/// - returns the same
///
/// # Errors
///
/// When there is no part, a part has no lse, or shapes, element types or devices differ.
///
/// Dao et al. 2022, "FlashAttention", section 3.1: <https://arxiv.org/abs/2205.14135>.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{AttentionOptions, attention, merge_attention};
///
/// let device = Default::default();
/// let [query, key, value] = [5, 7, 7].map(|seq| {
///     Tensor::<NdArray, 4>::random([2, seq, 3, 4], Distribution::Default, &device)
/// });
/// let options = AttentionOptions::default().return_lse();
/// let all = attention(query.clone(), key.clone(), value.clone(), &options);
/// let part = |start, n| {
///     let [key, value] = [&key, &value].map(|x| x.clone().narrow(1, start, n));
///     attention(query.clone(), key, value, &options)
/// };
/// let merged = merge_attention(&[part(0, 3), part(3, 4)]).unwrap();
/// assert!((merged.context - all.context).abs().max().into_scalar() < 1e-6);
/// ```
pub fn merge_attention<B: Backend>(parts: &[Attention<B>]) -> Result<Attention<B>, Error> {
    let missing = || Error::value("parts", "each have a log-sum-exp", "a part without");
    let [first, ..] = parts else {
        return Err(Error::value("parts", "have at least one", 0));
    };
    let dims = first.context.dims();
    let [batch, seq_q, n_heads, _] = dims;
    let mut lses = Vec::with_capacity(parts.len());
    for part in parts {
        let axes = ["batch", "seq_q", "n_heads", "value_dim"];
        check_shape("context of a part", axes, dims, part.context.dims())?;
        like("context of a part", &part.context, "the first part", &first.context)?;
        let lse = part.lse.clone().ok_or_else(missing)?;
        let axes = ["batch", "n_heads", "seq_q"];
        check_shape("lse of a part", axes, [batch, n_heads, seq_q], lse.dims())?;
        lses.push(lse);
    }
    let lses: Tensor<B, 4> = Tensor::stack(lses, 3); // [batch, n_heads, seq_q, parts]
    let max = lses.clone().max_dim(3);
    let empty = max.clone().equal_elem(f64::NEG_INFINITY);
    let shift = max.mask_fill(empty.clone(), 0.0);
    let shares = (lses - shift.clone()).exp();
    let sum = shares.clone().sum_dim(3);
    let lse = shift + sum.clone().log();
    let shares = shares / sum.mask_fill(empty, 1.0);

    let share = |index: usize| shares.clone().narrow(3, index, 1).swap_dims(1, 2); // [batch, seq_q, n_heads, 1]
    let context = parts.iter().enumerate();
    let context = context.map(|(index, part)| in_f32(part.context.clone()) * share(index));
    let context = context.reduce(|a, b| a + b).expect("at least one part");
    Ok(Attention {
        context: context.cast(first.context.dtype()),
        weights: None,
        lse: Some(lse.reshape([batch, n_heads, seq_q])),
    })
}
