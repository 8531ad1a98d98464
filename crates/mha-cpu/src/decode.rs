//! One query for each entry: a new token against a cache.
//!
//! There is nothing to reuse: the work is to read each key and each value once. A task reads a run of
//! keys of all heads, which lie side by side, and the tasks of an entry are put together by their
//! log-sum-exp (Dao et al. 2023, "Flash-Decoding").

use std::f64::consts::LOG2_E;
use std::ops::Range;

use crate::call::Sizes;
use crate::product::dot;
use crate::simd::{Isa, Kernel, Lanes, Simd, exp2};
use crate::softmax::log_sum_exp;
use crate::tile::{KEYS, Tiles, ranges};
use crate::{Output, Real};

/// Keys of a task, at most.
const RUN: usize = 512;

/// Whether a call is computed here.
pub(crate) fn is_decoding<T: Real>(tiles: &Tiles<'_, T>) -> bool {
    let call = tiles.call;
    tiles.sizes.seq_q == 1 && !call.differentiable && call.dropout.is_none()
}

/// The forward pass of such a call.
pub(crate) fn decode<T: Real>(isa: Isa, tiles: &Tiles<'_, T>) -> Output<T> {
    let Sizes { batch, n_keys, n_heads, value_dim, .. } = tiles.sizes;
    // Enough tasks of one size, by the sizes alone.
    let run = n_keys.div_ceil(8).next_multiple_of(16).clamp(64, RUN);
    let tasks: Vec<_> =
        (0..batch).flat_map(|b| ranges(0..n_keys, run).map(move |keys| (b, keys))).collect();
    let run = |(b, keys)| (b, T::dispatch(isa, Decode { tiles, b, keys }));
    let partials = tiles.sizes.run(tasks, run);

    let mut all: Vec<Partial<T>> = (0..batch).map(|_| Partial::start(tiles)).collect();
    for (b, partial) in &partials {
        all[*b].join(partial, value_dim);
    }
    let (mut context, mut lse, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for Partial { max, sum, context: sums } in &all {
        for h in 0..n_heads {
            let scale = if sum[h] == T::default() { 0.0 } else { 1.0 / sum[h].to_f64() };
            let sums = &sums[h * value_dim..][..value_dim];
            context.extend(sums.iter().map(|x| T::from_f64(x.to_f64() * scale)));
            let [rounded, left] = log_sum_exp(max[h], sum[h]);
            lse.push(rounded);
            rest.push(left);
        }
    }
    Output { context, lse, rest }
}

/// The running softmax of every head, as [`Running`](crate::softmax::Running) has it of lanes.
#[derive(Debug)]
struct Partial<T> {
    max: Vec<T>,
    sum: Vec<T>,
    /// `[n_heads, value_dim]`
    context: Vec<T>,
}

impl<T: Real> Partial<T> {
    fn empty(sizes: &Sizes) -> Self {
        let &Sizes { n_heads, value_dim, .. } = sizes;
        Self {
            max: vec![T::from_f64(f64::NEG_INFINITY); n_heads],
            sum: vec![T::default(); n_heads],
            context: vec![T::default(); n_heads * value_dim],
        }
    }

    /// With the sinks, if there are some.
    fn start(tiles: &Tiles<'_, T>) -> Self {
        let mut start = Self::empty(&tiles.sizes);
        if let Some(sink) = tiles.call.sink {
            start.max = sink.iter().map(|x| T::from_f64(x.to_f64() * LOG2_E)).collect();
            start.sum.fill(T::from_f64(1.0));
        }
        start
    }

    fn join(&mut self, other: &Self, value_dim: usize) {
        for h in 0..self.max.len() {
            let (a, b) = (self.max[h].to_f64(), other.max[h].to_f64());
            let max = if a > b { a } else { b };
            if max == f64::NEG_INFINITY {
                continue;
            }
            let [old, new] = [a, b].map(|x| (x - max).exp2());
            let add = |a: T, b: T| T::from_f64(a.to_f64() * old + b.to_f64() * new);
            self.max[h] = T::from_f64(max);
            self.sum[h] = add(self.sum[h], other.sum[h]);
            let all = h * value_dim..(h + 1) * value_dim;
            for (to, &from) in self.context[all.clone()].iter_mut().zip(&other.context[all]) {
                *to = add(*to, from);
            }
        }
    }
}

struct Decode<'a, T> {
    tiles: &'a Tiles<'a, T>,
    b: usize,
    keys: Range<usize>,
}

impl<T: Real> Kernel<T> for Decode<'_, T> {
    type Out = Partial<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Partial<T> {
        let Self { tiles, b, keys } = self;
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = tiles.sizes;
        let call = tiles.call;
        let scoring = tiles.scoring();
        let number = |x: f64| simd.splat(T::from_f64(x));
        let none = S::Lanes::all(T::from_f64(f64::NEG_INFINITY));

        let mut all = Partial::empty(&tiles.sizes);
        let mut row = vec![T::default(); head_dim.max(value_dim)];
        let mut query = vec![T::default(); n_heads * head_dim];
        for (h, query) in query.chunks_exact_mut(head_dim).enumerate() {
            call.query.copy([b, 0, h, 0], 0..head_dim, query);
        }
        let masked = !call.mask.is_none();
        let height = KEYS.min(keys.len().next_multiple_of(S::LANES));
        let vectors = height / S::LANES;
        let mut scores = vec![none; n_heads * vectors];
        let mut extra = vec![[none; 1]; if tiles.extras.is_none() { 0 } else { height }];
        let mut bits = [0; KEYS];
        let mut hidden = vec![false; if masked { n_heads * height } else { 0 }];

        for keys in ranges(keys, KEYS) {
            if masked {
                for (h, hidden) in hidden.chunks_exact_mut(height).enumerate() {
                    let seen = tiles.masks.see([b, h], &(0..1), &keys, &mut bits);
                    for (hidden, &bits) in hidden.iter_mut().zip(&bits[..keys.len()]) {
                        *hidden = !seen.any(bits);
                    }
                }
            }
            let is_hidden = |h: usize, n: usize| masked && hidden[h * height + n];

            // 1. Q Kᵀ
            scores.fill(none);
            for (n, j) in keys.clone().enumerate() {
                for g in 0..n_kv_heads {
                    let key = call.key.row([b, j, g, 0], &mut row[..head_dim]);
                    for h in tiles.sizes.heads_of(g) {
                        if !is_hidden(h, n) {
                            let score = dot(&query[h * head_dim..][..head_dim], key);
                            scores[h * vectors + n / S::LANES].numbers_mut()[n % S::LANES] = score;
                        }
                    }
                }
            }
            for (h, scores) in scores.chunks_exact_mut(vectors).enumerate() {
                // 2. scale, cap and biases, but for the unit
                if !scoring.is_plain() {
                    if !extra.is_empty() {
                        tiles.extras.write::<S, 1>([b, h], &(0..1), &keys, &mut extra);
                    }
                    for n in (0..keys.len()).filter(|&n| !is_hidden(h, n)) {
                        let score = &mut scores[n / S::LANES].numbers_mut()[n % S::LANES];
                        let bias = extra.get(n).map(|extra| extra[0].numbers()[0]);
                        *score = scoring.score(*score, bias);
                    }
                }
                // 3. softmax
                let mut largest = simd.load(&none);
                for row in scores.iter() {
                    largest = simd.max(largest, simd.load(row));
                }
                let unit = T::from_f64(scoring.unit());
                let before = all.max[h];
                let max = greatest::<T, S>(simd, simd.mul(largest, simd.splat(unit)), before);
                all.max[h] = max;
                let shift = if max.to_f64() == f64::NEG_INFINITY { 0.0 } else { -max.to_f64() };
                let (unit, minus) = (simd.splat(unit), number(shift));
                let mut sums = number(0.0);
                for row in scores.iter_mut() {
                    let weight = exp2(simd, simd.fma(simd.load(row), unit, minus));
                    sums = simd.add(sums, weight);
                    simd.store(weight, row);
                }
                let decay = T::from_f64((before.to_f64() + shift).exp2());
                all.sum[h] = all.sum[h] * decay + total::<T, S>(simd, sums);
                for context in &mut all.context[h * value_dim..][..value_dim] {
                    *context = *context * decay;
                }
            }
            // 4. times V
            for (n, j) in keys.clone().enumerate() {
                for g in 0..n_kv_heads {
                    let value = call.value.row([b, j, g, 0], &mut row[..value_dim]);
                    for h in tiles.sizes.heads_of(g) {
                        if is_hidden(h, n) {
                            continue;
                        }
                        let weight = scores[h * vectors + n / S::LANES].numbers()[n % S::LANES];
                        let context = &mut all.context[h * value_dim..][..value_dim];
                        for (context, &value) in context.iter_mut().zip(value) {
                            *context = *context + weight * value;
                        }
                    }
                }
            }
        }
        all
    }
}

/// The largest of the lanes and of one number; a NaN is passed over.
#[inline(always)]
fn greatest<T: Real, S: Simd<T>>(simd: S, vector: S::Vector, first: T) -> T {
    let mut lanes = S::Lanes::all(first);
    simd.store(vector, &mut lanes);
    lanes.numbers().iter().fold(first, |max, &x| if x > max { x } else { max })
}

/// The sum of the lanes.
#[inline(always)]
fn total<T: Real, S: Simd<T>>(simd: S, vector: S::Vector) -> T {
    let mut lanes = S::Lanes::all(T::default());
    simd.store(vector, &mut lanes);
    lanes.numbers().iter().fold(T::default(), |sum, &x| sum + x)
}
