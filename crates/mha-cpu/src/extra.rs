//! What is added to the scores of one tile: biases by place, and given ones.

use std::ops::Range;

use crate::call::{PAIRS, Sizes};
use crate::product::lane_mut;
use crate::simd::{Lanes, Simd};
use crate::{Call, Error, Real, View};

/// The biases of a call.
#[derive(Debug)]
pub(crate) struct Extras<'a, T> {
    call: &'a Call<'a, T>,
    bias: Option<View<'a, T, 4>>,
    seq_k: usize,
}

impl<'a, T: Real> Extras<'a, T> {
    pub(crate) fn new(call: &'a Call<'a, T>, sizes: &Sizes) -> Result<Self, Error> {
        let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
        let pairs = [batch, n_heads, seq_q, seq_k];
        let bias = call.bias.map(|bias| bias.broadcast("bias", PAIRS, pairs)).transpose()?;
        Ok(Self { call, bias, seq_k })
    }

    pub(crate) fn is_none(&self) -> bool {
        self.bias.is_none() && self.call.alibi.is_none() && self.call.relative.is_none()
    }

    /// The sum of all biases: in lane l of `extra[n]` that of row l and key n. Lanes without a row
    /// keep what they had.
    pub(crate) fn write<S: Simd<T>, const N: usize>(
        &self,
        [b, h]: [usize; 2],
        rows: &Range<usize>,
        keys: &Range<usize>,
        extra: &mut [[S::Lanes; N]],
    ) {
        for row in extra.iter_mut() {
            *row = [S::Lanes::all(T::default()); N];
        }
        let keys = keys.start..keys.end.min(self.seq_k).max(keys.start);
        let mut add = |n: usize, lane: usize, value: T| {
            let place = lane_mut::<T, S, N>(&mut extra[n], lane);
            *place = *place + value;
        };
        let distance = |i: usize, j: usize| self.call.positions.distance(b, i, j);
        if let Some(slopes) = self.call.alibi {
            let slope = T::from_f64(-slopes[h]);
            for (lane, i) in rows.clone().enumerate() {
                for (n, j) in keys.clone().enumerate() {
                    add(n, lane, slope * T::from_f64(distance(i, j).unsigned_abs() as f64));
                }
            }
        }
        if let Some(relative) = &self.call.relative {
            let table = &relative.table[h * relative.width()..][..relative.width()];
            for (lane, i) in rows.clone().enumerate() {
                for (n, j) in keys.clone().enumerate() {
                    add(n, lane, table[relative.index(distance(i, j))]);
                }
            }
        }
        if let Some(bias) = &self.bias {
            let mut row = [T::default(); crate::tile::KEYS];
            let row = &mut row[..keys.len()];
            for (lane, i) in rows.clone().enumerate() {
                if lane == 0 || !bias.repeats(2) {
                    bias.copy([b, h, i, 0], keys.clone(), row);
                }
                for (n, &value) in row.iter().enumerate() {
                    add(n, lane, value);
                }
            }
        }
    }
}
