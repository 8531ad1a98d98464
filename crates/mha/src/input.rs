//! What one call of the module may bring, and what it gives back.

use burn::tensor::{Bool, Tensor, backend::Backend};

use crate::attention::WantedWeights;
use crate::{AttentionOptions, Error, Mask, Offset, Path, Positions, T5Buckets};

/// Input of [`MultiHeadAttention::forward`](crate::MultiHeadAttention::forward).
///
/// Masks add up: a pair that any of them hides is hidden.
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
    /// Key and value; those of a cache alone if there are none.
    pub(crate) memory: Option<[Tensor<B, 3>; 2]>,
    pub(crate) options: AttentionOptions<B>,
    pub(crate) query_positions: Option<Positions>,
    pub(crate) key_positions: Option<Positions>,
    pub(crate) new_lengths: Option<Vec<usize>>,
    pub(crate) query_lengths: Option<Vec<usize>>,
    pub(crate) weights: Weights,
    /// The configuration's if none.
    pub(crate) path: Option<Path>,
}

/// Which weights a call returns. Before dropout each row sums to 1, or to 0 where a query sees no key
/// (less with a sink). Asking for them costs memory for all `seq_q × seq_k` pairs;
/// [`weights_of`](crate::MultiHeadAttention::weights_of) gives chosen rows for less.
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
    /// Those of each head as dropout left them.
    PerHeadAfterDropout,
    /// The mean over the heads of what dropout left. PyTorch returns these in training.
    AveragedAfterDropout,
}

impl Weights {
    pub(crate) fn wanted(self) -> WantedWeights {
        match self {
            Self::None => WantedWeights::None,
            Self::PerHead | Self::Averaged => WantedWeights::BeforeDropout,
            Self::PerHeadAfterDropout | Self::AveragedAfterDropout => WantedWeights::AfterDropout,
        }
    }

    /// The weights of each head, or their mean, as asked for.
    pub(crate) fn over_heads<B: Backend>(self, weights: Tensor<B, 4>) -> Tensor<B, 4> {
        match self {
            Self::None | Self::PerHead | Self::PerHeadAfterDropout => weights,
            Self::Averaged | Self::AveragedAfterDropout => {
                // A product rather than `mean_dim`: no gradient passes a reciprocal.
                let [batch, n_heads, seq_q, seq_k] = weights.dims();
                if batch * seq_q * seq_k == 0 {
                    // Not every backend sums what has no elements.
                    let like = (&weights.device(), weights.dtype());
                    return Tensor::zeros([batch, 1, seq_q, seq_k], like);
                }
                weights.sum_dim(1).mul_scalar(1.0 / n_heads as f64)
            }
        }
    }
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
    /// The log-sum-exps that [`MhaInput::lse`] asked for, `[batch, n_heads, seq_q]`, f32 or f64, without
    /// gradient; see [`Attention::lse`](crate::Attention::lse).
    pub lse: Option<Tensor<B, 3>>,
}

impl<B: Backend> MhaInput<B> {
    /// Self-attention: the tokens `[batch, seq, d_model]` are query, key and value.
    pub fn self_attn(tokens: Tensor<B, 3>) -> Self {
        Self::new(tokens.clone(), tokens.clone(), tokens)
    }

    /// Cross-attention: query `[batch, seq_q, d_model]`, key `[batch, seq_k, d_key]` and value
    /// `[batch, seq_k, d_value]`.
    pub fn new(query: Tensor<B, 3>, key: Tensor<B, 3>, value: Tensor<B, 3>) -> Self {
        Self { memory: Some([key, value]), ..Self::query(query) }
    }

    /// A query alone, `[batch, seq_q, d_model]`, for a cache that
    /// [`cache_memory`](crate::MultiHeadAttention::cache_memory) has filled.
    pub fn query(query: Tensor<B, 3>) -> Self {
        Self {
            query,
            memory: None,
            options: AttentionOptions::default(),
            query_positions: None,
            key_positions: None,
            new_lengths: None,
            query_lengths: None,
            weights: Weights::default(),
            path: None,
        }
    }

    /// [`new`](Self::new) with the sequence first, `[seq, batch, features]`, PyTorch's default; the
    /// output comes batch first.
    pub fn seq_first(query: Tensor<B, 3>, key: Tensor<B, 3>, value: Tensor<B, 3>) -> Self {
        Self::new(query.swap_dims(0, 1), key.swap_dims(0, 1), value.swap_dims(0, 1))
    }

    /// Self-attention on a single sequence, `[seq, d_model]`: a batch of one.
    pub fn unbatched(tokens: Tensor<B, 2>) -> Self {
        let [seq, d_model] = tokens.dims();
        if seq == 0 {
            // Burn's reshape reads an axis of 0 as "as it was", and takes that of d_model.
            let like = (&tokens.device(), tokens.dtype());
            return Self::self_attn(Tensor::zeros([1, seq, d_model], like));
        }
        Self::self_attn(tokens.unsqueeze_dim(0))
    }

    /// Hides, besides what is hidden already, the pairs that the mask hides.
    pub fn mask(mut self, mask: Mask<B>) -> Self {
        self.options = self.options.mask(mask);
        self
    }

    /// Hides keys, padding say, from every query: `[batch, seq_k]`, `true` hides, as in `burn::nn`.
    pub fn mask_pad(self, mask: Tensor<B, 2, Bool>) -> Self {
        self.mask(Mask::mask_pad(mask))
    }

    /// Hides pairs: `[batch, seq_q, seq_k]`, where any axis may be 1; `true` hides, as in `burn::nn`.
    pub fn mask_attn(self, mask: Tensor<B, 3, Bool>) -> Self {
        self.mask(Mask::mask_attn(mask))
    }

    /// Hides the future, as [`Mask::causal`]: query `i` sees key `j` when `j <= i + seq_k - seq_q`, so
    /// that the last query sees every key.
    pub fn causal(self) -> Self {
        self.mask(Mask::causal())
    }

    /// Adds to the scaled and capped scores: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    /// Where it is -∞ the pair is hidden. Gradients flow into it.
    pub fn bias(mut self, bias: Tensor<B, 4>) -> Self {
        self.options = self.options.bias(bias);
        self
    }

    /// Adds a bias by the distance's bucket, from a table `[n_buckets, n_heads]` that another layer
    /// learns: in T5 the first layer has the table, and the others take it from there. Gradients flow
    /// into it.
    pub fn t5(mut self, buckets: T5Buckets, table: Tensor<B, 2>) -> Self {
        self.options = self.options.t5(buckets, table);
        self
    }

    /// Says where the queries stand among the keys: query `i` at key position `i + offset`. Causal
    /// masks, windows, distances and rotary positions count from there. Default: the last query at the
    /// last key; with a cache, where its tokens end.
    pub fn query_offset(mut self, offset: impl Into<Offset>) -> Self {
        self.options = self.options.query_offset(offset);
        self
    }

    /// Sets the positions that rotary encodings rotate queries and keys by. Default: they count from
    /// the first key, and with a cache from the first token it saw. Masks and distances do not heed
    /// them. With a cache they are those of the new tokens.
    pub fn positions(self, positions: impl Into<Positions>) -> Self {
        let positions = positions.into();
        self.query_positions(positions.clone()).key_positions(positions)
    }

    /// [`positions`](Self::positions) of the queries alone.
    pub fn query_positions(mut self, positions: impl Into<Positions>) -> Self {
        self.query_positions = Some(positions.into());
        self
    }

    /// [`positions`](Self::positions) of the keys alone.
    pub fn key_positions(mut self, positions: impl Into<Positions>) -> Self {
        self.key_positions = Some(positions.into());
        self
    }

    /// Says how many tokens of each entry are true, with a cache: the others, padding on the right,
    /// are not kept, and the entry goes on behind its last true token.
    pub fn new_lengths(mut self, lengths: Vec<usize>) -> Self {
        self.new_lengths = Some(lengths);
        self
    }

    /// Says how many queries of each entry are true: the outputs of the others, padding on the right,
    /// are 0. Without it they are whatever those queries attend to.
    pub fn query_lengths(mut self, lengths: Vec<usize>) -> Self {
        self.query_lengths = Some(lengths);
        self
    }

    /// Multiplies the context of each head by a number, `[n_heads]`, before the heads merge; 0 and 1
    /// make a head mask. Gradients flow into it.
    pub fn head_scale(mut self, scale: Tensor<B, 1>) -> Self {
        self.options = self.options.head_scale(scale);
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

    /// Sets which path the call is to take, instead of the one that the configuration names.
    pub fn path(mut self, path: Path) -> Self {
        self.path = Some(path);
        self
    }

    /// Asks for the log-sum-exps.
    pub fn lse(mut self) -> Self {
        self.options = self.options.return_lse();
        self
    }

    /// Key and value, if they were given.
    pub(crate) fn given(&self) -> Result<[Tensor<B, 3>; 2], Error> {
        let missing = || Error::value("key and value", "be given", "a query alone");
        self.memory.clone().ok_or_else(missing)
    }

    /// The call without its first `queries` queries and `keys` keys, of both of which it has more.
    /// Masks and bias, which fit the call, still span all keys.
    pub(crate) fn skip(mut self, queries: usize, keys: usize) -> Self {
        self.query = behind(self.query, 1, queries);
        self.memory = self.memory.map(|memory| memory.map(|tokens| behind(tokens, 1, keys)));
        self.query_positions = self.query_positions.map(|positions| positions.skip(queries));
        self.key_positions = self.key_positions.map(|positions| positions.skip(keys));
        if let Some(lengths) = &mut self.query_lengths {
            lengths.iter_mut().for_each(|length| *length = length.saturating_sub(queries));
        }
        let options = &mut self.options;
        options.mask = std::mem::take(&mut options.mask).skip(queries);
        options.offset = std::mem::take(&mut options.offset).skip(queries);
        options.bias = options.bias.take().map(|bias| match bias.dims()[2] {
            1 => bias, // it stands for all queries
            _ => behind(bias, 2, queries),
        });
        self
    }
}

/// What lies behind the first `n` of an axis.
fn behind<B: Backend, const D: usize>(tensor: Tensor<B, D>, axis: usize, n: usize) -> Tensor<B, D> {
    let size = tensor.dims()[axis];
    if n == 0 { tensor } else { tensor.narrow(axis, n, size - n) }
}
