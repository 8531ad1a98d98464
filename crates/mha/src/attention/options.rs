//! What one attention call may bring besides query, key and value.

use burn::tensor::{Bool, Tensor, backend::Backend};

use super::dropout::Dropout;
use super::mask::Masks;
use super::masking::Masking;

/// Options of [`attention`](crate::attention()).
///
/// Every mask is `true` where attention is forbidden; a pair that any of them forbids is hidden.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{AttentionOptions, attention};
///
/// let device = Default::default();
/// let [query, key, value] = [5, 7, 7].map(|seq| {
///     Tensor::<NdArray, 4>::random([2, seq, 3, 4], Distribution::Default, &device)
/// });
/// let options = AttentionOptions::default().causal().return_weights();
/// let out = attention(query, key, value, &options);
/// assert_eq!(out.context.dims(), [2, 5, 3, 4]);
/// assert_eq!(out.weights.unwrap().dims(), [2, 3, 5, 7]);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AttentionOptions<B: Backend> {
    pub(crate) scale: Option<f64>,
    pub(crate) softcap: Option<f64>,
    pub(crate) masks: Masks<B>,
    pub(crate) bias: Option<Tensor<B, 4>>,
    pub(crate) dropout: Dropout,
    pub(crate) quiet_softmax: bool,
    pub(crate) masking: Masking,
    pub(crate) return_weights: bool,
}

// By hand: a derive would ask for `B: Default`.
impl<B: Backend> Default for AttentionOptions<B> {
    fn default() -> Self {
        Self {
            scale: None,
            softcap: None,
            masks: Masks::default(),
            bias: None,
            dropout: Dropout::default(),
            quiet_softmax: false,
            masking: Masking::default(),
            return_weights: false,
        }
    }
}

impl<B: Backend> AttentionOptions<B> {
    /// Sets what the products of query and key are multiplied by, instead of 1/√head_dim. A scale
    /// of 0 makes all scores equal; it is not "no scale", which is 1.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Keeps the scaled scores s within ±`cap` as cap · tanh(s / cap), before bias and masks
    /// (Gemma 2 report, section 2, "Logit soft-capping": <https://arxiv.org/abs/2408.00118>).
    pub fn softcap(mut self, cap: f64) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// Hides keys, padding say, from every query: `[batch, seq_k]`, `true` hides.
    pub fn mask_pad(mut self, mask: Tensor<B, 2, Bool>) -> Self {
        self.masks.pad = Some(mask);
        self
    }

    /// Hides pairs: `[batch, seq_q, seq_k]`, where any axis may be 1; `true` hides.
    pub fn mask_attn(mut self, mask: Tensor<B, 3, Bool>) -> Self {
        self.masks.attn = Some(mask);
        self
    }

    /// Hides pairs head by head: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1; `true`
    /// hides.
    pub fn mask_attn_heads(mut self, mask: Tensor<B, 4, Bool>) -> Self {
        self.masks.heads = Some(mask);
        self
    }

    /// Hides the future: query `i` sees key `j` when `j <= i + seq_k - seq_q`, so that the last
    /// query sees every key.
    pub fn causal(mut self) -> Self {
        self.masks.causal = true;
        self
    }

    /// Adds to the scaled and capped scores: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    /// Where it is -∞ the pair is hidden.
    pub fn bias(mut self, bias: Tensor<B, 4>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Drops weights with this probability in `[0, 1)`, and scales the others up to keep the
    /// mean; only on a backend with autodiff, as Burn's own dropout.
    pub fn dropout(mut self, probability: f64) -> Self {
        self.dropout.probability = probability;
        self
    }

    /// Makes the dropped weights a function of this seed, on every backend alike. Without it each
    /// call draws a seed from the backend, so that `B::seed` governs it.
    pub fn dropout_seed(mut self, seed: u64) -> Self {
        self.dropout.seed = Some(seed);
        self
    }

    /// Adds a key of score 0 and value 0 to every softmax.
    pub fn quiet_softmax(mut self) -> Self {
        self.quiet_softmax = true;
        self
    }

    /// Sets what a hidden pair means.
    pub fn masking(mut self, masking: Masking) -> Self {
        self.masking = masking;
        self
    }

    /// Returns the weights too, before dropout.
    pub fn return_weights(mut self) -> Self {
        self.return_weights = true;
        self
    }
}
