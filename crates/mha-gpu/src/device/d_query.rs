//! The gradients of the queries, or those of the scores: a unit holds queries and meets all keys.

use cubecl::prelude::*;

use super::delta::stat;
use super::dropout::{factor, row_key};
use super::forward::{load, row_of};
use super::pair::{score, slope};
use super::tile::Tile;
use super::{Four, Numbers, Spec, Strides, exp, once, total};

/// One cube for each block of rows, key head and entry. A launch meets the tiles from `first_tile` to
/// `end_tile`, and adds to what is there unless that is the first one.
///
/// Writes the gradients of the queries, `[batch, seq_q, n_heads, qk]` in fours, or, if `spec.scores`, those of
/// the biased scores one by one, `[batch, n_heads, queries, n_keys]`, as far as there are tiles to meet.
#[cube(launch_unchecked)]
pub(crate) fn d_query<E: Float, O: Float, L: Size>(
    query: &Array<Four<E>>,
    key: &Array<Four<E>>,
    value: &Array<Four<E>>,
    d_context: &Array<Four<E>>,
    bias: &Array<f32>,
    side: &Array<u32>,
    out: &mut Array<Vector<O, L>>,
    n: &Numbers,
    query_strides: &Strides,
    key_strides: &Strides,
    value_strides: &Strides,
    d_context_strides: &Strides,
    first_tile: usize,
    end_tile: usize,
    #[comptime] spec: Spec,
) {
    let Spec { qk, v, rows, tile: width, units, dropout, scores, .. } = comptime!(spec);
    let block = CUBE_POS_X as usize;
    let g = CUBE_POS_Y as usize;
    let b = CUBE_POS_Z as usize;
    let unit = UNIT_POS_X as usize;
    let n_rows = n.group * n.queries;

    // What every unit is told, read once.
    let scale = once::<f32>(n.scale);
    let n_keys = once::<usize>(n.n_keys);
    let key_from = key_strides.at(b, 0, g);
    let key_stride = once::<usize>(key_strides.seq);
    let value_from = value_strides.at(b, 0, g);
    let value_stride = once::<usize>(value_strides.seq);

    // 1. The rows of this unit.
    let mut q = Array::<Four<f32>>::new(comptime!(rows * qk));
    let mut d_c = Array::<Four<f32>>::new(comptime!(rows * v));
    let mut d_q = Array::<Four<f32>>::new(comptime!(rows * qk));
    let mut max = Array::<f32>::new(rows);
    let mut inverse = Array::<f32>::new(rows);
    let mut delta = Array::<f32>::new(rows);
    let mut facts = SharedMemory::<u32>::new(comptime!(4 * rows * units));
    let first = block * comptime!(rows * units);
    #[unroll]
    for r in 0..rows {
        let row = first + row_of(r, unit, spec);
        let row = select(row < n_rows, row, n_rows - 1);
        let h = g * n.group + row / n.queries;
        let i = n.first + row % n.queries;
        let at = query_strides.at(b, i, h);
        #[unroll]
        for d in 0..qk {
            q[r * qk + d] = Four::cast_from(query[at + d]);
            d_q[r * qk + d] = Four::new(0.0f32);
        }
        let at = (b * n.n_heads + h) * n.seq_q + i;
        max[r] = stat(side, n, 0usize, at);
        inverse[r] = stat(side, n, 1usize, at);
        delta[r] = stat(side, n, 2usize, at);
        // Nothing flows through a row that sees nothing, whatever came.
        let sees = inverse[r] != 0.0;
        let at = d_context_strides.at(b, i, h);
        #[unroll]
        for d in 0..v {
            d_c[r * v + d] = select(sees, Four::cast_from(d_context[at + d]), Four::new(0.0f32));
        }
        let fact = 4 * (r * units + unit);
        facts[fact] = h as u32;
        facts[fact + 1] = i as u32;
        if comptime!(dropout) {
            facts[fact + 2] = row_key(side, n, b, h, i, false);
            facts[fact + 3] = row_key(side, n, b, h, i, true);
        }
    }

    let define!(Word) = spec.word;
    let mut keys = Tile::<Word>::new(comptime!(width * qk / 2));
    let mut values = Tile::<Word>::new(comptime!(width * v / 2));
    // What one pair's numbers are passed in to what is not unrolled.
    let mut slots = SharedMemory::<f32>::new(comptime!(3 * rows * units));

    let spans = n.spans + b * n.spans_per_entry + block * n.spans_per_block;
    for span in side[spans] as usize..side[spans + 1] as usize {
        let at = n.span_list + 3 * span;
        let looks = side[at + 2] as usize;
        let start = usize::max(side[at] as usize, first_tile);
        let end = usize::min(side[at + 1] as usize, end_tile);
        for tile in start..end {
            let column = tile * width;

            // 2. The tile of keys and values.
            sync_cube();
            load::<E, Word>(
                key, key_from, key_stride, n_keys, &mut keys, side, n, b, g, column, qk, spec,
            );
            load::<E, Word>(
                value,
                value_from,
                value_stride,
                n_keys,
                &mut values,
                side,
                n,
                b,
                g,
                column,
                v,
                spec,
            );
            sync_cube();

            #[unroll]
            for looking in 0..2usize {
                if comptime!(spec.looks.has(looking == 1)) {
                    // Once or not at all, by which kind of tile it is.
                    for _ in 0..select(looks == looking, 1usize, 0usize) {
                        for c in 0..width {
                            // 3. The products of query and key, and of gradient and value.
                            let mut k = Array::<Four<f32>>::new(qk);
                            let mut products = Array::<Four<f32>>::new(rows);
                            let mut d_products = Array::<Four<f32>>::new(rows);
                            #[unroll]
                            for r in 0..rows {
                                products[r] = Four::new(0.0f32);
                                d_products[r] = Four::new(0.0f32);
                            }
                            #[unroll]
                            for d in 0..comptime!(qk / 2) {
                                let (one, two) = keys.read(c * comptime!(qk / 2) + d);
                                k[2 * d] = one;
                                k[2 * d + 1] = two;
                                #[unroll]
                                for r in 0..rows {
                                    let at = comptime!(r * qk + 2 * d);
                                    products[r] = fma(q[at], one, products[r]);
                                    products[r] = fma(q[at + 1], two, products[r]);
                                }
                            }
                            #[unroll]
                            for d in 0..comptime!(v / 2) {
                                let (one, two) = values.read(c * comptime!(v / 2) + d);
                                #[unroll]
                                for r in 0..rows {
                                    let at = comptime!(r * v + 2 * d);
                                    d_products[r] = fma(d_c[at], one, d_products[r]);
                                    d_products[r] = fma(d_c[at + 1], two, d_products[r]);
                                }
                            }

                            // 4. The scores, the gradients of the weights, the slopes of the cap.
                            let mut s = Array::<f32>::new(rows);
                            let mut d_w = Array::<f32>::new(rows);
                            let mut slopes = Array::<f32>::new(rows);
                            #[unroll]
                            for r in 0..rows {
                                s[r] = total(products[r]) * scale;
                                d_w[r] = total(d_products[r]);
                                slopes[r] = 1.0;
                            }
                            if comptime!(looking == 1) {
                                #[unroll]
                                for r in 0..rows {
                                    slots[3 * (r * units + unit)] = s[r];
                                    slots[3 * (r * units + unit) + 1] = d_w[r];
                                }
                                for r in 0..rows {
                                    let fact = 4 * (r * units + unit);
                                    let h = facts[fact] as usize;
                                    let i = facts[fact + 1] as usize;
                                    let slot = 3 * (r * units + unit);
                                    let product = slots[slot];
                                    slots[slot] =
                                        score(product, side, bias, n, b, h, i, column + c);
                                    if comptime!(dropout) {
                                        slots[slot + 1] *=
                                            factor(n, facts[fact + 2], facts[fact + 3], column + c);
                                    }
                                    slots[slot + 2] = slope(product, n);
                                }
                                #[unroll]
                                for r in 0..rows {
                                    s[r] = slots[3 * (r * units + unit)];
                                    d_w[r] = slots[3 * (r * units + unit) + 1];
                                    slopes[r] = slots[3 * (r * units + unit) + 2];
                                }
                            }

                            // 5. Through the softmax, and to the query.
                            #[unroll]
                            for r in 0..rows {
                                let weight = exp(s[r] - max[r]) * inverse[r];
                                let d_score = weight * (d_w[r] - delta[r]);
                                if comptime!(scores) {
                                    let row = first + row_of(r, unit, spec);
                                    if row < n_rows && column + c < n.n_keys {
                                        let h = g * n.group + row / n.queries;
                                        let i = row % n.queries;
                                        let at = ((b * n.n_heads + h) * n.queries + i) * n.n_keys
                                            + column
                                            + c;
                                        out[at] = Vector::<O, L>::cast_from(d_score);
                                    }
                                } else {
                                    let mut d_product = Four::new(d_score);
                                    if comptime!(looking == 1) {
                                        d_product = Four::new(d_score * slopes[r]);
                                    }
                                    #[unroll]
                                    for d in 0..qk {
                                        d_q[r * qk + d] = fma(d_product, k[d], d_q[r * qk + d]);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    if comptime!(!scores) {
        #[unroll]
        for r in 0..rows {
            let row = first + row_of(r, unit, spec);
            if row < n_rows {
                let h = g * n.group + row / n.queries;
                let i = n.first + row % n.queries;
                let to = ((b * n.seq_q + i) * n.n_heads + h) * qk;
                #[unroll]
                for d in 0..qk {
                    let mut four = d_q[r * qk + d] * Four::new(scale);
                    if comptime!(spec.several) {
                        let before = Four::cast_from(out[to + d]);
                        four += select(first_tile == 0, Four::new(0.0f32), before);
                    }
                    out[to + d] = Vector::<O, L>::cast_from(four);
                }
            }
        }
    }
}
