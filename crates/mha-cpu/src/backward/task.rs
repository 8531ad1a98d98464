//! Some queries of the heads that share a key head, against all keys.

use std::ops::Range;

use super::block::Block;
use super::d_bias::BiasPlan;
use super::{OutRows, Shared, add};
use crate::call::Sizes;
use crate::forward::{drop_weights, scores_of};
use crate::product::{Row, add_columns, add_lanes, load, store};
use crate::seen::Seen;
use crate::simd::{Kernel, Lanes, Simd, exp2};
use crate::tile::{KEYS, Padded, ranges, zero_rows};
use crate::transpose::lanes_into_rows;
use crate::{Real, Wanted};

/// What tasks of one key head add up.
#[derive(Debug)]
pub(crate) struct Partial<T> {
    /// `[n_keys, head_dim]`, not yet scaled
    pub(crate) key: Vec<T>,
    /// `[n_keys, value_dim]`
    pub(crate) value: Vec<T>,
    /// `[heads of the group, 2 reach + 1]`
    pub(crate) relative: Vec<T>,
    /// `[heads of the group]`
    pub(crate) sink: Vec<T>,
    /// See [`BiasPlan::partial_len`].
    pub(crate) bias: Vec<T>,
}

impl<T: Real> Partial<T> {
    pub(crate) fn zeros(shared: &Shared<'_, T>, plan: &BiasPlan) -> Self {
        let (tiles, wanted) = (&shared.tiles, &shared.wanted);
        let Sizes { n_keys, head_dim, value_dim, .. } = tiles.sizes;
        let group = tiles.sizes.group();
        let zeros = |wanted: bool, len: usize| vec![T::default(); if wanted { len } else { 0 }];
        let table = tiles.call.relative.map_or(0, |relative| 2 * relative.reach + 1);
        Self {
            key: zeros(wanted.key, n_keys * head_dim),
            value: zeros(wanted.value, n_keys * value_dim),
            relative: zeros(wanted.relative, group * table),
            sink: zeros(wanted.sink, group),
            bias: zeros(wanted.bias, plan.partial_len()),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add(&mut self.key, &other.key);
        add(&mut self.value, &other.value);
        add(&mut self.relative, &other.relative);
        add(&mut self.sink, &other.sink);
        add(&mut self.bias, &other.bias);
    }

    /// Without what has a row for each key.
    pub(crate) fn small(self) -> Self {
        Self { key: Vec::new(), value: Vec::new(), ..self }
    }
}

pub(crate) struct Task<'a, T> {
    pub(crate) shared: &'a Shared<'a, T>,
    /// Entry and key head.
    pub(crate) head: [usize; 2],
    pub(crate) rows: Range<usize>,
    pub(crate) plan: &'a BiasPlan,
    pub(crate) out: &'a OutRows<'a, T>,
}

impl<T: Real> Kernel<T> for Task<'_, T> {
    type Out = Partial<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Partial<T> {
        if self.rows.len() <= S::LANES {
            self.differentiate::<S, M, 1>(simd)
        } else {
            self.differentiate::<S, M, N>(simd)
        }
    }
}

/// The scores of a tile, and what becomes of them: a row for each key.
struct Scratch<T: Real, S: Simd<T>, const N: usize> {
    /// Scores, then weights, then what dropout left of them.
    weights: Vec<Row<T, S, N>>,
    /// dp, then ds.
    d_scores: Vec<Row<T, S, N>>,
    tangents: Vec<Row<T, S, N>>,
    /// Biases, then factors of dropout.
    extra: Vec<Row<T, S, N>>,
    bits: [u32; KEYS],
}

impl<T: Real> Task<'_, T> {
    #[inline(always)]
    fn differentiate<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Partial<T> {
        let Self { shared, head: [b, g], rows, plan, out } = self;
        let Shared { tiles, wanted, .. } = shared;
        let Sizes { n_keys, n_heads, seq_q, head_dim, value_dim, .. } = tiles.sizes;
        let zero = [S::Lanes::all(T::default()); N];
        let lanes = N * S::LANES;
        let group = tiles.sizes.group();
        let mut partial = Partial::zeros(shared, plan);

        let mut blocks = Vec::new();
        for (of_group, h) in (g * group..(g + 1) * group).enumerate() {
            for rows in ranges(rows.clone(), lanes) {
                let d_sink = partial.sink.get_mut(of_group);
                blocks.push(Block::<T, S, N>::new(simd, shared, [b, h], rows, M, d_sink));
            }
        }
        // The rows of the bias' gradient that this task owns: [slot][row].
        let mut d_bias: Vec<&mut [T]> = Vec::new();
        if plan.has_rows() && plan.row_width() > 0 {
            for slot in 0..plan.slots() {
                let own = rows.clone().map(|i| out.bias.take(plan.row([b, g * group + slot, i])));
                d_bias.extend(own);
            }
        }

        let mut key = Padded::new(KEYS, head_dim, M);
        let mut value = Padded::new(KEYS, value_dim, M);
        let needs = |needed: bool| if needed { KEYS } else { 0 };
        let has_extra = !tiles.extras.is_none() || tiles.call.dropout.is_some();
        let mut scratch = Scratch::<T, S, N> {
            weights: zero_rows(needs(true)),
            d_scores: zero_rows(needs(true)),
            tangents: zero_rows(needs(tiles.call.softcap.is_some())),
            extra: zero_rows(needs(has_extra)),
            bits: [0; KEYS],
        };
        // Sums over the queries: [piece of features][key].
        let pieces =
            |width: usize, wanted: bool| if wanted { width.div_ceil(lanes) * KEYS } else { 0 };
        let mut d_key = zero_rows(pieces(head_dim, wanted.key));
        let mut d_value = zero_rows(pieces(value_dim, wanted.value));

        for keys in ranges(0..n_keys, KEYS) {
            let mut copied = false;
            for block in &mut blocks {
                let seen = tiles.masks.see([b, block.h], &block.rows, &keys, &mut scratch.bits);
                if seen == Seen::Nothing {
                    continue;
                }
                if !copied {
                    tiles.copy_keys([b, g], &keys, &mut key, &mut value);
                    d_key.fill(zero);
                    d_value.fill(zero);
                    copied = true;
                }
                let masked = seen == Seen::Some;
                self::weigh::<T, S, M, N>(
                    simd,
                    shared,
                    b,
                    block,
                    &keys,
                    masked,
                    &key,
                    &mut scratch,
                );
                if wanted.query || wanted.key || wanted.bias || wanted.relative {
                    let d_scores = &mut scratch.d_scores;
                    scores_of::<T, S, M, N>(simd, &value, keys.len(), &block.d_context, d_scores);
                }
                derive::<T, S, N>(simd, shared, b, block, &keys, masked, &mut scratch);
                if wanted.bias || wanted.relative {
                    let of_group = block.h - g * group;
                    let slot = plan.slot(of_group) * rows.len() + block.rows.start - rows.start;
                    add_to_biases::<T, S, N>(
                        shared,
                        [b, of_group],
                        block,
                        &keys,
                        &scratch.d_scores,
                        plan,
                        d_bias.get_mut(slot..).unwrap_or_default(),
                        &mut partial,
                    );
                }
                uncap::<T, S, N>(simd, &mut scratch, keys.len());

                let (weights, d_scores) = (&scratch.weights, &scratch.d_scores);
                sum_over_queries::<T, S, M, N>(
                    simd,
                    weights,
                    &block.d_context_rows,
                    keys.len(),
                    &mut d_value,
                );
                sum_over_queries::<T, S, M, N>(
                    simd,
                    d_scores,
                    &block.query_rows,
                    keys.len(),
                    &mut d_key,
                );
                if wanted.query {
                    let d_scores = &d_scores[..keys.len()];
                    let d_query = block.d_query.as_chunks_mut::<M>().0;
                    for (d, d_query) in d_query.iter_mut().enumerate() {
                        let mut sums = load::<T, S, M, N>(simd, d_query);
                        let left = &key.numbers[d * M..];
                        add_columns::<T, S, M, N>(simd, &mut sums, left, key.width, d_scores);
                        store::<T, S, M, N>(simd, sums, d_query);
                    }
                }
            }
            if copied {
                out_of_pieces::<T, S, N>(&d_key, &keys, head_dim, &mut partial.key);
                out_of_pieces::<T, S, N>(&d_value, &keys, value_dim, &mut partial.value);
            }
        }

        if wanted.query {
            let scale = simd.splat(T::from_f64(tiles.call.scale));
            for block in &mut blocks {
                for lanes in block.d_query.iter_mut().flatten() {
                    simd.store(simd.mul(simd.load(lanes), scale), lanes);
                }
                let h = block.h;
                let own = block.rows.clone().map(|i| out.query.take((b * seq_q + i) * n_heads + h));
                lanes_into_rows::<T, S, N>(simd, &block.d_query, &mut own.collect::<Vec<_>>());
            }
        }
        partial
    }
}

/// The scores of a tile, but for their unit, into `weights`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the parts of one tile")]
fn weigh<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    shared: &Shared<'_, T>,
    b: usize,
    block: &Block<T, S, N>,
    keys: &Range<usize>,
    masked: bool,
    key: &Padded<T>,
    scratch: &mut Scratch<T, S, N>,
) {
    let tiles = &shared.tiles;
    let Scratch { weights, tangents, extra, bits, .. } = scratch;
    scores_of::<T, S, M, N>(simd, key, keys.len(), &block.query, weights);
    let has_extra = !tiles.extras.is_none();
    if has_extra {
        tiles.extras.write::<S, N>([b, block.h], &block.rows, keys, extra);
    }
    let extra = has_extra.then(|| &extra[..keys.len()]);
    let tangents = (!tangents.is_empty()).then_some(&mut tangents[..]);
    let bits = masked.then_some(&bits[..keys.len()]);
    let weights = &mut weights[..keys.len()];
    tiles.scoring().apply(simd, weights, tangents, extra, bits);
}

/// Makes weights of scores, and ds of dp.
#[inline(always)]
fn derive<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    shared: &Shared<'_, T>,
    b: usize,
    block: &Block<T, S, N>,
    keys: &Range<usize>,
    masked: bool,
    scratch: &mut Scratch<T, S, N>,
) {
    let Scratch { weights, d_scores, extra, bits, .. } = scratch;
    let unit = simd.splat(T::from_f64(shared.tiles.scoring().unit()));
    let zero = simd.splat(T::default());
    let mut shift = [zero; N];
    let mut delta = [zero; N];
    for n in 0..N {
        shift[n] = simd.load(&block.shift[n]);
        delta[n] = simd.load(&block.delta[n]);
    }
    let dropout = shared.tiles.call.dropout.as_ref();
    if let Some(dropout) = dropout {
        let factors = &mut extra[..keys.len()];
        factors.fill([S::Lanes::all(T::from_f64(1.0)); N]);
        drop_weights::<T, S, N>(dropout, [b, block.h], &block.rows, keys, factors);
    }
    for row in 0..keys.len() {
        let (weights, d_scores) = (&mut weights[row], &mut d_scores[row]);
        for n in 0..N {
            let weight = exp2(simd, simd.fma(simd.load(&weights[n]), unit, shift[n]));
            let mut d_weight = simd.load(&d_scores[n]);
            let mut kept = weight;
            if dropout.is_some() {
                let factor = simd.load(&extra[row][n]);
                d_weight = simd.mul(d_weight, factor);
                kept = simd.mul(weight, factor);
            }
            let mut d_score = simd.mul(weight, simd.sub(d_weight, delta[n]));
            if masked {
                // 0 times what overflowed would be NaN.
                d_score = simd.select(bits[row] >> (n * S::LANES), d_score, zero);
            }
            simd.store(kept, &mut weights[n]);
            simd.store(d_score, &mut d_scores[n]);
        }
    }
}

/// From the gradient of capped scores to that of scores.
#[inline(always)]
fn uncap<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    scratch: &mut Scratch<T, S, N>,
    count: usize,
) {
    let one = simd.splat(T::from_f64(1.0));
    let zero = simd.splat(T::default());
    let rows = scratch.d_scores[..count].iter_mut().flatten();
    for (d_score, tangent) in rows.zip(scratch.tangents.iter().flatten()) {
        let tangent = simd.load(tangent);
        let slope = simd.fma(simd.sub(zero, tangent), tangent, one);
        simd.store(simd.mul(simd.load(d_score), slope), d_score);
    }
}

/// Adds to `to`, `[piece of features][key]`, the products of the rows of a tile with those of the
/// queries.
#[inline(always)]
fn sum_over_queries<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    tile: &[Row<T, S, N>],
    queries: &[Row<T, S, N>],
    count: usize,
    to: &mut [Row<T, S, N>],
) {
    let pieces = queries.chunks_exact(N * S::LANES).zip(to.chunks_exact_mut(KEYS));
    for (queries, to) in pieces {
        let panels = tile.as_chunks::<M>().0.iter().take(count.div_ceil(M));
        for (panel, to) in panels.zip(to.as_chunks_mut::<M>().0) {
            let mut sums = load::<T, S, M, N>(simd, to);
            add_lanes::<T, S, M, N>(simd, &mut sums, panel, queries);
            store::<T, S, M, N>(simd, sums, to);
        }
    }
}

/// From `[piece of features][key]` to rows of `width` features.
#[inline(always)]
fn out_of_pieces<T: Real, S: Simd<T>, const N: usize>(
    pieces: &[Row<T, S, N>],
    keys: &Range<usize>,
    width: usize,
    to: &mut [T],
) {
    for (n, piece) in pieces.chunks_exact(KEYS).enumerate() {
        for (row, j) in piece.iter().zip(keys.clone()) {
            let to = &mut to[j * width..][..width][n * N * S::LANES..];
            for (to, lanes) in to.chunks_mut(S::LANES).zip(row) {
                to.copy_from_slice(&lanes.numbers()[..to.len()]);
            }
        }
    }
}

/// Adds ds to the gradients of the biases. `d_bias`: the rows of the block's queries, if they have some.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the parts of one tile")]
fn add_to_biases<T: Real, S: Simd<T>, const N: usize>(
    shared: &Shared<'_, T>,
    [b, of_group]: [usize; 2],
    block: &Block<T, S, N>,
    keys: &Range<usize>,
    d_scores: &[Row<T, S, N>],
    plan: &BiasPlan,
    d_bias: &mut [&mut [T]],
    partial: &mut Partial<T>,
) {
    let Shared { tiles, wanted: Wanted { bias, relative, .. }, .. } = shared;
    let keys = keys.start..keys.end.min(tiles.sizes.seq_k);
    let width = plan.row_width();
    let slot = plan.slot(of_group);
    for (lane, i) in block.rows.clone().enumerate() {
        let d_score = |n: usize| d_scores[n][lane / S::LANES].numbers()[lane % S::LANES];
        if *bias && width > 0 {
            let row = match d_bias.get_mut(lane) {
                Some(row) => row,
                None => &mut partial.bias[slot * width..][..width],
            };
            for (n, j) in keys.clone().enumerate() {
                let place = &mut row[if width == 1 { 0 } else { j }];
                *place = *place + d_score(n);
            }
        }
        if let Some(all) = tiles.call.relative.filter(|_| *relative) {
            let row = &mut partial.relative[of_group * all.width()..][..all.width()];
            let query = tiles.call.positions.query(b, i);
            for (n, j) in keys.clone().enumerate() {
                let distance = tiles.call.positions.key(j).saturating_sub(query);
                let place = &mut row[all.index(distance)];
                *place = *place + d_score(n);
            }
        }
    }
}
