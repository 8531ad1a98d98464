//! The queries of a tile, laid out for each of the products that they take part in.

use std::ops::Range;

use super::Shared;
use crate::Real;
use crate::arena::Arena;
use crate::call::Sizes;
use crate::product::{Row, dot, lane_mut};
use crate::simd::{Lanes, Simd};
use crate::transpose::{into_pieces, pieces_into_lanes, rows_of_pieces};

/// Queries that fill the lanes of a tile.
pub(crate) struct Block<'a, T: Real, S: Simd<T>, const N: usize> {
    pub(crate) h: usize,
    pub(crate) rows: Range<usize>,
    /// The queries in the lanes, a row for each feature: for the scores.
    pub(crate) query: &'a mut [Row<T, S, N>],
    /// The gradient of their context, likewise.
    pub(crate) d_context: &'a mut [Row<T, S, N>],
    /// The queries with the features in the lanes, piece by piece, a row for each query: for dK.
    pub(crate) query_rows: &'a mut [Row<T, S, N>],
    /// The gradient of their context, likewise: for dV.
    pub(crate) d_context_rows: &'a mut [Row<T, S, N>],
    /// Their log-sum-exp in powers of two, negated.
    pub(crate) shift: Row<T, S, N>,
    /// 2 to the power of what rounding took from `shift`.
    pub(crate) factor: Row<T, S, N>,
    /// What the sink weighs in their softmax.
    pub(crate) sink: Row<T, S, N>,
    /// dO · O
    pub(crate) delta: Row<T, S, N>,
    /// dQ, a row for each feature.
    pub(crate) d_query: &'a mut [Row<T, S, N>],
}

impl<'a, T: Real, S: Simd<T>, const N: usize> Block<'a, T, S, N> {
    /// Queries of one entry and head. `d_query` rows come in multiples of `multiple`. Adds the sink's
    /// gradient to `d_sink`.
    #[inline(always)]
    pub(crate) fn new(
        simd: S,
        arena: &'a Arena,
        shared: &Shared<'_, T>,
        [b, h]: [usize; 2],
        rows: Range<usize>,
        multiple: usize,
        d_sink: Option<&mut T>,
    ) -> Self {
        let Shared { tiles, saved, .. } = shared;
        let Sizes { seq_q, n_heads, head_dim, value_dim, .. } = tiles.sizes;
        let zero = [S::Lanes::all(T::default()); N];
        let row = arena.numbers(head_dim.max(value_dim));

        let query_rows = arena.rows(rows_of_pieces::<T, S, N>(head_dim));
        let d_context_rows = arena.rows(rows_of_pieces::<T, S, N>(value_dim));
        let (all, scratch) = (rows.clone(), &mut row[..head_dim]);
        into_pieces::<T, S, N>(&tiles.call.query, [b, h], all, scratch, query_rows);
        let (all, scratch) = (rows.clone(), &mut row[..value_dim]);
        into_pieces::<T, S, N>(&saved.d_context, [b, h], all, scratch, d_context_rows);
        let (query, d_context) = (arena.rows(head_dim), arena.rows(value_dim));
        pieces_into_lanes::<T, S, N>(simd, query_rows, query);
        pieces_into_lanes::<T, S, N>(simd, d_context_rows, d_context);

        let (mut shift, mut factor, mut sink, mut delta) = (zero, zero, zero, zero);
        let mut sum = 0.0;
        let context = arena.numbers(value_dim);
        for (lane, i) in rows.clone().enumerate() {
            let d_context = saved.d_context.row([b, i, h, 0], &mut row[..value_dim]);
            let dot = dot(simd, d_context, saved.context.row([b, i, h, 0], context));
            let row = (b * n_heads + h) * seq_q + i;
            let lse = saved.lse[row].to_f64() + saved.rest[row].to_f64();
            // A query that sees nothing has the log-sum-exp -∞, and only scores of -∞.
            let lse = if lse == f64::NEG_INFINITY { 0.0 } else { lse };
            let exact = -lse * std::f64::consts::LOG2_E;
            let rounded = T::from_f64(exact);
            let set = |row: &mut Row<T, S, N>, x: T| *lane_mut::<T, S, N>(row, lane) = x;
            set(&mut delta, dot);
            set(&mut shift, rounded);
            set(&mut factor, T::from_f64((exact - rounded.to_f64()).exp2()));
            if let Some(logits) = tiles.call.sink {
                let weight = (logits[h].to_f64() - lse).exp();
                set(&mut sink, T::from_f64(weight));
                sum -= if weight > 0.0 { weight * dot.to_f64() } else { 0.0 };
            }
        }
        if let Some(d_sink) = d_sink {
            *d_sink = *d_sink + T::from_f64(sum);
        }
        let d_query = arena.rows(head_dim.next_multiple_of(multiple));
        Self {
            h,
            rows,
            query,
            d_context,
            query_rows,
            d_context_rows,
            shift,
            factor,
            sink,
            delta,
            d_query,
        }
    }
}
