//! Rows of four keys at a time: the row that they meet is read once, and their sums over lanes are taken
//! together.

use std::ops::Range;

use crate::simd::{Lanes, Simd};
use crate::{Real, View};

/// The rows of keys or values of an entry, where they lie if the features of each lie side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip<'a, T> {
    data: &'a [T],
    /// Where the first row of the first head starts.
    start: isize,
    /// From key to key, and from head to head.
    strides: [isize; 2],
    width: usize,
    /// Whether all follow one another: the heads of a key, then those of the next.
    packed: bool,
}

impl<'a, T: Real> Strip<'a, T> {
    /// Those of some keys of an entry, copied to `scratch` if they have to be.
    pub(super) fn new(
        view: &View<'a, T, 4>,
        b: usize,
        keys: Range<usize>,
        scratch: &'a mut Vec<T>,
    ) -> Self {
        let [.., n_heads, width] = view.dims();
        let row_by_row = [n_heads * width, width].map(|stride| stride as isize);
        if let (data, start, [_, key, head, 1]) = view.parts([b, keys.start, 0, 0]) {
            let strides = [key, head];
            return Self { data, start, strides, width, packed: strides == row_by_row };
        }
        scratch.resize(keys.len() * n_heads * width, T::default());
        for (row, to) in scratch.chunks_exact_mut(width).enumerate() {
            view.copy([b, keys.start + row / n_heads, row % n_heads, 0], 0..width, to);
        }
        Self { data: scratch, start: 0, strides: row_by_row, width, packed: true }
    }

    #[inline(always)]
    fn at(&self, key: usize, head: usize) -> usize {
        let [down, along] = self.strides;
        (self.start + key as isize * down + head as isize * along) as usize
    }

    /// The row of a head and of a key, which counts from the first.
    #[inline(always)]
    pub(super) fn row(&self, key: usize, head: usize) -> &'a [T] {
        &self.data[self.at(key, head)..][..self.width]
    }

    /// The rows of a head and of keys, at most four; of fewer, the last is there several times.
    ///
    /// Memory hands out fastest what lies in a row, and four keys of a head do not. So each head of a
    /// step has its share of the next four keys fetched, in the order in which they lie.
    #[inline(always)]
    pub(super) fn four<S: Simd<T>>(
        &self,
        simd: S,
        keys: &Range<usize>,
        head: usize,
    ) -> [&'a [T]; 4] {
        let (first, last) = (keys.start, keys.end - 1);
        if self.packed {
            let next = self.at(first + 4, 4 * head);
            simd.prefetch(self.data.get(next..next + 4 * self.width).unwrap_or_default());
        }
        [
            self.row(first, head),
            self.row(last.min(first + 1), head),
            self.row(last.min(first + 2), head),
            self.row(last, head),
        ]
    }
}

/// The products of a row with four others, all as long.
#[inline(always)]
pub(super) fn dots<T: Real, S: Simd<T>>(simd: S, row: &[T], others: [&[T]; 4]) -> [T; 4] {
    let zero = simd.splat(T::default());
    let [mut sum_a, mut sum_b, mut sum_c, mut sum_d] = [zero; 4];
    let [a, b, c, d] = others;
    let all = row.chunks_exact(S::LANES).zip(a.chunks_exact(S::LANES));
    let all = all.zip(b.chunks_exact(S::LANES)).zip(c.chunks_exact(S::LANES));
    for ((((row, a), b), c), d) in all.zip(d.chunks_exact(S::LANES)) {
        let row = simd.load_from(row);
        sum_a = simd.fma(row, simd.load_from(a), sum_a);
        sum_b = simd.fma(row, simd.load_from(b), sum_b);
        sum_c = simd.fma(row, simd.load_from(c), sum_c);
        sum_d = simd.fma(row, simd.load_from(d), sum_d);
    }
    let mut totals = totals(simd, [sum_a, sum_b, sum_c, sum_d]);
    let rest = row.len() / S::LANES * S::LANES;
    for at in rest..row.len() {
        for n in 0..4 {
            totals[n] = totals[n] + row[at] * others[n][at];
        }
    }
    totals
}

/// The sum of the lanes of each vector.
#[inline(always)]
fn totals<T: Real, S: Simd<T>>(simd: S, [a, b, c, d]: [S::Vector; 4]) -> [T; 4] {
    let halves = |[low, high]: [S::Vector; 2]| simd.add(low, high);
    let (ab, cd) = (halves(simd.interleave(a, b)), halves(simd.interleave(c, d)));
    // a c b d a c b d ..
    let all = halves(simd.interleave(ab, cd));
    let mut lanes = S::Lanes::all(T::default());
    simd.store(all, &mut lanes);
    let numbers = lanes.numbers_mut();
    let mut width = S::LANES / 2;
    while width >= 4 {
        for n in 0..width {
            numbers[n] = numbers[n] + numbers[n + width];
        }
        width /= 2;
    }
    [numbers[0], numbers[2], numbers[1], numbers[3]]
}

/// Adds four rows, each times a number; all are as long.
#[inline(always)]
pub(super) fn add_four<T: Real, S: Simd<T>>(simd: S, to: &mut [T], from: [&[T]; 4], times: [T; 4]) {
    let [a, b, c, d] = from;
    let (w_a, w_b) = (simd.splat(times[0]), simd.splat(times[1]));
    let (w_c, w_d) = (simd.splat(times[2]), simd.splat(times[3]));
    let rest = to.len() / S::LANES * S::LANES;
    let all = to.chunks_exact_mut(S::LANES).zip(a.chunks_exact(S::LANES));
    let all = all.zip(b.chunks_exact(S::LANES)).zip(c.chunks_exact(S::LANES));
    for ((((to, a), b), c), d) in all.zip(d.chunks_exact(S::LANES)) {
        let sum = simd.fma(w_a, simd.load_from(a), simd.load_from(to));
        let sum = simd.fma(w_b, simd.load_from(b), sum);
        let sum = simd.fma(w_c, simd.load_from(c), sum);
        simd.store_to(simd.fma(w_d, simd.load_from(d), sum), to);
    }
    for at in rest..to.len() {
        for n in 0..4 {
            to[at] = to[at] + times[n] * from[n][at];
        }
    }
}

/// Adds a row times a number; both are as long.
#[inline(always)]
pub(super) fn add_one<T: Real, S: Simd<T>>(simd: S, to: &mut [T], from: &[T], times: T) {
    let factor = simd.splat(times);
    let rest = to.len() / S::LANES * S::LANES;
    let all = to.chunks_exact_mut(S::LANES).zip(from.chunks_exact(S::LANES));
    for (to, from) in all {
        simd.store_to(simd.fma(factor, simd.load_from(from), simd.load_from(to)), to);
    }
    for at in rest..to.len() {
        to[at] = to[at] + times * from[at];
    }
}

/// The sum of rows, each times a number, over whatever was there; all are as long.
#[inline(always)]
pub(super) fn sum_of<'a, T: Real, S: Simd<T>>(
    simd: S,
    to: &mut [T],
    mut rows: impl Iterator<Item = (&'a [T], T)>,
) {
    let Some((first, times)) = rows.next() else { return to.fill(T::default()) };
    let factor = simd.splat(times);
    let rest = to.len() / S::LANES * S::LANES;
    let all = to.chunks_exact_mut(S::LANES).zip(first.chunks_exact(S::LANES));
    for (to, from) in all {
        simd.store_to(simd.mul(factor, simd.load_from(from)), to);
    }
    for at in rest..to.len() {
        to[at] = times * first[at];
    }
    for (row, times) in rows {
        add_one(simd, to, row, times);
    }
}
