//! One attention call, and its check.

use std::ops::Range;

use rayon::prelude::*;

use crate::{Dropout, Error, Mask, Positions, Real, Relative, View};

/// What one call computes with: forward and backward are given the same.
///
/// # Shapes
///
/// - `query`: `[batch, seq_q, n_heads, head_dim]`
/// - `key`: `[batch, n_keys, n_kv_heads, head_dim]`, where `n_kv_heads` divides `n_heads`; query head
///   `h` reads key head `h / (n_heads / n_kv_heads)`
/// - `value`: `[batch, n_keys, n_kv_heads, value_dim]`
///
/// # Example
///
/// ```
/// use mha_cpu::{Call, View, forward};
///
/// // One query, equal scores for two keys: the average of the values.
/// let (zeros, values) = ([0.0_f32; 2], [1.0_f32, 3.0]);
/// let call = Call::new(
///     View::contiguous(&zeros, [1, 1, 1, 1])?,
///     View::contiguous(&zeros, [1, 2, 1, 1])?,
///     View::contiguous(&values, [1, 2, 1, 1])?,
/// );
/// assert_eq!(forward(&call)?.context, [2.0]);
/// # Ok::<(), mha_cpu::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call<'a, T> {
    /// The queries.
    pub query: View<'a, T, 4>,
    /// The keys.
    pub key: View<'a, T, 4>,
    /// The values.
    pub value: View<'a, T, 4>,
    /// How many of the keys, the last ones, every query sees, without mask, bias and place.
    pub n_memory: usize,
    /// What the products of query and key are multiplied by; 1/√head_dim by default.
    pub scale: f64,
    /// If set, scaled scores s become c tanh(s / c), c > 0.
    pub softcap: Option<f64>,
    /// Which pairs count.
    pub mask: Mask<'a>,
    /// Added to the scaled and capped scores; hides where it is -∞: `[batch or 1, n_heads or 1,
    /// seq_q or 1, seq_k or 1]`, where `seq_k` is `n_keys - n_memory`.
    pub bias: Option<View<'a, T, 4>>,
    /// Adds -slope · |distance|, with a slope for each head.
    pub alibi: Option<&'a [f64]>,
    /// Adds a bias for each distance.
    pub relative: Option<Relative<'a, T>>,
    /// What distances are counted from.
    pub positions: Positions,
    /// A logit for each head whose exponential joins the denominator of every softmax.
    pub sink: Option<&'a [T]>,
    /// Which weights are dropped.
    pub dropout: Option<Dropout>,
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

    /// The query heads that read key head `g`.
    pub(crate) fn heads_of(&self, g: usize) -> Range<usize> {
        g * self.group()..(g + 1) * self.group()
    }

    /// Their rows, where rows are the queries of all heads: `[n_heads, seq_q]`.
    pub(crate) fn rows_of(&self, g: usize) -> Range<usize> {
        let rows = self.rows_per_key_head();
        g * rows..(g + 1) * rows
    }

    /// How many such rows read each key head.
    pub(crate) fn rows_per_key_head(&self) -> usize {
        self.group() * self.seq_q
    }

    /// Head and query of such a row.
    pub(crate) fn head_and_query(&self, row: usize) -> [usize; 2] {
        [row / self.seq_q, row % self.seq_q]
    }

    /// Runs tasks, on all cores unless handing them out would take longer than computing them; the
    /// results are in the tasks' order.
    pub(crate) fn run<I: Send, R: Send>(
        &self,
        tasks: Vec<I>,
        task: impl Fn(I) -> R + Send + Sync,
    ) -> Vec<R> {
        if self.is_small() {
            return tasks.into_iter().map(task).collect();
        }
        tasks.into_par_iter().with_max_len(1).map(task).collect()
    }

    fn is_small(&self) -> bool {
        let pairs =
            self.batch as f64 * self.n_heads as f64 * self.seq_q as f64 * self.n_keys as f64;
        pairs * (self.head_dim + self.value_dim) as f64 <= 700_000.0
    }
}

impl<'a, T: Real> Call<'a, T> {
    /// A call without options.
    pub fn new(query: View<'a, T, 4>, key: View<'a, T, 4>, value: View<'a, T, 4>) -> Self {
        let [.., head_dim] = query.dims();
        Self {
            query,
            key,
            value,
            n_memory: 0,
            scale: 1.0 / (head_dim as f64).sqrt(),
            softcap: None,
            mask: Mask::default(),
            bias: None,
            alibi: None,
            relative: None,
            positions: Positions::default(),
            sink: None,
            dropout: None,
        }
    }

    /// The sizes, if all parts fit.
    pub(crate) fn check(&self) -> Result<Sizes, Error> {
        let [batch, seq_q, n_heads, head_dim] = self.query.dims();
        let [_, n_keys, n_kv_heads, _] = self.key.dims();
        let [.., value_dim] = self.value.dims();
        if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) || n_heads == 0 {
            return Err(Error::Value {
                name: "n_kv_heads",
                expected: "be a divisor of n_heads, and neither be 0",
                actual: format!("{n_kv_heads} for {n_heads}"),
            });
        }
        for (name, features) in [("head_dim", head_dim), ("value_dim", value_dim)] {
            if features == 0 {
                let (expected, actual) = ("be positive", features.to_string());
                return Err(Error::Value { name, expected, actual });
            }
        }
        let axes = "batch, n_keys, n_kv_heads, features";
        shape("key", axes, &[batch, n_keys, n_kv_heads, head_dim], &self.key.dims())?;
        shape("value", axes, &[batch, n_keys, n_kv_heads, value_dim], &self.value.dims())?;
        let Some(seq_k) = n_keys.checked_sub(self.n_memory) else {
            return Err(Error::Value {
                name: "n_memory",
                expected: "be at most n_keys",
                actual: format!("{} of {n_keys}", self.n_memory),
            });
        };
        let finite = |name, value: f64, expected, ok: bool| {
            let actual = format!("{value:?}"); // with an exponent where it is long
            if ok { Ok(()) } else { Err(Error::Value { name, expected, actual }) }
        };
        finite("scale", self.scale, "be finite", self.scale.is_finite())?;
        if let Some(cap) = self.softcap {
            finite("softcap", cap, "be positive and finite", cap.is_finite() && cap > 0.0)?;
        }
        if let Some(Dropout { probability, .. }) = self.dropout {
            let ok = (0.0..1.0).contains(&probability);
            finite("dropout", probability, "be in [0, 1)", ok)?;
        }
        let pairs = [batch, n_heads, seq_q, seq_k];
        if let Some(runs) = self.mask.runs {
            runs.check(batch, seq_q, seq_k)?;
        }
        for segments in &self.mask.segments {
            segments.check(batch, seq_q, seq_k)?;
        }
        for dense in &self.mask.dense {
            dense.broadcast("mask.dense", PAIRS, pairs)?;
        }
        if let Some(bias) = self.bias {
            bias.broadcast("bias", PAIRS, pairs)?;
        }
        if let Some(slopes) = self.alibi {
            shape("alibi", "n_heads", &[n_heads], &[slopes.len()])?;
        }
        if let Some(relative) = &self.relative {
            let expected = n_heads * relative.width();
            shape("relative", "n_heads * (2 reach + 1)", &[expected], &[relative.table.len()])?;
        }
        if let Some(sink) = self.sink {
            shape("sink", "n_heads", &[n_heads], &[sink.len()])?;
        }
        let offsets = self.positions.offsets.len();
        if offsets != 1 {
            shape("positions.offsets", "batch or 1", &[batch], &[offsets])?;
        }
        Ok(Sizes { batch, seq_q, n_keys, seq_k, n_heads, n_kv_heads, head_dim, value_dim })
    }
}

/// The axes of what belongs to pairs of query and key.
pub(crate) const PAIRS: &str = "batch, n_heads, seq_q, seq_k; any may be 1";

pub(crate) fn shape(
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
