//! The queries of a tile, laid out for each of the products that they take part in.

use std::ops::Range;

use super::Shared;
use crate::Real;
use crate::call::Sizes;
use crate::product::Row;
use crate::simd::{Lanes, Simd};
use crate::tile::into_lanes;

/// Queries that fill the lanes of a tile.
pub(crate) struct Block<T: Real, S: Simd<T>, const N: usize> {
    pub(crate) h: usize,
    pub(crate) rows: Range<usize>,
    /// The queries in the lanes, a row for each feature: for the scores.
    pub(crate) query: Vec<Row<T, S, N>>,
    /// The gradient of their context, likewise.
    pub(crate) d_context: Vec<Row<T, S, N>>,
    /// The queries with the features in the lanes, piece by piece, a row for each query: for dK.
    pub(crate) query_rows: Vec<Row<T, S, N>>,
    /// The gradient of their context, likewise: for dV.
    pub(crate) d_context_rows: Vec<Row<T, S, N>>,
    /// Their log-sum-exp in powers of two, negated.
    pub(crate) shift: Row<T, S, N>,
    /// dO · O
    pub(crate) delta: Row<T, S, N>,
    /// dQ, a row for each feature.
    pub(crate) d_query: Vec<Row<T, S, N>>,
}

impl<T: Real, S: Simd<T>, const N: usize> Block<T, S, N> {
    /// Queries of one entry and head. `d_query` rows come in multiples of `multiple`. Adds the sink's
    /// gradient to `d_sink`.
    #[inline(always)]
    pub(crate) fn new(
        shared: &Shared<'_, T>,
        [b, h]: [usize; 2],
        rows: Range<usize>,
        multiple: usize,
        d_sink: Option<&mut T>,
    ) -> Self {
        let Shared { tiles, saved, .. } = shared;
        let Sizes { seq_q, n_heads, head_dim, value_dim, .. } = tiles.sizes;
        let zero = [S::Lanes::all(T::default()); N];
        let lanes = N * S::LANES;
        let mut row = vec![T::default(); head_dim.max(value_dim)];

        let mut query = vec![zero; head_dim];
        let mut d_context = vec![zero; value_dim];
        let view = &tiles.call.query;
        into_lanes::<T, S, N>(view, [b, h], rows.clone(), &mut row[..head_dim], &mut query);
        let view = &saved.d_context;
        into_lanes::<T, S, N>(view, [b, h], rows.clone(), &mut row[..value_dim], &mut d_context);

        let mut query_rows = vec![zero; head_dim.div_ceil(lanes) * lanes];
        let mut d_context_rows = vec![zero; value_dim.div_ceil(lanes) * lanes];
        let (mut shift, mut delta) = (zero, zero);
        let mut sink = 0.0;
        let mut context = vec![T::default(); value_dim];
        for (lane, i) in rows.clone().enumerate() {
            let features = &mut row[..head_dim];
            tiles.call.query.copy([b, i, h, 0], 0..head_dim, features);
            into_pieces::<T, S, N>(features, lane, &mut query_rows);
            let features = &mut row[..value_dim];
            saved.d_context.copy([b, i, h, 0], 0..value_dim, features);
            into_pieces::<T, S, N>(features, lane, &mut d_context_rows);
            saved.context.copy([b, i, h, 0], 0..value_dim, &mut context);

            let dot = dot(features, &context);
            let lse = saved.lse[(b * n_heads + h) * seq_q + i].to_f64();
            // A query that sees nothing has the log-sum-exp -∞, and only scores of -∞.
            let lse = if lse == f64::NEG_INFINITY { 0.0 } else { lse };
            let at = (lane / S::LANES, lane % S::LANES);
            delta[at.0].numbers_mut()[at.1] = dot;
            shift[at.0].numbers_mut()[at.1] = T::from_f64(-lse * std::f64::consts::LOG2_E);
            if let Some(logits) = tiles.call.sink {
                let weight = (logits[h].to_f64() - lse).exp();
                sink -= if weight > 0.0 { weight * dot.to_f64() } else { 0.0 };
            }
        }
        if let Some(d_sink) = d_sink {
            *d_sink = *d_sink + T::from_f64(sink);
        }
        let d_query = vec![zero; head_dim.next_multiple_of(multiple)];
        let d_rows = (query_rows, d_context_rows);
        let (query_rows, d_context_rows) = d_rows;
        Self { h, rows, query, d_context, query_rows, d_context_rows, shift, delta, d_query }
    }
}

/// A row of features into the row `at` of each piece.
#[inline(always)]
fn into_pieces<T: Real, S: Simd<T>, const N: usize>(
    features: &[T],
    at: usize,
    to: &mut [Row<T, S, N>],
) {
    let lanes = N * S::LANES;
    for (features, piece) in features.chunks(lanes).zip(to.chunks_exact_mut(lanes)) {
        for (features, vector) in features.chunks(S::LANES).zip(&mut piece[at]) {
            vector.numbers_mut()[..features.len()].copy_from_slice(features);
        }
    }
}

/// The product of two rows, summed in eight parts.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::default(); 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for n in 0..8 {
            sums[n] = sums[n] + a[n] * b[n];
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(&a, &b)| a * b);
    sums.into_iter().chain(rest).fold(T::default(), |sum, x| sum + x)
}
