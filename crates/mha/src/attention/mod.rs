//! The function under the module: attention on projected, split heads.

mod autodiff;
pub(crate) mod check;
mod distance;
mod dropout;
mod fused;
mod in_place;
mod linear;
mod mask_fill;
mod masking;
mod merge;
mod options;
mod path;
pub(crate) mod plain;
mod problem;
mod sink;
mod sizes;
mod softmax;
mod table;
mod trace;

use burn::tensor::{Tensor, backend::Backend};

use crate::Error;
pub(crate) use dropout::drops;
pub use fused::FusedAttention;
pub(crate) use in_place::{first, put, reshape};
pub(crate) use linear::project;
pub use linear::{linear, try_linear};
pub(crate) use mask_fill::fill;
pub use masking::Masking;
pub use merge::merge_attention;
pub use options::AttentionOptions;
pub(crate) use options::WantedWeights;
pub(crate) use path::choose;
pub use path::{Path, PathTaken, Reason};
pub(crate) use problem::Problem;
pub(crate) use sink::SinkInput;
pub use sizes::Sizes;
pub use table::{is_fused, register};
pub(crate) use trace::{Stage, Trace};

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
    /// The weights, if asked for: `[batch, n_heads, seq_q, seq_k]`, f32 or f64. Memory keys and the
    /// zero key of [`zero_attention`](AttentionOptions::zero_attention) are further columns.
    pub weights: Option<Tensor<B, 4>>,
    /// The log-sum-exp of each query's scores, if asked for: `[batch, n_heads, seq_q]`, f32 or f64,
    /// without gradient. It counts the sink; a query that sees no key has the sink's logit, or -∞.
    pub lse: Option<Tensor<B, 3>>,
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
    Ok(run(Problem::new(query, key, value, options)?))
}

/// The attention of a problem, on its path.
pub(crate) fn run<B: Backend>(problem: Problem<B>) -> Attention<B> {
    match (problem.path, table::lookup()) {
        (PathTaken::Fused, Some(kernels)) => fused::attention(problem, kernels),
        _ => plain::attention(problem, &mut ()),
    }
}

/// The path that [`try_attention`] takes with these arguments, without computing anything.
///
/// # Errors
///
/// As [`try_attention`].
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{AttentionOptions, PathTaken, Reason, attention_path};
///
/// let ones = Tensor::<NdArray, 4>::ones([1, 7, 3, 4], &Default::default());
/// let path = |options| attention_path(&ones, &ones, &ones, &options).unwrap();
/// let causal = AttentionOptions::default().causal();
/// assert_eq!(path(causal.clone()), PathTaken::Fused);
/// assert_eq!(path(causal.return_weights()), PathTaken::Plain(Reason::Weights));
/// ```
pub fn attention_path<B: Backend>(
    query: &Tensor<B, 4>,
    key: &Tensor<B, 4>,
    value: &Tensor<B, 4>,
    options: &AttentionOptions<B>,
) -> Result<PathTaken, Error> {
    let sizes = check::sizes(query, key, value)?;
    options.check(&sizes, "query", query)?;
    path::choose([query, key, value].map(Tensor::dtype), options, &sizes, &query.device())
}

/// The weights of some heads and some queries, `[batch, heads, rows, seq_k]`, before dropout, without
/// computing those of the others: what a picture of a long text needs.
///
/// # Shapes
///
/// - `query` and `key` as in [`attention`]
/// - `heads` and `rows`: which heads and which queries, in any order
///
/// # Errors
///
/// As [`try_attention`], and when a head or a row is not there.
pub fn weights_of<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    options: &AttentionOptions<B>,
    heads: &[usize],
    rows: &[usize],
) -> Result<Tensor<B, 4>, Error> {
    // The values have no part in the weights.
    let memory = options.memory.clone().map(|[key, _]| [key.clone(), key]);
    let weights = WantedWeights::BeforeDropout;
    let options = AttentionOptions { weights, memory, path: Path::Auto, ..options.clone() };
    let problem = Problem::new(query, key.clone(), key, &options)?;
    Ok(plain::weights(&problem.pick(heads, rows)?))
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
/// As [`attention`], with the shapes in its layout.
#[track_caller]
pub fn attention_heads_first<B: Backend>(
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    options: &AttentionOptions<B>,
) -> Attention<B> {
    let [query, key, value] = [query, key, value].map(|x| x.swap_dims(1, 2));
    let attention = attention(query, key, value, options);
    Attention { context: attention.context.swap_dims(1, 2), ..attention }
}
