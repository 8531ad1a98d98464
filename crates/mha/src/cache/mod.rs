//! Keys and values of tokens seen before.

mod burn_nn;
mod check;
mod extend;

use burn::record::{PrecisionSettings, Record};
use burn::tensor::{Int, Tensor, backend::Backend};
use serde::{Deserialize, Serialize};

use crate::Error;
pub use burn_nn::MhaCache;
pub(crate) use extend::Plan;

/// Projected keys and values of the tokens seen so far, with which
/// [`MultiHeadAttention::forward_cached`](crate::MultiHeadAttention::forward_cached) attends to them
/// without projecting them again. One layer has one cache.
///
/// Whatever the pieces in which a sequence comes, the results are those of one call with all of it
/// (up to rounding), given the same rules: ask for [`causal`](crate::MhaInput::causal) in both.
///
/// A cache is data, not a module: it derives Burn's `Record`, so that a recorder saves and loads it.
/// A clone shares the numbers until one of the two changes, which makes a fork cheap.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{KvCache, MhaInput, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let tokens = Tensor::random([1, 7, 8], Distribution::Default, &device);
/// let whole = attention.forward(MhaInput::self_attn(tokens.clone()).causal()).context;
///
/// let mut cache = KvCache::growing();
/// for [start, n] in [[0, 4], [4, 2], [6, 1]] {
///     let piece = MhaInput::self_attn(tokens.clone().narrow(1, start, n)).causal();
///     let context = attention.forward_cached(piece, &mut cache).context;
///     let difference = context - whole.clone().narrow(1, start, n);
///     assert!(difference.abs().max().into_scalar() < 1e-6);
/// }
/// assert_eq!(cache.len(), 7);
/// ```
#[derive(Debug, Clone, Record)]
pub struct KvCache<B: Backend> {
    kind: Kind,
    /// `[batch, room, n_kv_heads, head_dim]`; the first of each entry are in use.
    key: Option<Tensor<B, 4>>,
    /// `[batch, room, n_kv_heads, value_dim]`
    value: Option<Tensor<B, 4>>,
    /// Tokens seen, for each entry. A rolling cache has forgotten some of them.
    lengths: Vec<usize>,
}

/// How a cache finds room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Growing,
    Preallocated { capacity: usize },
    Rolling { window: usize, sinks: usize },
    Memory,
}

impl<B: Backend> Record<B> for Kind {
    type Item<S: PrecisionSettings> = Self;

    fn into_item<S: PrecisionSettings>(self) -> Self {
        self
    }

    fn from_item<S: PrecisionSettings>(item: Self, _: &B::Device) -> Self {
        item
    }
}

impl<B: Backend> KvCache<B> {
    /// A cache that takes any number of tokens; its room doubles when it is full.
    pub fn growing() -> Self {
        Self::of(Kind::Growing)
    }

    /// A cache with room for `capacity` tokens per entry, made once. More are an error, and leave it as
    /// it was.
    pub fn preallocated(capacity: usize) -> Self {
        Self::of(Kind::Preallocated { capacity })
    }

    /// A cache that keeps the last `window` keys, the newest among them: each query sees itself and
    /// `window - 1` keys before it, as with [`Mask::window`](crate::Mask::window), which the cache adds
    /// by itself. Positions go on counting true tokens. Dense masks, segments and a bias span the keys
    /// that are left, in order, and the new ones behind them.
    ///
    /// # Panics
    ///
    /// When the window is 0.
    pub fn rolling(window: usize) -> Self {
        Self::rolling_with_sinks(window, 0)
    }

    /// A rolling cache that keeps the first `sinks` tokens too, in sight of every query (Xiao et al.
    /// 2023, "StreamingLLM": <https://arxiv.org/abs/2309.17453>; there positions count within the
    /// cache, here they are true ones).
    ///
    /// # Panics
    ///
    /// When the window is 0.
    pub fn rolling_with_sinks(window: usize, sinks: usize) -> Self {
        assert!(window > 0, "window must be at least 1, got 0");
        Self::of(Kind::Rolling { window, sinks })
    }

    /// A filled cache of a memory that does not grow; see
    /// [`MultiHeadAttention::cache_memory`](crate::MultiHeadAttention::cache_memory).
    pub(crate) fn memory(key: Tensor<B, 4>, value: Tensor<B, 4>) -> Self {
        let [batch, seq_k, ..] = key.dims();
        let lengths = vec![seq_k; batch];
        Self { kind: Kind::Memory, key: Some(key), value: Some(value), lengths }
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.kind == Kind::Memory
    }

    /// Places for keys that there are, used or not.
    fn rows(&self) -> usize {
        self.key.as_ref().map_or(0, |key| key.dims()[1])
    }

    /// Keys that a rolling cache no longer has.
    fn forgotten(&self) -> usize {
        match (self.kind, &self.key) {
            (Kind::Rolling { .. }, Some(_)) => self.len().saturating_sub(self.rows()),
            _ => 0,
        }
    }

    fn of(kind: Kind) -> Self {
        Self { kind, key: None, value: None, lengths: Vec::new() }
    }

    /// Tokens seen, of the entry that has seen the most. A rolling cache counts those it has
    /// forgotten.
    pub fn len(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Whether no token has been seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens seen, for each entry; nothing before the first call.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Tokens per entry that fit without an error; nothing where there is no such limit.
    pub fn capacity(&self) -> Option<usize> {
        match self.kind {
            Kind::Preallocated { capacity } => Some(capacity),
            Kind::Growing | Kind::Rolling { .. } | Kind::Memory => None,
        }
    }

    /// Forgets everything but keeps the room.
    pub fn clear(&mut self) {
        if self.kind == Kind::Memory {
            (self.key, self.value) = (None, None);
        }
        self.lengths.fill(0);
    }

    /// Goes back to `len` tokens, for speculative decoding say; entries that have fewer stay.
    ///
    /// # Errors
    ///
    /// When a rolling cache has forgotten keys: queries after `len` would see them.
    pub fn truncate(&mut self, len: usize) -> Result<(), Error> {
        if let Kind::Rolling { .. } = self.kind
            && len < self.len()
            && self.forgotten() > 0
        {
            let expected =
                format!("be at least {} in a rolling cache that has forgotten keys", self.len());
            return Err(Error::value("len", expected, len));
        }
        self.lengths.iter_mut().for_each(|length| *length = len.min(*length));
        Ok(())
    }

    /// Makes entry `b` a copy of entry `entries[b]`, for beam search: some may come twice, others
    /// not at all, and their number may change.
    ///
    /// # Errors
    ///
    /// When there is none, or one that the cache does not have.
    pub fn reorder(&mut self, entries: &[usize]) -> Result<(), Error> {
        let batch = self.lengths.len();
        if entries.is_empty() {
            return Err(Error::value("entries", "name at least one", "none"));
        }
        crate::attention::check::indices("entries", entries, batch, "batch")?;
        let index: Vec<i32> = entries.iter().map(|&entry| entry as i32).collect();
        for tensor in [&mut self.key, &mut self.value].into_iter().flatten() {
            let [_, room, heads, width] = tensor.dims();
            *tensor = if tensor.dims().contains(&0) {
                // Burn's backends refuse tensors without elements.
                let dims = [entries.len(), room, heads, width];
                Tensor::zeros(dims, (&tensor.device(), tensor.dtype()))
            } else {
                let index = Tensor::<B, 1, Int>::from_ints(index.as_slice(), &tensor.device());
                tensor.clone().select(0, index)
            };
        }
        self.lengths = entries.iter().map(|&entry| self.lengths[entry]).collect();
        Ok(())
    }

    /// The cache on another device.
    pub fn to_device(mut self, device: &B::Device) -> Self {
        let to = |tensor: Option<Tensor<B, 4>>| tensor.map(|tensor| tensor.to_device(device));
        (self.key, self.value) = (to(self.key), to(self.value));
        self
    }
}
