//! One attention call, and its check.

use std::ops::Range;

use cubecl::server::Handle;

use crate::Error;

/// What the tensors of a call hold.
///
/// # Example
///
/// ```
/// assert_eq!(mha_gpu::Element::F16.size(), 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32 bits.
    F32,
    /// 16 bits; sums are of 32.
    F16,
}

impl Element {
    /// In bytes.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// A tensor of four axes on the device; strides count elements, and an axis may be repeated by a
/// stride of 0.
///
/// # Example
///
/// ```
/// use cubecl::server::Handle;
/// use mha_gpu::Strided;
///
/// fn all_rows(handle: Handle) -> Strided {
///     let rows = Strided::contiguous(handle, [2, 5, 3, 8]);
///     assert_eq!(rows.strides, [120, 24, 8, 1]);
///     rows
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Strided {
    /// Where it starts.
    pub handle: Handle,
    /// The sizes of its axes.
    pub dims: [usize; 4],
    /// How many elements apart neighbours are.
    pub strides: [usize; 4],
}

impl Strided {
    /// A tensor in row-major order.
    pub fn contiguous(handle: Handle, dims: [usize; 4]) -> Self {
        let [_, seq, heads, features] = dims;
        let strides = [seq * heads * features, heads * features, features, 1];
        Self { handle, dims, strides }
    }

    /// How many elements lie between its first and its last, with both.
    pub(crate) fn reach(&self) -> usize {
        let last = self.dims.iter().zip(&self.strides).map(|(dim, stride)| (dim - 1) * stride);
        last.sum::<usize>() + 1
    }
}

/// What one call computes with: forward and backward are given the same.
///
/// # Shapes
///
/// - `query`: `[batch, seq_q, n_heads, head_dim]`
/// - `key`: `[batch, n_keys, n_kv_heads, head_dim]`, where `n_kv_heads` divides `n_heads`; query head
///   `h` reads key head `h / (n_heads / n_kv_heads)`
/// - `value`: `[batch, n_keys, n_kv_heads, value_dim]`
///
/// The example is that of the [crate](crate).
#[derive(Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// What query, key and value hold.
    pub element: Element,
    /// The queries.
    pub query: Strided,
    /// The keys.
    pub key: Strided,
    /// The values.
    pub value: Strided,
    /// How many of the keys, the last ones, every query sees, without mask, bias and place.
    pub n_memory: usize,
    /// What the products of query and key are multiplied by; 1/√head_dim by default.
    pub scale: f64,
    /// If set, scaled scores s become c tanh(s / c), c > 0.
    pub softcap: Option<f64>,
    /// The keys that each query sees by rules, if not all of them.
    pub visible: Option<Visible<'a>>,
    /// Pairs of different ids are hidden.
    pub segments: Vec<Segments<'a>>,
    /// Masks: `[batch or 1, n_heads or 1, seq_q or 1, seq_k or 1]`, where `seq_k` is `n_keys -
    /// n_memory`.
    pub hidden: Vec<Hidden>,
    /// f32, added to the scaled and capped scores; hides where it is -∞. Its axes are a mask's.
    pub bias: Option<Strided>,
    /// Adds -slope · |distance|, with a slope for each head.
    pub alibi: Option<&'a [f64]>,
    /// Adds a bias for each distance.
    pub relative: Option<Relative>,
    /// What distances are counted from.
    pub positions: Positions,
    /// What joins the denominator of every softmax.
    pub sink: Sink,
    /// Which weights are dropped.
    pub dropout: Option<Dropout>,
}

/// The keys that each query sees, as sorted runs that do not overlap.
///
/// # Example
///
/// ```
/// // Causal: query i sees the keys up to i.
/// let row = |_, i| vec![0..i + 1];
/// let causal = mha_gpu::Visible { entries: 1, row: &row };
/// assert_eq!((causal.row)(0, 3), [0..4]);
/// ```
#[derive(Clone, Copy)]
pub struct Visible<'a> {
    /// 1 if all entries of the batch are alike, else as many as they are.
    pub entries: usize,
    /// What a query, the second argument, of an entry, the first, sees.
    pub row: &'a dyn Fn(usize, usize) -> Vec<Range<usize>>,
}

impl std::fmt::Debug for Visible<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visible").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// An id for each query and key; pairs of different ids are hidden.
///
/// # Example
///
/// ```
/// // Two documents packed into one sequence of five tokens.
/// let ids = vec![vec![0, 0, 1, 1, 1]];
/// let segments = mha_gpu::Segments { query: &ids, key: &ids };
/// assert_eq!(segments.query[0][4], segments.key[0][2]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Segments<'a> {
    /// `[batch or 1][seq_q]`
    pub query: &'a [Vec<u32>],
    /// `[batch or 1][seq_k]`
    pub key: &'a [Vec<u32>],
}

/// How a device stores truth values.
///
/// # Example
///
/// ```
/// assert_ne!(mha_gpu::Bools::U8, mha_gpu::Bools::U32);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bools {
    /// In bytes.
    U8,
    /// In words.
    U32,
}

/// Pairs that are hidden where it is true.
///
/// # Example
///
/// ```
/// use mha_gpu::{Bools, Hidden, Strided};
///
/// fn padding(mask: Strided) -> Hidden {
///     Hidden { mask, bools: Bools::U32 }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Hidden {
    /// The mask.
    pub mask: Strided,
    /// What it holds.
    pub bools: Bools,
}

/// A bias for each distance, as T5 has: the same for all distances of `reach` and more on one side.
///
/// # Example
///
/// ```
/// use cubecl::server::Handle;
/// use mha_gpu::Relative;
///
/// fn buckets(table: Handle) -> Relative {
///     Relative { table, reach: 128 }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Relative {
    /// f32, `[n_heads, 2 reach + 1]`, row-major.
    pub table: Handle,
    /// The distance from which on nothing changes.
    pub reach: usize,
}

/// The positions of queries and keys, from which distances are counted.
///
/// # Example
///
/// ```
/// // The last of 2 queries stands at the last of 5 keys.
/// let positions = mha_gpu::Positions { offsets: vec![3], ..Default::default() };
/// assert_eq!(positions.gap, 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// The position of query 0 of each entry, or one for all of them.
    pub offsets: Vec<i64>,
    /// Keys from this one on stand `gap` positions further than their number says.
    pub gap_after: usize,
    /// How many positions are left out there.
    pub gap: usize,
}

impl Default for Positions {
    fn default() -> Self {
        Self { offsets: vec![0], gap_after: 0, gap: 0 }
    }
}

/// A logit for each head whose exponential joins the denominator of every softmax.
///
/// # Example
///
/// ```
/// assert!(matches!(mha_gpu::Sink::default(), mha_gpu::Sink::None));
/// ```
#[derive(Debug, Clone, Default)]
pub enum Sink {
    /// Plain softmax.
    #[default]
    None,
    /// 0 for every head.
    Zero,
    /// f32, `[n_heads]`.
    Learned(Handle),
}

/// The dropout of one call.
///
/// # Example
///
/// ```
/// use cubecl::server::Handle;
/// use mha_gpu::Dropout;
///
/// fn a_tenth(seed: Handle) -> Dropout {
///     Dropout { probability: 0.1, seed }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Dropout {
    /// In `[0, 1)`; the other weights are multiplied by 1 / (1 - probability).
    pub probability: f64,
    /// i32, two words of 31 bits; they stay on the device.
    pub seed: Handle,
}

/// The sizes of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) seq_q: usize,
    /// With the memory.
    pub(crate) n_keys: usize,
    /// Without it.
    pub(crate) seq_k: usize,
    pub(crate) n_heads: usize,
    pub(crate) n_kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) value_dim: usize,
}

impl Sizes {
    /// Query heads for each key head.
    pub(crate) fn group(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Queries of all heads and entries.
    pub(crate) fn all_rows(&self) -> usize {
        self.batch * self.n_heads * self.seq_q
    }
}

impl<'a> Call<'a> {
    /// A call without options.
    pub fn new(element: Element, query: Strided, key: Strided, value: Strided) -> Self {
        let [.., head_dim] = query.dims;
        Self {
            element,
            query,
            key,
            value,
            n_memory: 0,
            scale: 1.0 / (head_dim as f64).sqrt(),
            softcap: None,
            visible: None,
            segments: Vec::new(),
            hidden: Vec::new(),
            bias: None,
            alibi: None,
            relative: None,
            positions: Positions::default(),
            sink: Sink::None,
            dropout: None,
        }
    }

    /// The sizes, if all parts fit.
    pub(crate) fn check(&self) -> Result<Sizes, Error> {
        let [batch, seq_q, n_heads, head_dim] = self.query.dims;
        let [_, n_keys, n_kv_heads, _] = self.key.dims;
        let [.., value_dim] = self.value.dims;
        let sizes = [batch, seq_q, n_heads, head_dim, n_keys, n_kv_heads, value_dim];
        if sizes.contains(&0) {
            return Err(Error::NoPairs);
        }
        let axes = "batch, n_keys, n_kv_heads, features";
        shape("key", axes, &[batch, n_keys, n_kv_heads, head_dim], &self.key.dims)?;
        shape("value", axes, &[batch, n_keys, n_kv_heads, value_dim], &self.value.dims)?;
        let whole = n_heads / n_kv_heads * n_kv_heads;
        shape("query", "n_heads, a multiple of n_kv_heads", &[whole.max(n_kv_heads)], &[n_heads])?;
        limit("n_memory", self.n_memory, n_keys)?;
        let seq_k = n_keys - self.n_memory;
        let pairs = [batch, n_heads, seq_q, seq_k];
        let masks = self.hidden.iter().map(|hidden| ("hidden", &hidden.mask));
        for (name, tensor) in masks.chain(self.bias.iter().map(|bias| ("bias", bias))) {
            let fits = |(&dim, &of): (&usize, &usize)| dim == of || dim == 1 && of > 0;
            if !tensor.dims.iter().zip(&pairs).all(fits) {
                let (expected, actual) = (pairs.to_vec(), tensor.dims.to_vec());
                let axes = "batch, n_heads, seq_q, seq_k; any may be 1";
                return Err(Error::Shape { name, axes, expected, actual });
            }
        }
        for tensor in [&self.query, &self.key, &self.value] {
            limit("the number of elements of a tensor", tensor.reach(), INDEX)?;
        }
        let masks = self.hidden.iter().map(|hidden| &hidden.mask);
        masks.chain(&self.bias).try_for_each(|tensor| pairs_fit(tensor.dims))?;
        for segments in &self.segments {
            for (name, ids, n) in
                [("segments.query", segments.query, seq_q), ("segments.key", segments.key, seq_k)]
            {
                let (entries, axes) = (ids.len(), "batch or 1, seq");
                let wrong = ids.iter().map(Vec::len).find(|&len| len != n);
                let expected = [if entries == 1 { 1 } else { batch }, n];
                shape(name, axes, &expected, &[entries, wrong.unwrap_or(n)])?;
            }
        }
        if let Some(slopes) = self.alibi {
            shape("alibi", "n_heads", &[n_heads], &[slopes.len()])?;
        }
        let offsets = self.positions.offsets.len();
        shape(
            "positions.offsets",
            "batch or 1",
            &[if offsets == 1 { 1 } else { batch }],
            &[offsets],
        )?;
        let visible = self.visible.map_or(1, |visible| visible.entries);
        shape("visible", "batch or 1", &[if visible == 1 { 1 } else { batch }], &[visible])?;
        if self.alibi.is_some() || self.relative.is_some() {
            let far = self.positions.offsets.iter().map(|offset| offset.unsigned_abs());
            let far = far.max().unwrap_or(0).saturating_add(self.positions.gap as u64);
            let far = usize::try_from(far).unwrap_or(usize::MAX).saturating_add(seq_q + n_keys);
            limit("the distance of query and key", far, POSITION)?;
        }
        Ok(Sizes { batch, seq_q, n_keys, seq_k, n_heads, n_kv_heads, head_dim, value_dim })
    }
}

/// The largest place in a buffer: places are counted in 32 bits.
pub(crate) const INDEX: usize = u32::MAX as usize;
/// The largest position: distances are i32.
pub(crate) const POSITION: usize = i32::MAX as usize / 2;

/// Whether a mask, or a bias, can be counted through in 32 bits, a mask with whole words for each row.
pub(crate) fn pairs_fit([batch, n_heads, seq_q, seq_k]: [usize; 4]) -> Result<(), Error> {
    let rows = batch * n_heads * seq_q;
    limit("the number of pairs of a mask or bias", rows * seq_k.next_multiple_of(32), INDEX)
}

pub(crate) fn limit(what: &'static str, is: usize, most: usize) -> Result<(), Error> {
    if is <= most { Ok(()) } else { Err(Error::Limit { what, is: is as u64, most: most as u64 }) }
}

fn shape(
    name: &'static str,
    axes: &'static str,
    expected: &[usize],
    actual: &[usize],
) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::Shape { name, axes, expected: expected.to_vec(), actual: actual.to_vec() })
}
