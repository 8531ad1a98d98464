//! Few queries for each entry: new tokens against a cache, or a query that pools.
//!
//! There is little to reuse: the work is to read each key and each value once. A task reads a run of
//! keys of all heads, which lie side by side, and the tasks of an entry are put together by their
//! log-sum-exp (Dao et al. 2023, "Flash-Decoding").

mod backward;
mod four;
mod run;
mod weigh;

use std::f64::consts::LOG2_E;

use crate::call::Sizes;
use crate::product::total;
use crate::simd::{Isa, Kernel, Lanes, Simd, exp2};
use crate::softmax::log_sum_exp;
use crate::tile::{KEYS, Tiles, ranges};
use crate::{Output, Real};
pub(crate) use backward::backward;
use four::{Strip, add_four, add_one};
use run::{Run, Scores, runs};

/// The most queries that are few: of more, a tile wastes fewer lanes than this way takes steps.
const FEW: usize = 4;

/// Whether a call is computed here, forward and backward.
pub(crate) fn is_decoding(sizes: &Sizes) -> bool {
    (1..=FEW).contains(&sizes.seq_q)
}

/// The forward pass of such a call.
pub(crate) fn decode<T: Real>(isa: Isa, tiles: &Tiles<'_, T>) -> Output<T> {
    let Sizes { batch, seq_q, n_heads, value_dim, .. } = tiles.sizes;
    let run = |run: Run| (run.b, T::dispatch(isa, Decode { tiles, run }));
    let partials = tiles.sizes.run(runs(&tiles.sizes), run);

    let mut all: Vec<Partial<T>> = (0..batch).map(|_| Partial::start(tiles)).collect();
    for (b, partial) in &partials {
        all[*b].join(partial, value_dim);
    }
    let n_rows = n_heads * seq_q;
    let mut context = vec![T::default(); batch * n_rows * value_dim];
    let [mut lse, mut rest] = [(); 2].map(|()| Vec::with_capacity(batch * n_rows));
    for (b, Partial { max, sum, context: sums }) in all.iter().enumerate() {
        for row in 0..n_rows {
            let [h, i] = tiles.sizes.head_and_query(row);
            let scale = if sum[row] == T::default() { 0.0 } else { 1.0 / sum[row].to_f64() };
            let to = &mut context[((b * seq_q + i) * n_heads + h) * value_dim..];
            for (to, x) in to.iter_mut().zip(&sums[row * value_dim..][..value_dim]) {
                *to = T::from_f64(x.to_f64() * scale);
            }
            let [rounded, left] = log_sum_exp(max[row], sum[row]);
            lse.push(rounded);
            rest.push(left);
        }
    }
    Output { context, lse, rest }
}

/// The running softmax of every row, as [`Running`](crate::softmax::Running) has it of lanes. Rows are
/// the queries of all heads: `[n_heads, seq_q]`.
#[derive(Debug)]
struct Partial<T> {
    max: Vec<T>,
    sum: Vec<T>,
    /// `[rows, value_dim]`
    context: Vec<T>,
}

impl<T: Real> Partial<T> {
    fn empty(sizes: &Sizes) -> Self {
        let n_rows = sizes.n_heads * sizes.seq_q;
        Self {
            max: vec![T::from_f64(f64::NEG_INFINITY); n_rows],
            sum: vec![T::default(); n_rows],
            context: vec![T::default(); n_rows * sizes.value_dim],
        }
    }

    /// With the sinks, if there are some.
    fn start(tiles: &Tiles<'_, T>) -> Self {
        let mut start = Self::empty(&tiles.sizes);
        if let Some(sink) = tiles.call.sink {
            for (row, max) in start.max.iter_mut().enumerate() {
                let [h, _] = tiles.sizes.head_and_query(row);
                *max = T::from_f64(sink[h].to_f64() * LOG2_E);
            }
            start.sum.fill(T::from_f64(1.0));
        }
        start
    }

    fn join(&mut self, other: &Self, value_dim: usize) {
        for row in 0..self.max.len() {
            let (a, b) = (self.max[row].to_f64(), other.max[row].to_f64());
            let max = if a > b { a } else { b };
            if max == f64::NEG_INFINITY {
                continue;
            }
            let [old, new] = [a, b].map(|x| (x - max).exp2());
            let add = |a: T, b: T| T::from_f64(a.to_f64() * old + b.to_f64() * new);
            self.max[row] = T::from_f64(max);
            self.sum[row] = add(self.sum[row], other.sum[row]);
            let all = row * value_dim..(row + 1) * value_dim;
            for (to, &from) in self.context[all.clone()].iter_mut().zip(&other.context[all]) {
                *to = add(*to, from);
            }
        }
    }
}

struct Decode<'a, T> {
    tiles: &'a Tiles<'a, T>,
    run: Run,
}

impl<T: Real> Kernel<T> for Decode<'_, T> {
    type Out = Partial<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Partial<T> {
        let Self { tiles, run: Run { b, keys } } = self;
        let Sizes { n_kv_heads, value_dim, .. } = tiles.sizes;
        let unit = T::from_f64(tiles.scoring().unit());
        let mut all = Partial::empty(&tiles.sizes);
        let mut of_run = Scores::<T, S>::new(tiles, b, keys.len());
        let per_head = tiles.sizes.rows_per_key_head();
        let mut scratch = Vec::new();
        let values = Strip::new(&tiles.call.value, b, keys.clone(), &mut scratch);
        let start = keys.start;

        for keys in ranges(keys, KEYS) {
            of_run.compute(simd, tiles, b, &keys); //                   1. Q Kᵀ; 2. scale, cap, bias, mask
            for (row, scores) in of_run.rows_mut().enumerate() {
                // 3. softmax
                let before = all.max[row];
                let max = greatest::<T, S>(simd, scores, unit, before);
                all.max[row] = max;
                let shift = if max.to_f64() == f64::NEG_INFINITY { 0.0 } else { -max.to_f64() };
                let decay = T::from_f64((before.to_f64() + shift).exp2());
                all.sum[row] = all.sum[row] * decay
                    + exponentials::<T, S>(simd, scores, unit, T::from_f64(shift));
                for context in &mut all.context[row * value_dim..][..value_dim] {
                    *context = *context * decay;
                }
                // 4. dropout
                if let Some(dropout) = &tiles.call.dropout {
                    let [h, i] = tiles.sizes.head_and_query(row);
                    let words = dropout.row([b, h, i]);
                    let weights = scores.iter_mut().flat_map(|lanes| lanes.numbers_mut());
                    for (weight, j) in weights.zip(keys.clone()) {
                        *weight = *weight * dropout.factor(words, j);
                    }
                }
            }
            // 5. times V
            for some in ranges(keys.clone(), 4) {
                let first = some.start - keys.start;
                for g in 0..n_kv_heads {
                    let four = values.four(simd, &(some.start - start..some.end - start), g);
                    for row in g * per_head..(g + 1) * per_head {
                        let weights = of_run.four(row, first);
                        let context = &mut all.context[row * value_dim..][..value_dim];
                        if of_run.sees_four(row, first) {
                            add_four(simd, context, four, weights);
                            continue;
                        }
                        // What a hidden key holds may be NaN, and so would be 0 times it.
                        for n in 0..some.len() {
                            if of_run.sees(row, first + n) {
                                add_one(simd, context, four[n], weights[n]);
                            }
                        }
                    }
                }
            }
        }
        all
    }
}

/// The largest of some scores, times `unit`, and of one number; a NaN is passed over.
#[inline(always)]
fn greatest<T: Real, S: Simd<T>>(simd: S, scores: &[S::Lanes], unit: T, first: T) -> T {
    let mut largest = simd.splat(T::from_f64(f64::NEG_INFINITY));
    for row in scores {
        largest = simd.max(largest, simd.load(row));
    }
    let mut lanes = S::Lanes::all(first);
    simd.store(simd.mul(largest, simd.splat(unit)), &mut lanes);
    lanes.numbers().iter().fold(first, |max, &x| if x > max { x } else { max })
}

/// Makes of scores, times `unit` plus `shift`, powers of two, and returns their sum.
#[inline(always)]
fn exponentials<T: Real, S: Simd<T>>(simd: S, scores: &mut [S::Lanes], unit: T, shift: T) -> T {
    let (unit, shift) = (simd.splat(unit), simd.splat(shift));
    let mut sums = simd.splat(T::default());
    for row in scores.iter_mut() {
        let weight = exp2(simd, simd.fma(simd.load(row), unit, shift));
        sums = simd.add(sums, weight);
        simd.store(weight, row);
    }
    total(simd, sums)
}
