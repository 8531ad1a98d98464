//! What one attention call may bring besides query, key and value.

use burn::tensor::{DType, Tensor, backend::Backend};

use super::dropout::Dropout;
use super::masking::Masking;
use super::path::Path;
use super::sink::SinkInput;
use crate::mask::{Frame, Gap, Mask, Offset};
use crate::position::T5Buckets;

use super::sizes::Sizes;

/// Options of [`attention`](crate::attention()).
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
    pub(crate) mask: Mask<B>,
    pub(crate) bias: Option<Tensor<B, 4>>,
    pub(crate) alibi: Option<Vec<f64>>,
    pub(crate) t5: Option<(T5Buckets, Tensor<B, 2>)>,
    pub(crate) offset: Offset,
    pub(crate) gap: Gap,
    pub(crate) memory: Option<[Tensor<B, 3>; 2]>,
    pub(crate) sink: SinkInput<B>,
    pub(crate) dropout: Dropout,
    pub(crate) masking: Masking,
    pub(crate) head_scale: Option<Tensor<B, 1>>,
    pub(crate) weights: WantedWeights,
    pub(crate) lse: bool,
    pub(crate) path: Path,
}

/// Which weights a call returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WantedWeights {
    #[default]
    None,
    BeforeDropout,
    AfterDropout,
}

// By hand: a derive would ask for `B: Default`.
impl<B: Backend> Default for AttentionOptions<B> {
    fn default() -> Self {
        Self {
            scale: None,
            softcap: None,
            mask: Mask::default(),
            bias: None,
            alibi: None,
            t5: None,
            offset: Offset::default(),
            gap: Gap::default(),
            memory: None,
            sink: SinkInput::default(),
            dropout: Dropout::default(),
            masking: Masking::default(),
            head_scale: None,
            weights: WantedWeights::default(),
            lse: false,
            path: Path::default(),
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

    /// Hides, besides what is hidden already, the pairs that the mask hides.
    pub fn mask(mut self, mask: Mask<B>) -> Self {
        self.mask = self.mask.and(mask);
        self
    }

    /// Hides the future, as [`Mask::causal`]: query `i` sees key `j` when `j <= i + seq_k - seq_q`.
    pub fn causal(self) -> Self {
        self.mask(Mask::causal())
    }

    /// Adds to the scaled and capped scores: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    /// Where it is -∞ the pair is hidden.
    pub fn bias(mut self, bias: Tensor<B, 4>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Adds -slope · |distance| to the scores of each head, with a slope for each; see
    /// [`alibi_slopes`](crate::alibi_slopes).
    pub fn alibi(mut self, slopes: Vec<f64>) -> Self {
        self.alibi = Some(slopes);
        self
    }

    /// Adds a learned bias by the distance's bucket: `table` is `[n_buckets, n_heads]`. Gradients
    /// flow into it.
    pub fn t5(mut self, buckets: T5Buckets, table: Tensor<B, 2>) -> Self {
        self.t5 = Some((buckets, table));
        self
    }

    /// Says where the queries stand among the keys: query `i` at key position `i + offset`. Causal
    /// masks, windows and distances count from there. Default: the last query at the last key.
    pub fn query_offset(mut self, offset: impl Into<Offset>) -> Self {
        self.offset = offset.into();
        self
    }

    /// Adds keys `[n, n_kv_heads, head_dim]` and values `[n, n_kv_heads, value_dim]` that every query
    /// of every entry sees, behind the others: no mask, bias or distance applies to them (PyTorch's
    /// `add_bias_kv` for n of 1). Weights then have n columns more.
    pub fn memory(mut self, key: Tensor<B, 3>, value: Tensor<B, 3>) -> Self {
        self.memory = Some([key, value]);
        self
    }

    /// Adds a key of score 0 and value 0 to every softmax; it replaces another sink.
    pub fn quiet_softmax(mut self) -> Self {
        self.sink = SinkInput::Quiet;
        self
    }

    /// As [`quiet_softmax`](Self::quiet_softmax), and returned weights have a last column, that of the
    /// zero key (PyTorch's `add_zero_attn`). It replaces another sink.
    pub fn zero_attention(mut self) -> Self {
        self.sink = SinkInput::ZeroKey;
        self
    }

    /// Adds e^sink to the denominator of every softmax, with a logit for each head, `[n_heads]`, that
    /// scale, softcap, bias and mask leave alone. Gradients flow into it. It replaces another sink.
    pub fn sink(mut self, logits: Tensor<B, 1>) -> Self {
        self.sink = SinkInput::Learned(logits);
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

    /// Sets what a hidden pair means.
    pub fn masking(mut self, masking: Masking) -> Self {
        self.masking = masking;
        self
    }

    /// Multiplies the context of each head by a number, `[n_heads]`; 0 and 1 make a head mask.
    /// Gradients flow into it.
    pub fn head_scale(mut self, scale: Tensor<B, 1>) -> Self {
        self.head_scale = Some(scale);
        self
    }

    /// Returns the weights too, before dropout.
    pub fn return_weights(mut self) -> Self {
        self.weights = WantedWeights::BeforeDropout;
        self
    }

    /// Returns the weights too, as dropout left them: rows need not sum to 1.
    pub fn return_dropped_weights(mut self) -> Self {
        self.weights = WantedWeights::AfterDropout;
        self
    }

    /// Returns the log-sum-exp of each query's scores too.
    pub fn return_lse(mut self) -> Self {
        self.lse = true;
        self
    }

    /// Sets which path the call is to take; [`attention_path`](crate::attention_path) says which it
    /// takes.
    pub fn path(mut self, path: Path) -> Self {
        self.path = path;
        self
    }

    /// The element types of the tensors here that kernels read, with the names that errors give them.
    pub(crate) fn dtypes(&self) -> impl Iterator<Item = (&'static str, DType)> {
        let memory = self.memory.iter().flat_map(|[key, value]| {
            [("memory key", key.dtype()), ("memory value", value.dtype())]
        });
        let sink = match &self.sink {
            SinkInput::Learned(logits) => Some(("sink", logits.dtype())),
            SinkInput::None | SinkInput::Quiet | SinkInput::ZeroKey => None,
        };
        let table = self.t5.as_ref().map(|(_, table)| ("t5 table", table.dtype()));
        let bias = self.bias.as_ref().map(|bias| ("bias", bias.dtype()));
        bias.into_iter().chain(table).chain(memory).chain(sink)
    }

    /// The geometry of a call of these sizes.
    pub(crate) fn frame(&self, sizes: &Sizes) -> Frame {
        let (offset, gap) = (self.offset.clone(), self.gap);
        Frame { offset, gap, ..Frame::new(sizes.batch, sizes.seq_q, sizes.seq_k) }
    }
}
