//! Masks as values: which keys a query sees.

mod check;
mod dense;
mod draw;
mod frame;
mod hidden;
mod offset;
mod part;
mod record;
mod rule;
mod spans;
#[cfg(test)]
mod tests;
mod tile;
mod visible;

use std::fmt;

use burn::tensor::{Bool, Tensor, TensorData, backend::Backend};

use dense::DenseMask;
pub use dense::DensePairs;
pub(crate) use frame::{Frame, Gap};
pub use offset::Offset;
pub use rule::Rule;
#[cfg(any(feature = "ndarray", feature = "flex", feature = "cube"))]
pub(crate) use spans::Spans;
pub use tile::Tile;
#[cfg(any(feature = "ndarray", feature = "flex", feature = "cube"))]
pub(crate) use visible::{entries, visible};

/// Which keys a query sees: any number of [`Rule`]s and of Boolean tensors. A pair of query and key
/// is visible where all of them leave it visible; by default that is everywhere.
///
/// A rule is a few numbers on the host. It is the same on every device, and becomes a tensor only
/// on a path that needs one; a path that skips blocks asks [`tile`](Self::tile). A Boolean tensor
/// stays on its device and is never read, but by the methods that say so.
///
/// A mask prints itself in words, and [`draw`](Self::draw) makes a picture. Burn's recorders save
/// it whole; rules alone go through serde, and `rules.into_iter().collect()` is their mask.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::Mask;
/// use mha::oracle::Sizes;
///
/// // Two documents packed into one sequence of five tokens.
/// let mask = Mask::<NdArray>::causal().and(Mask::segments(vec![vec![0, 0, 1, 1, 1]]));
/// let sizes = Sizes { seq_q: 5, seq_k: 5, ..Sizes::ONE };
/// assert_eq!(mask.draw(&sizes, 0, 0)?, "■····\n■■···\n··■··\n··■■·\n··■■■\n");
/// assert_eq!(mask.visible_pairs(&sizes)?, 9);
/// assert_eq!(
///     mask.to_string(),
///     "causal: a query sees keys up to its own position\n\
///      segments: a query sees the keys that have its id"
/// );
/// # Ok::<(), mha::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mask<B: Backend> {
    rules: Vec<Rule>,
    dense: Vec<DenseMask<B>>,
}

impl<B: Backend> Mask<B> {
    /// Hides nothing.
    pub fn none() -> Self {
        Self { rules: Vec::new(), dense: Vec::new() }
    }

    /// Hides the future, the last query standing at the last key: query `i` sees key `j` when
    /// `j <= i + seq_k - seq_q`. With a cache it stands where the cache says.
    pub fn causal() -> Self {
        Self::causal_at(Offset::BottomRight)
    }

    /// Hides the future of queries that stand elsewhere: query `i` sees key `j` when
    /// `j <= i + offset`.
    pub fn causal_at(offset: impl Into<Offset>) -> Self {
        Rule::Causal { offset: offset.into() }.into()
    }

    /// Hides the future, the first query standing at the first key: query `i` sees key `j` when
    /// `j <= i`, as `is_causal` of PyTorch's `scaled_dot_product_attention` and Flax have it.
    pub fn top_left() -> Self {
        Self::causal_at(0)
    }

    /// Hides all but `left` keys before a query's own position, that position and `right` keys
    /// after it; `None` is all of them. `window(w - 1, 0)` is causal with a window of `w` tokens
    /// that counts the token itself. [`Rule::Window`] also keeps the first keys.
    ///
    /// | Elsewhere | Here |
    /// |---|---|
    /// | Hugging Face `sliding_window = w` (Mistral) | `window(w - 1, 0)` |
    /// | xFormers `_window_size = w` | `window(w - 1, 0)` |
    /// | Hugging Face, bidirectional window `w` | `window(w, w)` |
    /// | Keras `w` | `window(w - 1, w - 1)`, and causal if it is |
    /// | x-transformers `max_attend_past = w` | `window(w, None)`, and causal if it is |
    /// | FlashAttention, candle, xFormers `(left, right)`, -1 for all | `window(left, right)` |
    /// | JAX `(l, r)` | `window(l, r)` |
    pub fn window(left: impl Into<Option<usize>>, right: impl Into<Option<usize>>) -> Self {
        let (left, right) = (left.into(), right.into());
        Rule::Window { left, right, sinks: 0, offset: Offset::BottomRight }.into()
    }

    /// Hides the keys of an entry from the `lengths[entry]`-th on: padding on the right.
    pub fn lengths(lengths: Vec<usize>) -> Self {
        Rule::Lengths { lengths }.into()
    }

    /// Hides the first `padding[entry]` keys of an entry: padding on the left.
    pub fn left_padding(padding: Vec<usize>) -> Self {
        Rule::LeftPadding { padding }.into()
    }

    /// Hides the tokens of one document from those of another, in self-attention over documents
    /// packed into one sequence: `ids[entry][token]`.
    pub fn segments(ids: Vec<Vec<u32>>) -> Self {
        Self::cross_segments(ids.clone(), ids)
    }

    /// Hides keys from queries of another id: `query[entry][i]` and `key[entry][j]`.
    pub fn cross_segments(query: Vec<Vec<u32>>, key: Vec<Vec<u32>>) -> Self {
        Rule::Segments { query, key }.into()
    }

    /// Hides the future, but for the first `lengths[entry]` keys, which every query sees (prefix
    /// LM).
    pub fn prefix(lengths: Vec<usize>) -> Self {
        Rule::Prefix { lengths, offset: Offset::BottomRight }.into()
    }

    /// Hides what is not in the query's own chunk of `size` positions; not causal by itself.
    pub fn chunked(size: usize) -> Self {
        Rule::Chunked { size, offset: Offset::BottomRight }.into()
    }

    /// Hides the pairs where the tensor is `true` (the sense of Burn's masks and of PyTorch's
    /// `MultiheadAttention`): `[seq_q, seq_k]`, `[batch, seq_q, seq_k]` or `[batch, n_heads, seq_q,
    /// seq_k]`, where any axis may be 1.
    pub fn block(pairs: impl Into<DensePairs<B>>) -> Self {
        Self::named("mask.block", pairs)
    }

    /// Hides the pairs where the tensor is `false` (the sense of PyTorch's
    /// `scaled_dot_product_attention`, Flax, Keras and Hugging Face); shapes as of
    /// [`block`](Self::block).
    pub fn keep(pairs: impl Into<DensePairs<B>>) -> Self {
        Self::named("mask.keep", pairs.into().inverted())
    }

    /// Hides the keys where the tensor is `true` from every query: `[batch, seq_k]`, where any axis
    /// may be 1.
    pub fn block_keys(keys: Tensor<B, 2, Bool>) -> Self {
        Self::named("mask.block_keys", DensePairs::keys(keys, false))
    }

    /// Hides the keys where the tensor is `false` from every query: `[batch, seq_k]`, where any
    /// axis may be 1.
    pub fn keep_keys(keys: Tensor<B, 2, Bool>) -> Self {
        Self::named("mask.keep_keys", DensePairs::keys(keys.bool_not(), false))
    }

    /// Hides the pairs for which `hidden(entry, head, query, key)` is true, as a tensor of shape
    /// `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1. For what no rule says; a rule
    /// costs no memory and lets blocks be skipped.
    pub fn from_fn(
        shape: [usize; 4],
        device: &B::Device,
        hidden: impl Fn(usize, usize, usize, usize) -> bool,
    ) -> Self {
        let [_, n_heads, seq_q, seq_k] = shape;
        let place = |at: usize| {
            let (row, head) = (at / seq_k, at / seq_k / seq_q);
            hidden(head / n_heads, head % n_heads, row % seq_q, at % seq_k)
        };
        let pairs = (0..shape.iter().product()).map(place).collect();
        let pairs = Tensor::<B, 4, Bool>::from_data(TensorData::new(pairs, shape), device);
        Self::named("mask.from_fn", pairs)
    }

    /// Hides where the tensor is true; errors call it `name`.
    pub(crate) fn named(name: &'static str, pairs: impl Into<DensePairs<B>>) -> Self {
        Self { rules: Vec::new(), dense: vec![DenseMask::new(name, pairs.into())] }
    }

    /// [`block_keys`](Self::block_keys) of exactly `[batch, seq_k]`, as `burn::nn` calls it.
    pub(crate) fn mask_pad(keys: Tensor<B, 2, Bool>) -> Self {
        Self::named("mask_pad", DensePairs::keys(keys, true))
    }

    /// [`block`](Self::block) of three axes, as `burn::nn` calls it.
    pub(crate) fn mask_attn(pairs: Tensor<B, 3, Bool>) -> Self {
        Self::named("mask_attn", pairs)
    }

    /// Hides what either hides.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self.dense.extend(other.dense);
        self
    }

    /// The rules, without the Boolean tensors.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there is neither a rule nor a tensor; a mask that has some may still hide nothing.
    pub fn is_none(&self) -> bool {
        self.rules.is_empty() && self.dense.is_empty()
    }

    /// The mask with its tensors on this device. Rules are on none.
    #[must_use]
    pub fn to_device(mut self, device: &B::Device) -> Self {
        for mask in &mut self.dense {
            mask.hidden = mask.hidden.clone().to_device(device);
        }
        self
    }

    /// The Boolean tensors, `true` where hidden, with the names that errors call them by.
    pub(crate) fn dense_masks(&self) -> impl Iterator<Item = (&'static str, &Tensor<B, 4, Bool>)> {
        self.dense.iter().map(|mask| (mask.name, &mask.hidden))
    }
}

// By hand: a derive would ask for `B: Default`.
impl<B: Backend> Default for Mask<B> {
    fn default() -> Self {
        Self::none()
    }
}

impl<B: Backend> From<Rule> for Mask<B> {
    fn from(rule: Rule) -> Self {
        Self::from_iter([rule])
    }
}

impl<B: Backend> FromIterator<Rule> for Mask<B> {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self { rules: rules.into_iter().collect(), dense: Vec::new() }
    }
}

/// A line per rule, in words, and one per Boolean tensor, by its shape.
impl<B: Backend> fmt::Display for Mask<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(Rule::to_string);
        let dense = self.dense.iter().map(DenseMask::to_string);
        let lines: Vec<_> = rules.chain(dense).collect();
        f.write_str(if lines.is_empty() { "nothing is hidden" } else { "" })?;
        f.write_str(&lines.join("\n"))
    }
}
