//! Multi-head attention as a Burn module: the five steps.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Tensor, backend::Backend};

use crate::attention::{self, Attention, Path, Problem};
use crate::error::expect_shape;
use crate::gate::gated;
use crate::norm::HeadNorm;
use crate::settings::Settings;
use crate::widths::Widths;
use crate::{Error, KvCache, Masking, MhaInput, MhaOutput};

/// Multi-head attention, self- or cross-, in five steps:
///
/// 1. project: the tokens times the query, key and value weight;
/// 2. split: the features of a token into one slice per head;
/// 3. attend: each head averages the values by softmax(Q Kᵀ / √head_dim);
/// 4. merge: the heads side by side again;
/// 5. project out: times the output weight, so that the heads mix.
///
/// Built by [`MultiHeadAttentionConfig`](crate::MultiHeadAttentionConfig). Vaswani et al. 2017,
/// section 3.2.2 (their d_k is our `head_dim`): <https://arxiv.org/abs/1706.03762>.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention: MultiHeadAttention<NdArray> = MultiHeadAttentionConfig::new(8, 2).init(&device);
/// let out = attention.forward(MhaInput::self_attn(Tensor::ones([1, 7, 8], &device)));
/// assert_eq!(out.context.dims(), [1, 7, 8]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct MultiHeadAttention<B: Backend> {
    /// From the query's features to those of all heads.
    pub query: Linear<B>,
    /// From the key's features to those of all heads.
    pub key: Linear<B>,
    /// From the value's features to those of all heads.
    pub value: Linear<B>,
    /// From the merged heads to the output.
    pub output: Linear<B>,
    /// From the query's features to the gate of each head or feature; see [`Gate`](crate::Gate).
    pub gate: Option<Linear<B>>,
    /// Normalizes the query of each head; see [`QkNorm`](crate::QkNorm).
    pub query_norm: Option<HeadNorm<B>>,
    /// Normalizes the key of each head.
    pub key_norm: Option<HeadNorm<B>>,
    /// Learned keys that every query sees: `[bias_kv, n_kv_heads * head_dim]`.
    pub bias_k: Option<Param<Tensor<B, 2>>>,
    /// Their values: `[bias_kv, n_kv_heads * value_dim]`.
    pub bias_v: Option<Param<Tensor<B, 2>>>,
    /// The bias of each bucket of distances; see [`Position::T5`](crate::Position::T5):
    /// `[n_buckets, n_heads]`.
    pub relative_bias: Option<Param<Tensor<B, 2>>>,
    /// The sink of each head; see [`Sink::Learned`](crate::Sink::Learned): `[n_heads]`.
    pub sinks: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    pub(crate) settings: Settings,
}

impl<B: Backend> MultiHeadAttention<B> {
    /// Lets each query attend to the keys that it sees and averages their values.
    ///
    /// # Shapes
    ///
    /// - query: `[batch, seq_q, d_model]`
    /// - key: `[batch, seq_k, d_key]`; value: `[batch, seq_k, d_value]`
    /// - context: `[batch, seq_q, d_output]`
    ///
    /// `d_key`, `d_value` and `d_output` are `d_model` unless the configuration says otherwise.
    ///
    /// # Panics
    ///
    /// When [`try_forward`](Self::try_forward) gives an error, with its text.
    #[track_caller]
    pub fn forward(&self, input: MhaInput<B>) -> MhaOutput<B> {
        self.try_forward(input).unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`forward`](Self::forward), or an error that says what does not fit.
    ///
    /// # Errors
    ///
    /// When a shape, an element type or a device differs from what the module, the query and one
    /// another ask for, or an option has no meaning for this module.
    pub fn try_forward(&self, input: MhaInput<B>) -> Result<MhaOutput<B>, Error> {
        self.run(input, None)
    }

    /// [`forward`](Self::forward) on new tokens, which join those of the cache: queries attend to all
    /// of them.
    ///
    /// # Shapes
    ///
    /// - query: `[batch, new, d_model]`, key and value likewise
    /// - masks and bias span the new queries and all keys, those of the cache first
    /// - context: `[batch, new, d_output]`
    ///
    /// # Panics
    ///
    /// When [`try_forward_cached`](Self::try_forward_cached) gives an error, with its text.
    #[track_caller]
    pub fn forward_cached(&self, input: MhaInput<B>, cache: &mut KvCache<B>) -> MhaOutput<B> {
        self.try_forward_cached(input, cache).unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`forward_cached`](Self::forward_cached), or an error that says what does not fit; the cache is
    /// then as it was.
    ///
    /// # Errors
    ///
    /// As [`try_forward`](Self::try_forward), and when the cache is full or belongs to another kind of
    /// call.
    pub fn try_forward_cached(
        &self,
        input: MhaInput<B>,
        cache: &mut KvCache<B>,
    ) -> Result<MhaOutput<B>, Error> {
        self.run(input, Some(cache))
    }

    /// The five steps.
    pub(crate) fn run(
        &self,
        input: MhaInput<B>,
        cache: Option<&mut KvCache<B>>,
    ) -> Result<MhaOutput<B>, Error> {
        let (call, [query, key, value]) = self.check(input, cache.as_deref())?;
        // Before the cache changes.
        attention::choose([query.dtype(); 3], &call.options, &call.sizes, &query.device())?;
        let (tokens, path) = (query.clone(), call.options.path);

        let [query, key, value] = self.project_on(path, query, key, value); //         [batch, seq, heads * head_dim]
        let [query, key, value] = self.split_heads(query, key, value); //              [batch, seq, heads, head_dim]
        let [query, key, value] = self.place(query, key, value, &call, cache); //      [batch, seq, heads, head_dim]
        let problem = Problem::new(query, key, value, &call.options)?;
        let Attention { context, weights, lse } = attention::run(problem); //          [batch, seq_q, n_heads, value_dim]
        let context = self.merge_heads(self.gated(path, context, tokens)); //          [batch, seq_q, n_heads * value_dim]
        let context = self.layer(path, &self.output, context); //                      [batch, seq_q, d_output]

        let context = call.without_padding(context);
        let weights = weights.map(|weights| call.weights.over_heads(weights));
        Ok(MhaOutput { context, weights, lse })
    }

    /// Step 1: query, key and value, each `[batch, seq, features]`, times their weights:
    /// `[batch, seq, heads * head_dim]`.
    ///
    /// # Panics
    ///
    /// When a shape, an element type or a device does not fit, as [`forward`](Self::forward).
    #[track_caller]
    pub fn project(
        &self,
        query: Tensor<B, 3>,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> [Tensor<B, 3>; 3] {
        self.new_sizes(&query, &key, &value).unwrap_or_else(|error| panic!("{error}"));
        self.project_on(self.settings.path, query, key, value)
    }

    /// Step 1 with layers that suit a path.
    pub(crate) fn project_on(
        &self,
        path: Path,
        query: Tensor<B, 3>,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> [Tensor<B, 3>; 3] {
        [(&self.query, query), (&self.key, key), (&self.value, value)]
            .map(|(layer, tokens)| self.layer(path, layer, tokens))
    }

    /// A linear layer, in kernels unless the path or `burn::nn`'s bits ask for Burn's own.
    pub(crate) fn layer(
        &self,
        path: Path,
        layer: &Linear<B>,
        tokens: Tensor<B, 3>,
    ) -> Tensor<B, 3> {
        let kernels = path != Path::Plain && self.settings.masking == Masking::Exclude;
        attention::project(layer, tokens, kernels)
    }

    /// Step 2: one slice of features per head, `[batch, seq, n_heads, head_dim]` for the query,
    /// `[batch, seq, n_kv_heads, head_dim]` for the key and `[batch, seq, n_kv_heads, value_dim]` for
    /// the value.
    ///
    /// # Panics
    ///
    /// When one does not have the features of all its heads.
    #[track_caller]
    pub fn split_heads(
        &self,
        query: Tensor<B, 3>,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> [Tensor<B, 4>; 3] {
        let Widths { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.settings.widths;
        let split = |name, x: Tensor<B, 3>, heads: usize, width: usize| {
            let [batch, seq, _] = x.dims();
            let axes = ["batch", "seq", "features of all heads"];
            expect_shape(name, axes, [batch, seq, heads * width], x.dims());
            attention::reshape(x, [batch, seq, heads, width])
        };
        [
            split("query", query, n_heads, head_dim),
            split("key", key, n_kv_heads, head_dim),
            split("value", value, n_kv_heads, value_dim),
        ]
    }

    /// Step 4: `[batch, seq, n_heads, value_dim]` to `[batch, seq, n_heads * value_dim]`, the heads
    /// side by side.
    ///
    /// # Panics
    ///
    /// When heads or features are not as many as the module has.
    #[track_caller]
    pub fn merge_heads(&self, context: Tensor<B, 4>) -> Tensor<B, 3> {
        let [batch, seq, ..] = context.dims();
        let (n_heads, value_dim) = (self.n_heads(), self.value_dim());
        let axes = ["batch", "seq", "n_heads", "value_dim"];
        expect_shape("context", axes, [batch, seq, n_heads, value_dim], context.dims());
        attention::reshape(context, [batch, seq, n_heads * value_dim])
    }

    /// The context of each head times its gate, if there is one: `[batch, seq_q, n_heads, value_dim]`.
    pub(crate) fn gated(
        &self,
        path: Path,
        context: Tensor<B, 4>,
        tokens: Tensor<B, 3>,
    ) -> Tensor<B, 4> {
        match &self.gate {
            Some(gate) => gated(context, self.layer(path, gate, tokens)),
            None => context,
        }
    }

    /// Features of a token, in and out.
    pub fn d_model(&self) -> usize {
        self.settings.widths.d_model
    }

    /// Heads that attend side by side.
    pub fn n_heads(&self) -> usize {
        self.settings.widths.n_heads
    }

    /// Heads of keys and values.
    pub fn n_kv_heads(&self) -> usize {
        self.settings.widths.n_kv_heads
    }

    /// Features of a query and a key in one head.
    pub fn head_dim(&self) -> usize {
        self.settings.widths.head_dim
    }

    /// Features of a value in one head.
    pub fn value_dim(&self) -> usize {
        self.settings.widths.value_dim
    }
}
