//! The backward pass of few queries, which is the textbook's: the weights of a query are as many as the
//! keys, so all of them can be kept.
//!
//! 1. scores and dp = dO Vᵀ, run by run
//! 2. per query: the softmax p, δ = Σ p dp, and ds = p (dp - δ)
//! 3. run by run again: dQ, dK and dV, with the softcap's derivative in ds

use super::four::{Strip, add_one, dots, sum_of};
use super::run::{Run, Scores, rows_of, runs};
use super::weigh::{Part, Weigh};
use crate::backward::add;
use crate::buffers::{stale, zeros};
use crate::call::Sizes;
use crate::machine::Rows;
use crate::simd::{Isa, Kernel, Simd};
use crate::tile::{KEYS, Tiles, ranges};
use crate::{Gradients, Real, Saved, Wanted};

/// The gradients of such a call.
pub(crate) fn backward<T: Real>(
    isa: Isa,
    tiles: &Tiles<'_, T>,
    saved: &Saved<'_, T>,
    wanted: Wanted,
) -> Gradients<T> {
    let sizes = &tiles.sizes;
    let &Sizes { batch, seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim, .. } = sizes;
    let first = |run: Run| T::dispatch(isa, First { tiles, saved, run });
    let mut parts = sizes.run(runs(sizes), first);

    let of_entry = parts.len() / batch.max(1);
    let entries = parts.chunks_mut(of_entry.max(1)).enumerate().collect();
    let weigh = |(b, parts)| T::dispatch(isa, Weigh { tiles, b, parts });
    let d_sinks = sizes.run(entries, weigh);

    let mut query = wanted.query.then(|| zeros(batch * seq_q * n_heads * head_dim));
    let mut key = wanted.key.then(|| stale(batch * n_keys * n_kv_heads * head_dim));
    let mut value = wanted.value.then(|| stale(batch * n_keys * n_kv_heads * value_dim));
    let out = Out {
        key: Rows::new(key.as_deref_mut().unwrap_or_default(), head_dim),
        value: Rows::new(value.as_deref_mut().unwrap_or_default(), value_dim),
    };
    let last = |part: &Part<T>| T::dispatch(isa, Last { tiles, saved, wanted, part, out: &out });
    let partials = sizes.run(parts.iter().collect(), last);
    if let Some(query) = &mut query {
        for (part, partial) in parts.iter().zip(&partials) {
            for (row, partial) in partial.chunks_exact(head_dim).enumerate() {
                let [h, i] = sizes.head_and_query(row);
                add(&mut query[((part.run.b * seq_q + i) * n_heads + h) * head_dim..], partial);
            }
        }
    }
    drop(out);
    Gradients {
        query,
        key,
        value,
        bias: wanted.bias.then(|| d_bias(tiles, &parts)),
        relative: wanted.relative.then(|| d_relative(tiles, &parts)),
        sink: wanted.sink.then(|| {
            let mut sink = zeros::<T>(n_heads);
            d_sinks.iter().for_each(|d_sinks| add(&mut sink, d_sinks));
            sink
        }),
    }
}

struct First<'a, T> {
    tiles: &'a Tiles<'a, T>,
    saved: &'a Saved<'a, T>,
    run: Run,
}

impl<T: Real> Kernel<T> for First<'_, T> {
    type Out = Part<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Part<T> {
        let Self { tiles, saved, run } = self;
        let call = tiles.call;
        let Sizes { seq_q, n_heads, n_kv_heads, value_dim, .. } = tiles.sizes;
        let (b, width) = (run.b, run.keys.len());
        let n_rows = n_heads * seq_q;
        let len = |needed: bool| if needed { n_rows * width } else { 0 };
        let hidden = T::from_f64(f64::NEG_INFINITY);
        let mut weights = vec![hidden; len(true)];
        let mut d_scores = vec![T::default(); len(true)];
        let mut slopes = vec![T::default(); len(call.softcap.is_some())];
        let mut seen = vec![false; len(!call.mask.is_none())];

        let d_context = rows_of(&saved.d_context, b);
        let mut scores = Scores::<T, S>::new(tiles, b, width);
        let per_head = tiles.sizes.rows_per_key_head();
        let mut scratch = Vec::new();
        let values = Strip::new(&call.value, b, run.keys.clone(), &mut scratch);
        for keys in ranges(run.keys.clone(), KEYS) {
            scores.compute(simd, tiles, b, &keys);
            let start = keys.start - run.keys.start;
            for some in ranges(0..keys.len(), 4) {
                for g in 0..n_kv_heads {
                    let four = values.four(simd, &(start + some.start..start + some.end), g);
                    for row in g * per_head..(g + 1) * per_head {
                        let d_context = &d_context[row * value_dim..][..value_dim];
                        let products = dots(simd, d_context, four);
                        for (n, product) in some.clone().zip(products) {
                            if !scores.sees(row, n) {
                                continue;
                            }
                            let at = row * width + start + n;
                            weights[at] = scores.score(row, n);
                            d_scores[at] = product;
                            if let Some(slope) = scores.slope(row, n) {
                                slopes[at] = slope;
                            }
                            if let Some(seen) = seen.get_mut(at) {
                                *seen = true;
                            }
                        }
                    }
                }
            }
        }
        Part { run, weights, d_scores, slopes, seen }
    }
}

struct Out<'a, T> {
    /// Rows of the gradients: `[batch, n_keys, n_kv_heads]`
    key: Rows<'a, T>,
    value: Rows<'a, T>,
}

struct Last<'a, T> {
    tiles: &'a Tiles<'a, T>,
    saved: &'a Saved<'a, T>,
    wanted: Wanted,
    part: &'a Part<T>,
    out: &'a Out<'a, T>,
}

impl<T: Real> Kernel<T> for Last<'_, T> {
    /// What the run adds to dQ: `[rows, head_dim]`.
    type Out = Vec<T>;

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Vec<T> {
        let Self { tiles, saved, wanted, part, out } = self;
        let Sizes { seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim, .. } = tiles.sizes;
        let (b, width) = (part.run.b, part.run.keys.len());
        let scale = T::from_f64(tiles.call.scale);
        let query = rows_of(&tiles.call.query, b);
        let d_context = rows_of(&saved.d_context, b);
        let mut d_query = vec![T::default(); n_heads * seq_q * head_dim];
        let mut scratch = Vec::new();
        let keys = Strip::new(&tiles.call.key, b, part.run.keys.clone(), &mut scratch);
        for (n, j) in part.run.keys.clone().enumerate() {
            for g in 0..n_kv_heads {
                let place = (b * n_keys + j) * n_kv_heads + g;
                let seen = || tiles.sizes.rows_of(g).filter(|&row| part.sees(row * width + n));
                let d_score = |row: usize| {
                    let at = row * width + n;
                    let d_score = part.d_scores[at] * scale;
                    part.slopes.get(at).map_or(d_score, |&slope| d_score * slope)
                };
                if wanted.query {
                    let key = keys.row(n, g);
                    for row in seen() {
                        let d_query = &mut d_query[row * head_dim..][..head_dim];
                        add_one(simd, d_query, key, d_score(row));
                    }
                }
                if wanted.key {
                    let rows =
                        seen().map(|row| (&query[row * head_dim..][..head_dim], d_score(row)));
                    sum_of(simd, out.key.take(place), rows);
                }
                if wanted.value {
                    let weight = |row: usize| part.weights[row * width + n];
                    let rows =
                        seen().map(|row| (&d_context[row * value_dim..][..value_dim], weight(row)));
                    sum_of(simd, out.value.take(place), rows);
                }
            }
        }
        d_query
    }
}

/// The gradient of the bias, in its own sizes. Memory keys have none.
fn d_bias<T: Real>(tiles: &Tiles<'_, T>, parts: &[Part<T>]) -> Vec<T> {
    let dims = tiles.call.bias.map_or([0; 4], |bias| bias.dims());
    let mut all = zeros(dims.iter().product());
    for_each_pair(tiles, parts, |index, d_score| {
        let mut at = 0;
        for (x, dim) in index.into_iter().zip(dims) {
            at = at * dim + if dim == 1 { 0 } else { x };
        }
        all[at] = all[at] + d_score;
    });
    all
}

/// The gradient of the table of biases by distance.
fn d_relative<T: Real>(tiles: &Tiles<'_, T>, parts: &[Part<T>]) -> Vec<T> {
    let Some(relative) = &tiles.call.relative else { return Vec::new() };
    let mut all = zeros(relative.table.len());
    for_each_pair(tiles, parts, |[b, h, i, j], d_score| {
        let column = relative.index(tiles.call.positions.distance(b, i, j));
        let place = &mut all[h * relative.width() + column];
        *place = *place + d_score;
    });
    all
}

/// ds of every entry, head, query and key that is no memory.
fn for_each_pair<T: Real>(
    tiles: &Tiles<'_, T>,
    parts: &[Part<T>],
    mut pair: impl FnMut([usize; 4], T),
) {
    let seq_k = tiles.sizes.seq_k;
    for part in parts {
        let Run { b, keys } = &part.run;
        for (row, d_scores) in part.d_scores.chunks_exact(keys.len()).enumerate() {
            let [h, i] = tiles.sizes.head_and_query(row);
            for (j, &d_score) in keys.clone().zip(d_scores).take_while(|&(j, _)| j < seq_k) {
                pair([*b, h, i, j], d_score);
            }
        }
    }
}
