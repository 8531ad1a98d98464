//! The function under the module: attention on projected, split heads.

mod dropout;
mod mask;
mod masking;
mod options;
mod plain;
mod problem;
mod sizes;

use burn::tensor::{Tensor, backend::Backend};

use crate::Error;
pub(crate) use dropout::drops;
pub(crate) use mask::fill;
pub use masking::Masking;
pub use options::AttentionOptions;
use problem::Problem;
pub(crate) use problem::{check_dropout, check_groups, check_like, check_scale, check_softcap};
pub use sizes::Sizes;

/// What [`attention`] returns.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{Attention, AttentionOptions, attention};
///
/// // One query, equal scores for two keys: the average of the values.
/// let device = Default::default();
/// let zeros = |seq| Tensor::<NdArray, 4>::zeros([1, seq, 1, 1], &device);
/// let value = Tensor::from_data([[[[1.0]], [[3.0]]]], &device);
/// let Attention { context, .. } =
///     attention(zeros(1), zeros(2), value, &AttentionOptions::default());
/// assert_eq!(context.into_scalar(), 2.0);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attention<B: Backend> {
    /// The averaged values of each head: `[batch, seq_q, n_heads, value_dim]`.
    pub context: Tensor<B, 4>,
    /// The weights before dropout, if asked for: `[batch, n_heads, seq_q, seq_k]`, f32 or f64.
    pub weights: Option<Tensor<B, 4>>,
}

/// Attention on `[batch, seq, n_heads, head_dim]`, unlike Burn's and PyTorch's functions, which
/// have the heads before the sequence; [`attention_heads_first`] takes those.
///
/// Each query averages the values with the weights softmax(Q Kᵀ / √head_dim + bias) over the keys
/// that it sees; a query that sees none gets zeros. With fewer key heads than query heads (grouped
/// and multi-query attention), query head `h` reads key head `h / (n_heads / n_kv_heads)`; keys and
/// values are not copied for it.
///
/// # Shapes
///
/// - `query`: `[batch, seq_q, n_heads, head_dim]`
/// - `key`: `[batch, seq_k, n_kv_heads, head_dim]`, where `n_kv_heads` divides `n_heads`
/// - `value`: `[batch, seq_k, n_kv_heads, value_dim]`
/// - the context: `[batch, seq_q, n_heads, value_dim]`
///
/// # Panics
///
/// When [`try_attention`] gives an error, with its text.
///
/// Vaswani et al. 2017, section 3.2.1: <https://arxiv.org/abs/1706.03762>.
#[track_caller]
pub fn attention<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    options: &AttentionOptions<B>,
) -> Attention<B> {
    try_attention(query, key, value, options).unwrap_or_else(|error| panic!("{error}"))
}

/// [`attention`], or an error that names the argument, its axes, what was expected and what came.
///
/// # Errors
///
/// When a shape, an element type or a device does not fit, when there are no heads or features, when
/// the key heads do not divide the query heads, or when scale, softcap or dropout is out of range.
pub fn try_attention<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    options: &AttentionOptions<B>,
) -> Result<Attention<B>, Error> {
    Ok(plain::attention(Problem::new(query, key, value, options)?))
}

/// [`attention`] on Burn's and PyTorch's layout, the heads before the sequence.
///
/// # Shapes
///
/// - `query`: `[batch, n_heads, seq_q, head_dim]`, `key` and `value` likewise
/// - returns a context of `[batch, n_heads, seq_q, value_dim]`
///
/// # Panics
///
/// As [`attention`].
#[track_caller]
pub fn attention_heads_first<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    options: &AttentionOptions<B>,
) -> Attention<B> {
    let [query, key, value] = [query, key, value].map(|x| x.swap_dims(1, 2));
    let Attention { context, weights } = attention(query, key, value, options);
    Attention { context: context.swap_dims(1, 2), weights }
}
