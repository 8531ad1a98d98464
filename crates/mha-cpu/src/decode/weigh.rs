//! The softmax of few queries over all their keys, and its derivative.

use std::f64::consts::LOG2_E;

use super::exponentials;
use super::run::Run;
use crate::Real;
use crate::call::Sizes;
use crate::product::dot;
use crate::simd::{Kernel, Lanes, Simd};
use crate::tile::Tiles;

/// What is kept of a run: a number for each row, `[n_heads, seq_q]`, and key.
pub(super) struct Part<T> {
    pub(super) run: Run,
    /// Scores but for their unit, then weights, then what dropout left of them.
    pub(super) weights: Vec<T>,
    /// dp, then ds.
    pub(super) d_scores: Vec<T>,
    /// With a softcap its derivative.
    pub(super) slopes: Vec<T>,
    /// Whether the pair is seen; empty if all are.
    pub(super) seen: Vec<bool>,
}

impl<T: Real> Part<T> {
    pub(super) fn sees(&self, at: usize) -> bool {
        self.seen.get(at).is_none_or(|&seen| seen)
    }
}

/// Makes weights of the scores of an entry, and ds of dp.
pub(super) struct Weigh<'a, T> {
    pub(super) tiles: &'a Tiles<'a, T>,
    pub(super) b: usize,
    /// All of an entry.
    pub(super) parts: &'a mut [Part<T>],
}

impl<T: Real> Kernel<T> for Weigh<'_, T> {
    /// The gradient of the sinks.
    type Out = Vec<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Vec<T> {
        let Self { tiles, b, parts } = self;
        let Sizes { seq_q, n_heads, .. } = tiles.sizes;
        let none = T::from_f64(f64::NEG_INFINITY);
        let unit = T::from_f64(tiles.scoring().unit());
        let mut d_sinks = vec![0.0; n_heads];
        let mut vectors = Vec::new();
        for row in 0..n_heads * seq_q {
            let [h, i] = tiles.sizes.head_and_query(row);
            let sink = tiles.call.sink.map(|sink| sink[h].to_f64() * LOG2_E);
            let row_of = |part: &Part<T>| {
                let width = part.run.keys.len();
                row * width..(row + 1) * width
            };
            let mut max = none;
            for part in parts.iter() {
                for &score in &part.weights[row_of(part)] {
                    max = if score > max { score } else { max };
                }
            }
            max = max * unit;
            if let Some(sink) = sink.map(T::from_f64) {
                max = if sink > max { sink } else { max };
            }
            if max == none {
                // No key is seen, or none whose score is more than -∞.
                max = T::default();
            }
            let shift = T::from_f64(-max.to_f64());
            let sink = sink.map_or(0.0, |sink| (sink - max.to_f64()).exp2());
            let mut sum = sink;
            for part in parts.iter_mut() {
                let row = row_of(part);
                let scores = &mut part.weights[row];
                vectors.resize(scores.len().div_ceil(S::LANES), S::Lanes::all(none));
                for (numbers, vector) in scores.chunks(S::LANES).zip(&mut vectors) {
                    *vector = S::Lanes::all(none);
                    vector.copy_from(numbers);
                }
                let vectors = &mut vectors[..scores.len().div_ceil(S::LANES)];
                sum += exponentials::<T, S>(simd, vectors, unit, shift).to_f64();
                for (numbers, vector) in scores.chunks_mut(S::LANES).zip(vectors) {
                    vector.copy_to(numbers);
                }
            }
            let dropout = tiles.call.dropout.as_ref();
            let words = dropout.map(|dropout| dropout.row([b, h, i]));
            let mut delta = 0.0;
            for part in parts.iter_mut() {
                let (all, first) = (row_of(part), part.run.keys.start);
                let weights = &mut part.weights[all.clone()];
                let d_weights = &mut part.d_scores[all];
                if sum != 0.0 {
                    for weight in weights.iter_mut() {
                        *weight = T::from_f64(weight.to_f64() / sum);
                    }
                }
                if let (Some(dropout), Some(words)) = (dropout, words) {
                    for (d_weight, j) in d_weights.iter_mut().zip(first..) {
                        *d_weight = *d_weight * dropout.factor(words, j);
                    }
                }
                delta += dot(simd, weights, d_weights).to_f64();
            }
            if sink > 0.0 {
                d_sinks[h] -= sink / sum * delta;
            }
            let delta = T::from_f64(-delta);
            for part in parts.iter_mut() {
                let (all, first) = (row_of(part), part.run.keys.start);
                let weights = &mut part.weights[all.clone()];
                for (d_score, &weight) in part.d_scores[all].iter_mut().zip(weights.iter()) {
                    *d_score = weight * (*d_score + delta);
                }
                if let (Some(dropout), Some(words)) = (dropout, words) {
                    for (weight, j) in weights.iter_mut().zip(first..) {
                        *weight = *weight * dropout.factor(words, j);
                    }
                }
            }
        }
        d_sinks.into_iter().map(T::from_f64).collect()
    }
}
