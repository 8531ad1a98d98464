//! Where the gradient of a bias is summed up.
//!
//! It has the bias' own sizes, so that what belongs to a repeated axis is added. A bias with rows (a
//! number for each query) gets its rows from the tasks that have these queries; entries and heads that
//! share a row come one after the other, in waves. The rows of a bias without them are as short as the
//! keys, so each head has its own and they are added at the end.

use super::add;
use crate::Real;
use crate::call::Sizes;

/// Which sums there are, for a bias of certain sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BiasPlan {
    /// `[batch or 1, n_heads or 1, seq_q or 1, seq_k or 1]`, if there is a bias.
    dims: Option<[usize; 4]>,
    seq_q: usize,
    group: usize,
}

impl BiasPlan {
    pub(crate) fn new(dims: Option<[usize; 4]>, sizes: &Sizes) -> Self {
        Self { dims, seq_q: sizes.seq_q, group: sizes.group() }
    }

    /// Numbers of the gradient.
    pub(crate) fn len(&self) -> usize {
        self.dims.map_or(0, |dims| dims.iter().product())
    }

    /// Whether the gradient has a row for each query.
    pub(crate) fn has_rows(&self) -> bool {
        self.dims.is_some_and(|[_, _, rows, _]| rows > 1 || (rows == 1 && self.seq_q == 1))
    }

    /// Numbers in a row.
    pub(crate) fn row_width(&self) -> usize {
        self.dims.map_or(0, |[.., columns]| columns)
    }

    /// Which of a task's heads has its own numbers.
    pub(crate) fn slot(&self, head_of_group: usize) -> usize {
        if self.has_heads() { head_of_group } else { 0 }
    }

    fn has_heads(&self) -> bool {
        self.dims.is_some_and(|[_, heads, ..]| heads > 1)
    }

    /// How many heads of a task have numbers of their own.
    pub(crate) fn slots(&self) -> usize {
        if self.has_heads() { self.group } else { 1 }
    }

    /// The row of entry, head and query.
    pub(crate) fn row(&self, [b, h, i]: [usize; 3]) -> usize {
        let [batch, heads, rows, _] = self.dims.expect("asked only where there is a bias");
        let at = |x: usize, dim: usize| if dim == 1 { 0 } else { x };
        (at(b, batch) * heads + at(h, heads)) * rows + at(i, rows)
    }

    /// Numbers that a task without rows sums up by itself.
    pub(crate) fn partial_len(&self) -> usize {
        if self.dims.is_some() && !self.has_rows() { self.slots() * self.row_width() } else { 0 }
    }

    /// Entries and key heads, those side by side that share no row.
    pub(crate) fn waves(&self, sizes: &Sizes) -> Vec<Vec<[usize; 2]>> {
        let &Sizes { batch, n_kv_heads, .. } = sizes;
        let all = (0..batch).flat_map(|b| (0..n_kv_heads).map(move |g| [b, g]));
        let Some([entries, heads, ..]) = self.dims.filter(|_| self.has_rows()) else {
            return vec![all.collect()];
        };
        let (by_entry, by_head) = (entries == 1, heads == 1);
        let mut waves = vec![
            Vec::new();
            if by_entry { batch } else { 1 } * if by_head { n_kv_heads } else { 1 }
        ];
        for [b, g] in all {
            let wave = match (by_entry, by_head) {
                (true, true) => b * n_kv_heads + g,
                (true, false) => b,
                (false, true) => g,
                (false, false) => 0,
            };
            waves[wave].push([b, g]);
        }
        waves
    }

    /// Adds what a task without rows summed up.
    pub(crate) fn add<T: Real>(
        &self,
        to: &mut [T],
        [b, g]: [usize; 2],
        partial: &[T],
        sizes: &Sizes,
    ) {
        if self.partial_len() == 0 {
            return;
        }
        for (slot, partial) in partial.chunks_exact(self.row_width()).enumerate() {
            let row = self.row([b, g * sizes.group() + slot, 0]);
            add(&mut to[row * self.row_width()..], partial);
        }
    }
}
