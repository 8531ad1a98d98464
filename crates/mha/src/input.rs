//! What one call of the module may bring, and what it gives back.

use burn::tensor::{Bool, Tensor, backend::Backend};

use crate::AttentionOptions;

/// Input of [`MultiHeadAttention::forward`](crate::MultiHeadAttention::forward).
///
/// Every mask is `true` where attention is forbidden, as in `burn::nn`; a pair that any of them
/// forbids is hidden.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{MhaInput, MultiHeadAttentionConfig, Weights};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let tokens = Tensor::random([3, 5, 8], Distribution::Default, &device);
/// let memory = Tensor::random([3, 7, 8], Distribution::Default, &device);
///
/// let out = attention.forward(MhaInput::self_attn(tokens.clone()).causal());
/// assert_eq!(out.context.dims(), [3, 5, 8]);
///
/// let cross = MhaInput::new(tokens, memory.clone(), memory).weights(Weights::Averaged);
/// let out = attention.forward(cross);
/// assert_eq!(out.weights.unwrap().dims(), [3, 1, 5, 7]);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MhaInput<B: Backend> {
    pub(crate) query: Tensor<B, 3>,
    pub(crate) key: Tensor<B, 3>,
    pub(crate) value: Tensor<B, 3>,
    pub(crate) options: AttentionOptions<B>,
    pub(crate) weights: Weights,
}

/// Which weights a call returns. They are those before dropout: each row sums to 1, or to 0 where
/// a query sees no key. Asking for them costs memory for all `seq_q × seq_k` pairs.
///
/// # Example
///
/// ```
/// assert_eq!(mha::Weights::default(), mha::Weights::None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weights {
    /// None.
    #[default]
    None,
    /// Those of each head: `[batch, n_heads, seq_q, seq_k]`.
    PerHead,
    /// Their mean over the heads: `[batch, 1, seq_q, seq_k]`.
    Averaged,
}

/// Output of [`MultiHeadAttention::forward`](crate::MultiHeadAttention::forward).
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MhaInput, MhaOutput, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let MhaOutput { context, weights, .. } =
///     attention.forward(MhaInput::self_attn(Tensor::ones([1, 5, 8], &device)));
/// assert_eq!(context.dims(), [1, 5, 8]);
/// assert!(weights.is_none());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MhaOutput<B: Backend> {
    /// The result, after the output projection: `[batch, seq_q, d_model]`.
    pub context: Tensor<B, 3>,
    /// The weights that [`MhaInput::weights`] asked for.
    pub weights: Option<Tensor<B, 4>>,
}

impl<B: Backend> MhaInput<B> {
    /// Self-attention: the tokens `[batch, seq, d_model]` are query, key and value.
    pub fn self_attn(tokens: Tensor<B, 3>) -> Self {
        Self::new(tokens.clone(), tokens.clone(), tokens)
    }

    /// Cross-attention: query `[batch, seq_q, d_model]`, key and value `[batch, seq_k, d_model]`.
    pub fn new(query: Tensor<B, 3>, key: Tensor<B, 3>, value: Tensor<B, 3>) -> Self {
        let (options, weights) = (AttentionOptions::default(), Weights::default());
        Self { query, key, value, options, weights }
    }

    /// Hides keys, padding say, from every query: `[batch, seq_k]`, `true` hides.
    pub fn mask_pad(mut self, mask: Tensor<B, 2, Bool>) -> Self {
        self.options = self.options.mask_pad(mask);
        self
    }

    /// Hides pairs: `[batch, seq_q, seq_k]`, where any axis may be 1; `true` hides.
    pub fn mask_attn(mut self, mask: Tensor<B, 3, Bool>) -> Self {
        self.options = self.options.mask_attn(mask);
        self
    }

    /// Hides pairs head by head: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1; `true`
    /// hides.
    pub fn mask_attn_heads(mut self, mask: Tensor<B, 4, Bool>) -> Self {
        self.options = self.options.mask_attn_heads(mask);
        self
    }

    /// Hides the future: query `i` sees key `j` when `j <= i + seq_k - seq_q`, so that the last
    /// query sees every key.
    pub fn causal(mut self) -> Self {
        self.options = self.options.causal();
        self
    }

    /// Adds to the scaled and capped scores: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    /// Where it is -∞ the pair is hidden. Gradients flow into it.
    pub fn bias(mut self, bias: Tensor<B, 4>) -> Self {
        self.options = self.options.bias(bias);
        self
    }

    /// Makes the dropped weights a function of this seed, on every backend alike. Without it each
    /// call draws a seed from the backend, so that `B::seed` governs it.
    pub fn dropout_seed(mut self, seed: u64) -> Self {
        self.options = self.options.dropout_seed(seed);
        self
    }

    /// Asks for the weights.
    pub fn weights(mut self, weights: Weights) -> Self {
        self.weights = weights;
        self
    }
}
