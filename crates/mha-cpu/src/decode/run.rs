//! The scores of few queries against a run of keys.

use std::ops::Range;

use super::four::{Strip, dots};
use crate::call::Sizes;
use crate::seen::Seen;
use crate::simd::{Lanes, Simd};
use crate::tile::{KEYS, Tiles, ranges};
use crate::{Real, View};

/// Some keys of an entry, all heads of them: what a task reads.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) b: usize,
    pub(super) keys: Range<usize>,
}

/// Cuts the keys of all entries into runs, by the sizes alone: enough of them, none so long that one is
/// waited for, and as many for each entry.
pub(super) fn runs(sizes: &Sizes) -> Vec<Run> {
    const LONGEST: usize = 512;
    let &Sizes { batch, n_keys, .. } = sizes;
    let len = n_keys.div_ceil(8).next_multiple_of(16).clamp(64, LONGEST);
    (0..batch).flat_map(|b| ranges(0..n_keys, len).map(move |keys| Run { b, keys })).collect()
}

/// The rows of an entry, as they are in the queries or in the gradient of their context: `[rows,
/// features]`.
pub(super) fn rows_of<T: Real>(view: &View<'_, T, 4>, b: usize) -> Vec<T> {
    let [_, seq_q, n_heads, width] = view.dims();
    let mut all = vec![T::default(); n_heads * seq_q * width];
    for (row, to) in all.chunks_exact_mut(width.max(1)).enumerate() {
        view.copy([b, row % seq_q, row / seq_q, 0], 0..width, to);
    }
    all
}

/// The queries of an entry and their scores with the keys of a tile. Rows are the queries of all heads:
/// `[n_heads, seq_q]`.
pub(super) struct Scores<T: Real, S: Simd<T>> {
    /// `[rows, head_dim]`
    query: Vec<T>,
    /// `[rows, keys in vectors]`; -∞ where a key is hidden, or none is there.
    scores: Vec<S::Lanes>,
    /// With a softcap the derivative of what it does to each score, likewise.
    slopes: Vec<S::Lanes>,
    extra: Vec<[S::Lanes; 1]>,
    /// For each head and key a bit per query; empty where all is seen.
    bits: Vec<u32>,
    /// Keys that there is room for.
    height: usize,
    /// Keys of the tile.
    count: usize,
    seq_q: usize,
}

impl<T: Real, S: Simd<T>> Scores<T, S> {
    /// With room for `n_keys` keys or a tile of them.
    pub(super) fn new(tiles: &Tiles<'_, T>, b: usize, n_keys: usize) -> Self {
        let call = tiles.call;
        let Sizes { seq_q, n_heads, .. } = tiles.sizes;
        let n_rows = n_heads * seq_q;
        let height = KEYS.min(n_keys.next_multiple_of(S::LANES));
        let vectors = height / S::LANES;
        let zero = S::Lanes::all(T::default());
        let len = |needed: bool, len: usize| if needed { len } else { 0 };
        Self {
            query: rows_of(&call.query, b),
            scores: vec![zero; n_rows * vectors],
            slopes: vec![zero; len(call.softcap.is_some(), n_rows * vectors)],
            extra: vec![[zero; 1]; len(!tiles.extras.is_none(), height)],
            bits: vec![0; len(!call.mask.is_none(), n_heads * height)],
            height,
            count: 0,
            seq_q,
        }
    }

    /// The scores with at most as many keys as there is room for, but for their unit.
    #[inline(always)]
    pub(super) fn compute(&mut self, simd: S, tiles: &Tiles<'_, T>, b: usize, keys: &Range<usize>) {
        let Sizes { n_kv_heads, head_dim, .. } = tiles.sizes;
        let none = S::Lanes::all(T::from_f64(f64::NEG_INFINITY));
        let queries = 0..self.seq_q;
        for (h, bits) in self.bits.chunks_exact_mut(self.height).enumerate() {
            match tiles.masks.see([b, h], &queries, keys, bits) {
                Seen::Nothing => bits.fill(0),
                Seen::Everything => bits.fill(u32::MAX),
                Seen::Some => {}
            }
        }
        self.scores.fill(none);
        self.count = keys.len();
        let per_head = tiles.sizes.rows_per_key_head();
        let mut scratch = Vec::new();
        let strip = Strip::new(&tiles.call.key, b, keys.clone(), &mut scratch);
        for some in ranges(0..keys.len(), 4) {
            for g in 0..n_kv_heads {
                let four = strip.four(simd, &some, g);
                for row in g * per_head..(g + 1) * per_head {
                    let query = &self.query[row * head_dim..][..head_dim];
                    let products = dots(simd, query, four);
                    if self.sees_four(row, some.start) {
                        *self.four_mut(row, some.start) = products;
                        continue;
                    }
                    for (n, product) in some.clone().zip(products) {
                        if self.sees(row, n) {
                            *self.score_mut(row, n) = product;
                        }
                    }
                }
            }
        }
        let scoring = tiles.scoring();
        if scoring.is_plain() {
            return;
        }
        for row in 0..tiles.sizes.n_heads * self.seq_q {
            let [h, i] = tiles.sizes.head_and_query(row);
            if i == 0 && !self.extra.is_empty() {
                tiles.extras.write::<S, 1>([b, h], &queries, keys, &mut self.extra);
            }
            for n in 0..keys.len() {
                if !self.sees(row, n) {
                    continue;
                }
                let bias = self.extra.get(n).map(|extra| extra[0].numbers()[i]);
                let product = self.score(row, n);
                *self.score_mut(row, n) = scoring.score(product, bias);
                let vector = self.vector(row, n);
                if let Some(slopes) = self.slopes.get_mut(vector) {
                    slopes.numbers_mut()[n % S::LANES] = scoring.slope(product);
                }
            }
        }
    }

    /// Whether a row sees key `n` of the tile.
    #[inline(always)]
    pub(super) fn sees(&self, row: usize, n: usize) -> bool {
        self.bits.is_empty() || {
            let bits = self.bits[row / self.seq_q * self.height + n];
            bits >> (row % self.seq_q) & 1 == 1
        }
    }

    /// Whether a row sees key `n` of the tile and the three behind it, and they are there.
    #[inline(always)]
    pub(super) fn sees_four(&self, row: usize, n: usize) -> bool {
        n + 4 <= self.count && (self.bits.is_empty() || (n..n + 4).all(|n| self.sees(row, n)))
    }

    /// The scores of a row with key `n`, a multiple of 4, and the three behind it.
    #[inline(always)]
    pub(super) fn four(&self, row: usize, n: usize) -> [T; 4] {
        let numbers = self.scores[self.vector(row, n)].numbers();
        *numbers[n % S::LANES..].first_chunk().expect("vectors of four and more")
    }

    #[inline(always)]
    fn four_mut(&mut self, row: usize, n: usize) -> &mut [T; 4] {
        let vector = self.vector(row, n);
        let numbers = self.scores[vector].numbers_mut();
        numbers[n % S::LANES..].first_chunk_mut().expect("vectors of four and more")
    }

    /// The vector that has the score of a row with key `n` of the tile.
    #[inline(always)]
    fn vector(&self, row: usize, n: usize) -> usize {
        row * (self.height / S::LANES) + n / S::LANES
    }

    #[inline(always)]
    pub(super) fn score(&self, row: usize, n: usize) -> T {
        self.scores[self.vector(row, n)].numbers()[n % S::LANES]
    }

    #[inline(always)]
    fn score_mut(&mut self, row: usize, n: usize) -> &mut T {
        let vector = self.vector(row, n);
        &mut self.scores[vector].numbers_mut()[n % S::LANES]
    }

    /// The scores of each row.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [S::Lanes]> {
        self.scores.chunks_exact_mut(self.height / S::LANES)
    }

    /// With a softcap, how much a score with key `n` changes with the product that it comes from.
    pub(super) fn slope(&self, row: usize, n: usize) -> Option<T> {
        let slopes = self.slopes.get(self.vector(row, n))?;
        Some(slopes.numbers()[n % S::LANES])
    }
}
