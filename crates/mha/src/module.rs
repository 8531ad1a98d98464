//! The module: five steps.

use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::Linear;
use burn::tensor::{Tensor, backend::Backend};

use crate::attention::{Attention, Masking, Sizes, check_like, fill, try_attention};
use crate::error::check_shape;
use crate::widths::Widths;
use crate::{AttentionOptions, Error, MhaInput, MhaOutput, Weights};

/// Multi-head attention with its four projections.
///
/// 1. project: `query`, `key` and `value` each times their weight;
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
    #[module(skip)]
    pub(crate) widths: Widths,
    #[module(skip)]
    pub(crate) scale: Option<f64>,
    #[module(skip)]
    pub(crate) softcap: Option<f64>,
    #[module(skip)]
    pub(crate) dropout: f64,
    #[module(skip)]
    pub(crate) quiet_softmax: bool,
    #[module(skip)]
    pub(crate) masking: Masking,
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
    /// another ask for.
    pub fn try_forward(&self, input: MhaInput<B>) -> Result<MhaOutput<B>, Error> {
        let (MhaInput { query, key, value, weights: wanted, .. }, options) = self.check(input)?;

        let [query, key, value] = self.project(query, key, value); //                        [batch, seq, heads * head_dim]
        let [query, key, value] = self.split_heads(query, key, value); //                    [batch, seq, heads, head_dim]
        let Attention { context, weights } = try_attention(query, key, value, &options)?; // [batch, seq_q, n_heads, value_dim]
        let context = self.merge_heads(context); //                                          [batch, seq_q, n_heads * value_dim]
        let context = linear(&self.output, context); //                                      [batch, seq_q, d_output]

        let weights = match wanted {
            Weights::Averaged => weights.map(mean_over_heads),
            Weights::None | Weights::PerHead => weights,
        };
        Ok(MhaOutput { context, weights })
    }

    /// Step 1: query, key and value, each `[batch, seq, features]`, times their weights:
    /// `[batch, seq, heads * head_dim]`.
    pub fn project(
        &self,
        query: Tensor<B, 3>,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> [Tensor<B, 3>; 3] {
        [linear(&self.query, query), linear(&self.key, key), linear(&self.value, value)]
    }

    /// Step 2: one slice of features per head, `[batch, seq, n_heads, head_dim]` for the query,
    /// `[batch, seq, n_kv_heads, head_dim]` for the key and `[batch, seq, n_kv_heads, value_dim]` for
    /// the value.
    pub fn split_heads(
        &self,
        query: Tensor<B, 3>,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> [Tensor<B, 4>; 3] {
        let Widths { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.widths;
        let split = |x: Tensor<B, 3>, heads: usize, width: usize| {
            let [batch, seq, _] = x.dims();
            x.reshape([batch, seq, heads, width])
        };
        [
            split(query, n_heads, head_dim),
            split(key, n_kv_heads, head_dim),
            split(value, n_kv_heads, value_dim),
        ]
    }

    /// Step 4: `[batch, seq, n_heads, value_dim]` to `[batch, seq, n_heads * value_dim]`, the heads
    /// side by side.
    pub fn merge_heads(&self, context: Tensor<B, 4>) -> Tensor<B, 3> {
        let [batch, seq, n_heads, value_dim] = context.dims();
        context.reshape([batch, seq, n_heads * value_dim])
    }

    /// Features of a token, in and out.
    pub fn d_model(&self) -> usize {
        self.widths.d_model
    }

    /// Heads that attend side by side.
    pub fn n_heads(&self) -> usize {
        self.widths.n_heads
    }

    /// Heads of keys and values.
    pub fn n_kv_heads(&self) -> usize {
        self.widths.n_kv_heads
    }

    /// Features of a query and a key in one head.
    pub fn head_dim(&self) -> usize {
        self.widths.head_dim
    }

    /// Features of a value in one head.
    pub fn value_dim(&self) -> usize {
        self.widths.value_dim
    }

    /// The call, checked before anything is computed, with the options that the module adds.
    fn check(&self, input: MhaInput<B>) -> Result<(MhaInput<B>, AttentionOptions<B>), Error> {
        let MhaInput { query, key, value, options, weights } = &input;
        let [batch, seq_q, _] = query.dims();
        let [_, seq_k, _] = key.dims();
        let Widths { d_model, d_key, d_value, n_heads, n_kv_heads, head_dim, value_dim, .. } =
            self.widths;
        let sizes = Sizes { batch, seq_q, seq_k, n_heads, n_kv_heads, head_dim, value_dim };
        let axes = ["batch", "seq_q", "d_model"];
        check_shape("query", axes, [batch, seq_q, d_model], query.dims())?;
        let axes = ["batch", "seq_k", "d_key"];
        check_shape("key", axes, [batch, seq_k, d_key], key.dims())?;
        let axes = ["batch", "seq_k", "d_value"];
        check_shape("value", axes, [batch, seq_k, d_value], value.dims())?;
        check_like("query", query, "the parameter query.weight", &self.query.weight.val())?;
        check_like("key", key, "query", query)?;
        check_like("value", value, "query", query)?;

        let mut options = options.clone();
        options.scale = self.scale;
        options.softcap = self.softcap;
        options.dropout.probability = self.dropout;
        options.quiet_softmax = self.quiet_softmax;
        options.masking = self.masking;
        options.return_weights = *weights != Weights::None;
        options.check(&sizes, "query", query)?;
        Ok((self.zero_hidden_keys(input, &options, &sizes), options))
    }

    /// Keys hidden from all count as 0 before the projection too, or a NaN in them would reach the
    /// gradients of the key and value weights (0 · NaN).
    fn zero_hidden_keys(
        &self,
        mut input: MhaInput<B>,
        options: &AttentionOptions<B>,
        sizes: &Sizes,
    ) -> MhaInput<B> {
        if self.masking != Masking::Exclude || sizes.is_empty() {
            return input;
        }
        if let Some(hidden) = options.masks.hidden_keys(sizes, &input.key.device()) {
            let rows = hidden.unsqueeze_dim::<3>(2);
            input.key = fill(input.key, rows.clone(), 0.0);
            input.value = fill(input.value, rows, 0.0);
        }
        input
    }
}

/// A linear layer that also takes tensors without elements, which Burn's backends refuse.
fn linear<B: Backend>(layer: &Linear<B>, input: Tensor<B, 3>) -> Tensor<B, 3> {
    let [batch, seq, _] = input.dims();
    if batch * seq == 0 {
        let [_, d_output] = layer.weight.dims();
        return Tensor::zeros([batch, seq, d_output], (&input.device(), input.dtype()));
    }
    layer.forward(input)
}

fn mean_over_heads<B: Backend>(weights: Tensor<B, 4>) -> Tensor<B, 4> {
    // A product rather than `mean_dim`: no gradient passes a reciprocal.
    let [_, n_heads, ..] = weights.dims();
    weights.sum_dim(1).mul_scalar(1.0 / n_heads as f64)
}

impl<B: Backend> ModuleDisplay for MultiHeadAttention<B> {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let Widths { d_model, d_key, d_value, d_output, .. } = self.widths;
        let content = content.add("d_model", &d_model);
        let others = [("d_key", d_key), ("d_value", d_value), ("d_output", d_output)];
        let others = others.iter().filter(|(_, width)| *width != d_model);
        let content = others.fold(content, |content, (name, width)| content.add(name, width));
        let content = content
            .add("n_heads", &self.n_heads())
            .add("n_kv_heads", &self.n_kv_heads())
            .add("head_dim", &self.head_dim())
            .add("value_dim", &self.value_dim());
        let numbers = [("scale", self.scale), ("softcap", self.softcap)];
        let numbers = numbers.iter().filter_map(|(name, x)| Some((name, (*x)?)));
        numbers
            .fold(content, |content, (name, x)| content.add(name, &x))
            .add("dropout", &self.dropout)
            .add("quiet_softmax", &self.quiet_softmax)
            .add_debug_attribute("masking", &self.masking)
            .optional()
    }
}
