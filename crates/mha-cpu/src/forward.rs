//! The forward pass, tile by tile.

use std::f64::consts::LOG2_E;
use std::ops::Range;

use crate::arena::Arena;
use crate::buffers::stale;
use crate::call::Sizes;
use crate::decode::{decode, is_decoding};
use crate::dropout::{self, column};
use crate::machine::Rows;
use crate::product::{add_columns, add_rows, lane as lane_of, lane_mut, load, store, zeros};
use crate::seen::Seen;
use crate::simd::{Isa, Kernel, Lanes, Simd};
use crate::softmax::{Running, log_sum_exp};
use crate::tile::{KEYS, Padded, Tiles, ranges};
use crate::transpose::{into_pieces, lanes_into_rows, pieces_into_lanes, rows_of_pieces};
use crate::{Call, Dropout, Error, Output, Real};

/// See [`forward`](crate::forward).
pub(crate) fn forward<T: Real>(isa: Isa, call: &Call<'_, T>) -> Result<Output<T>, Error> {
    let tiles = Tiles::new(call)?;
    if is_decoding(&tiles.sizes) {
        return Ok(decode(isa, &tiles));
    }
    let Sizes { batch, seq_q, n_heads, value_dim, .. } = tiles.sizes;
    let mut context = stale(batch * seq_q * n_heads * value_dim);
    let [mut lse, mut rest] = [(); 2].map(|()| stale(batch * n_heads * seq_q));
    {
        let out = Out {
            context: Rows::new(&mut context, value_dim),
            lse: Rows::new(&mut lse, 1),
            rest: Rows::new(&mut rest, 1),
        };
        let tasks = tasks(&tiles.sizes);
        let run = |(head, rows)| T::dispatch(isa, Forward { tiles: &tiles, head, rows, out: &out });
        tiles.sizes.run(tasks, run);
    }
    Ok(Output { context, lse, rest })
}

/// Some queries of one head.
type Task = ([usize; 2], Range<usize>);

/// Cuts the call into tasks by its sizes alone, so that results do not depend on the threads. A task is
/// as tall as it can be, since it copies each tile of keys, unless there would be too few of them.
fn tasks(sizes: &Sizes) -> Vec<Task> {
    let &Sizes { batch, n_heads, seq_q, .. } = sizes;
    let mut rows = 256;
    while rows > 32 && batch * n_heads * seq_q.div_ceil(rows) < 32 {
        rows /= 2;
    }
    let heads = (0..batch).flat_map(|b| (0..n_heads).map(move |h| [b, h]));
    heads.flat_map(|head| ranges(0..seq_q, rows).map(move |rows| (head, rows))).collect()
}

struct Out<'a, T> {
    /// `[batch, seq_q, n_heads]` rows
    context: Rows<'a, T>,
    /// `[batch, n_heads, seq_q]` numbers
    lse: Rows<'a, T>,
    rest: Rows<'a, T>,
}

struct Forward<'a, T> {
    tiles: &'a Tiles<'a, T>,
    head: [usize; 2],
    rows: Range<usize>,
    out: &'a Out<'a, T>,
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) {
        if self.rows.len() <= S::LANES {
            self.attend::<S, M, 1>(simd);
        } else {
            self.attend::<S, M, N>(simd);
        }
    }
}

impl<T: Real> Forward<'_, T> {
    #[inline(always)]
    fn attend<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) {
        let Self { tiles, head: [b, h], rows, out } = self;
        let Sizes { seq_q, n_keys, n_heads, head_dim, value_dim, .. } = tiles.sizes;
        let call = tiles.call;
        let scoring = tiles.scoring();

        let arena = Arena::new();
        let height = tiles.rows(M);
        let mut key = Padded::new(&arena, height, head_dim, M);
        let mut value = Padded::new(&arena, height, value_dim, M);
        let scores = arena.rows(height);
        let extra = arena.rows(if tiles.extras.is_none() { 0 } else { height });
        let mut bits = [0; KEYS];
        let row = arena.numbers(head_dim);
        let pieces = arena.rows(rows_of_pieces::<T, S, N>(head_dim));
        let mut blocks: Vec<Block<'_, S::Lanes, N>> = Vec::new();
        for rows in ranges(rows, N * S::LANES) {
            into_pieces::<T, S, N>(&call.query, [b, h], rows.clone(), row, pieces);
            let query = arena.rows(head_dim);
            pieces_into_lanes::<T, S, N>(simd, pieces, query);
            let mut running = Running::new::<T>();
            if let Some(sink) = call.sink {
                running.start(T::from_f64(sink[h].to_f64() * LOG2_E));
            }
            let context = arena.rows(value.width);
            blocks.push(Block { rows, query, context, running });
        }

        for keys in ranges(0..n_keys, KEYS) {
            let mut copied = false;
            for block in &mut blocks {
                let seen = tiles.masks.see([b, h], &block.rows, &keys, &mut bits);
                if seen == Seen::Nothing {
                    continue;
                }
                if !copied {
                    tiles.copy_keys([b, h / tiles.sizes.group()], &keys, &mut key, &mut value);
                    copied = true;
                }
                let bits = (seen == Seen::Some).then_some(&bits[..keys.len()]);
                if !extra.is_empty() {
                    tiles.extras.write::<S, N>([b, h], &block.rows, &keys, extra);
                }
                let extra = (!extra.is_empty()).then(|| &extra[..keys.len()]);

                scores_of::<T, S, M, N>(simd, &key, keys.len(), block.query, scores); // 1. Q Kᵀ
                let scores = &mut scores[..keys.len()];
                scoring.apply(simd, scores, None, extra, bits); //                2. scale, cap, bias, mask
                let decay = block.running.absorb(simd, scoring.unit(), scores); // 3. softmax
                if let Some(dropout) = &call.dropout {
                    drop_weights::<T, S, N>(dropout, [b, h], &block.rows, &keys, scores); // 4. dropout
                }
                for (d, context) in block.context.as_chunks_mut::<M>().0.iter_mut().enumerate() {
                    let mut sums = load::<T, S, M, N>(simd, context); //          5. times V
                    for sums in &mut sums {
                        for n in 0..N {
                            sums[n] = simd.mul(sums[n], decay[n]);
                        }
                    }
                    add_columns::<T, S, M, N>(
                        simd,
                        &mut sums,
                        &value.numbers[d * M..],
                        value.width,
                        scores,
                    );
                    store::<T, S, M, N>(simd, sums, context);
                }
            }
        }

        for block in &mut blocks {
            let Running { max, sum } = &block.running;
            let mut scale = [S::Lanes::all(T::default()); N];
            for (lane, i) in block.rows.clone().enumerate() {
                let at = lane_of::<T, S, N>;
                let (max, sum) = (at(max, lane), at(sum, lane));
                let inverse = if sum == T::default() { 0.0 } else { 1.0 / sum.to_f64() };
                *lane_mut::<T, S, N>(&mut scale, lane) = T::from_f64(inverse);
                let row = (b * n_heads + h) * seq_q + i;
                [out.lse.take(row)[0], out.rest.take(row)[0]] = log_sum_exp(max, sum);
            }
            for features in block.context.iter_mut() {
                for n in 0..N {
                    let scaled = simd.mul(simd.load(&features[n]), simd.load(&scale[n]));
                    simd.store(scaled, &mut features[n]);
                }
            }
            let own = block.rows.clone().map(|i| out.context.take((b * seq_q + i) * n_heads + h));
            lanes_into_rows::<T, S, N>(simd, block.context, &mut own.collect::<Vec<_>>());
        }
    }
}

/// Queries that fill the lanes of a tile.
struct Block<'a, L, const N: usize> {
    rows: Range<usize>,
    /// A row for each feature.
    query: &'a mut [[L; N]],
    /// A row for each feature, not yet divided by the sum.
    context: &'a mut [[L; N]],
    running: Running<L, N>,
}

/// The products of `count` rows, keys or values, with the queries in the lanes: a row for each key.
#[inline(always)]
pub(crate) fn scores_of<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    rows: &Padded<'_, T>,
    count: usize,
    query: &[[S::Lanes; N]],
    scores: &mut [[S::Lanes; N]],
) {
    let panels = rows.numbers.chunks_exact(M * rows.width.max(1)).take(count.div_ceil(M));
    for (panel, scores) in panels.zip(scores.as_chunks_mut::<M>().0) {
        let mut left = [panel; M];
        for m in 0..M {
            left[m] = &panel[m * rows.width..][..query.len()];
        }
        let mut sums = zeros::<T, S, M, N>(simd);
        add_rows::<T, S, M, N>(simd, &mut sums, left, query);
        store::<T, S, M, N>(simd, sums, scores);
    }
}

/// Drops weights, and scales the others up.
#[inline(always)]
pub(crate) fn drop_weights<T: Real, S: Simd<T>, const N: usize>(
    dropout: &Dropout,
    [b, h]: [usize; 2],
    rows: &Range<usize>,
    keys: &Range<usize>,
    weights: &mut [[S::Lanes; N]],
) {
    let kept = T::from_f64(1.0 / (1.0 - dropout.probability));
    let threshold = dropout.threshold();
    let mut row_words = [[0; 2]; 32];
    for (words, i) in row_words.iter_mut().zip(rows.clone()) {
        *words = dropout.row([b, h, i]);
    }
    for (weights, j) in weights.iter_mut().zip(keys.clone()) {
        let column = column(j);
        for (weights, words) in weights.iter_mut().zip(row_words.chunks_exact(S::LANES)) {
            for (weight, &words) in weights.numbers_mut().iter_mut().zip(words) {
                let dropped = dropout::word(words, column) < threshold;
                *weight = *weight * if dropped { T::default() } else { kept };
            }
        }
    }
}
