//! Some queries of the heads that share a key head, against all keys.

use std::ops::Range;

use super::Shared;
use super::block::Block;
use super::derive::{Scratch, Tile, derive, uncap, weigh};
use super::partial::Partial;
use super::sums::{add_to_biases, out_of_pieces, sum_over_queries};
use crate::Real;
use crate::arena::Arena;
use crate::call::Sizes;
use crate::forward::scores_of;
use crate::machine::Rows;
use crate::product::{add_columns, load, store};
use crate::seen::Seen;
use crate::simd::{Kernel, Lanes, Simd};
use crate::tile::{KEYS, Padded, ranges};
use crate::transpose::lanes_into_rows;

pub(crate) struct Task<'a, T> {
    pub(crate) shared: &'a Shared<'a, T>,
    /// Entry and key head.
    pub(crate) head: [usize; 2],
    pub(crate) rows: Range<usize>,
    /// See [`BiasPlan`](super::BiasPlan).
    pub(crate) d_bias: &'a Rows<'a, T>,
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

impl<T: Real> Task<'_, T> {
    #[inline(always)]
    fn differentiate<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Partial<T> {
        let Self { shared, head: [b, g], rows, d_bias: bias_rows } = self;
        let Shared { tiles, wanted, plan, .. } = shared;
        let Sizes { n_keys, n_heads, seq_q, head_dim, value_dim, .. } = tiles.sizes;
        let zero = [S::Lanes::all(T::default()); N];
        let lanes = N * S::LANES;
        let group = tiles.sizes.group();
        let mut partial = Partial::zeros(shared);
        let arena = Arena::new();

        let mut blocks = Vec::new();
        for (of_group, h) in tiles.sizes.heads_of(g).enumerate() {
            for rows in ranges(rows.clone(), lanes) {
                let d_sink = partial.sink.get_mut(of_group);
                blocks.push(Block::<T, S, N>::new(simd, &arena, shared, [b, h], rows, M, d_sink));
            }
        }
        // The rows of the bias' gradient that this task owns: [slot][row].
        let mut d_bias: Vec<&mut [T]> = Vec::new();
        if plan.has_rows() && plan.row_width() > 0 {
            for slot in 0..plan.slots() {
                let own = rows.clone().map(|i| bias_rows.take(plan.row([b, g * group + slot, i])));
                d_bias.extend(own);
            }
        }

        let height = tiles.rows(M);
        let mut key = Padded::new(&arena, height, head_dim, M);
        let mut value = Padded::new(&arena, height, value_dim, M);
        let needs = |needed: bool| if needed { height } else { 0 };
        let has_extra = !tiles.extras.is_none() || tiles.call.dropout.is_some();
        let mut scratch = Scratch::<'_, T, S, N> {
            weights: arena.rows(needs(true)),
            d_scores: arena.rows(needs(true)),
            slopes: arena.rows(needs(tiles.call.softcap.is_some())),
            extra: arena.rows(needs(has_extra)),
            bits: [0; KEYS],
        };
        // Sums over the queries: [piece of features][key].
        let pieces =
            |width: usize, wanted: bool| if wanted { width.div_ceil(lanes) * height } else { 0 };
        let d_key = arena.rows(pieces(head_dim, wanted.key));
        let d_value = arena.rows(pieces(value_dim, wanted.value));

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
                let tile = Tile { shared, b, keys: keys.clone(), masked };
                weigh::<T, S, M, N>(simd, &tile, block, &key, &mut scratch);
                if wanted.needs_d_scores() {
                    let d_scores = &mut *scratch.d_scores;
                    scores_of::<T, S, M, N>(simd, &value, keys.len(), block.d_context, d_scores);
                }
                derive::<T, S, N>(simd, &tile, block, &mut scratch);
                if wanted.bias || wanted.relative {
                    let of_group = block.h - g * group;
                    let slot = plan.slot(of_group) * rows.len() + block.rows.start - rows.start;
                    add_to_biases::<T, S, N>(
                        &tile,
                        of_group,
                        block,
                        scratch.d_scores,
                        d_bias.get_mut(slot..).unwrap_or_default(),
                        &mut partial,
                    );
                }
                if wanted.needs_d_scores() {
                    uncap::<T, S, N>(simd, &mut scratch, keys.len());
                }

                let (weights, d_scores) = (&*scratch.weights, &*scratch.d_scores);
                let rows = (keys.len(), height);
                sum_over_queries::<T, S, M, N>(simd, weights, block.d_context_rows, rows, d_value);
                sum_over_queries::<T, S, M, N>(simd, d_scores, block.query_rows, rows, d_key);
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
                let rows = (&keys, height);
                out_of_pieces::<T, S, N>(d_key, rows, head_dim, &mut partial.key);
                out_of_pieces::<T, S, N>(d_value, rows, value_dim, &mut partial.value);
            }
        }

        if wanted.query {
            let scale = simd.splat(T::from_f64(tiles.call.scale));
            for block in &mut blocks {
                for lanes in block.d_query.iter_mut().flatten() {
                    simd.store(simd.mul(simd.load(lanes), scale), lanes);
                }
                let h = block.h;
                let own =
                    block.rows.clone().map(|i| shared.d_query.take((b * seq_q + i) * n_heads + h));
                lanes_into_rows::<T, S, N>(simd, block.d_query, &mut own.collect::<Vec<_>>());
            }
        }
        partial
    }
}
