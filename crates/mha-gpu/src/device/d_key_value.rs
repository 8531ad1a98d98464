//! The gradients of keys and values: a unit holds keys and meets all queries that read them.

use cubecl::prelude::*;

use super::delta::stat;
use super::dropout::{factor, row_key};
use super::forward::{row_of, seen_by_any};
use super::pair::{score, slope};
use super::{Four, Numbers, Spec, Strides, exp, total};

/// One cube for each block of keys, key head and entry; tiles are of rows.
///
/// Writes the gradients of the keys, `[batch, n_keys, n_kv_heads, qk]` in fours, and from `values_at`
/// on those of the values.
#[cube(launch_unchecked)]
pub(crate) fn d_key_value<E: Float>(
    query: &Array<Four<E>>,
    key: &Array<Four<E>>,
    value: &Array<Four<E>>,
    d_context: &Array<Four<E>>,
    bias: &Array<f32>,
    side: &Array<u32>,
    out: &mut Array<Four<E>>,
    n: &Numbers,
    query_strides: &Strides,
    key_strides: &Strides,
    value_strides: &Strides,
    d_context_strides: &Strides,
    values_at: usize,
    #[comptime] spec: Spec,
) {
    let Spec { qk, v, rows, tile: width, units, dropout, .. } = comptime!(spec);
    let block = CUBE_POS_X as usize;
    let g = CUBE_POS_Y as usize;
    let b = CUBE_POS_Z as usize;
    let unit = UNIT_POS_X as usize;
    let n_rows = n.group * n.queries;

    // 1. The keys and values of this unit, those that nobody sees as 0.
    let mut k = Array::<Four<f32>>::new(comptime!(rows * qk));
    let mut val = Array::<Four<f32>>::new(comptime!(rows * v));
    let mut d_k = Array::<Four<f32>>::new(comptime!(rows * qk));
    let mut d_v = Array::<Four<f32>>::new(comptime!(rows * v));
    let first = block * comptime!(rows * units);
    #[unroll]
    for r in 0..rows {
        let j = first + row_of(r, unit, spec);
        let inside = j < n.n_keys;
        let j = select(inside, j, 0);
        let seen = inside && seen_by_any(side, n, b, g, j);
        let at = key_strides.at(b, j, g);
        #[unroll]
        for d in 0..qk {
            k[r * qk + d] = select(seen, Four::cast_from(key[at + d]), Four::new(0.0f32));
            d_k[r * qk + d] = Four::new(0.0f32);
        }
        let at = value_strides.at(b, j, g);
        #[unroll]
        for d in 0..v {
            val[r * v + d] = select(seen, Four::cast_from(value[at + d]), Four::new(0.0f32));
            d_v[r * v + d] = Four::new(0.0f32);
        }
    }

    let mut queries = SharedMemory::<Four<f32>>::new(comptime!(width * qk));
    let mut d_contexts = SharedMemory::<Four<f32>>::new(comptime!(width * v));
    let mut row_stats = SharedMemory::<f32>::new(comptime!(3 * width));
    let mut facts = SharedMemory::<u32>::new(comptime!(4 * width));
    let mut slots = SharedMemory::<f32>::new(comptime!(3 * rows * units));

    let spans = n.spans + b * n.spans_per_entry + block * n.spans_per_block;
    for span in side[spans] as usize..side[spans + 1] as usize {
        let at = n.span_list + 3 * span;
        let looks = side[at + 2] as usize;
        for tile in side[at] as usize..side[at + 1] as usize {
            let row = tile * width;

            // 2. The tile of rows: queries, gradients, statistics.
            sync_cube();
            for c in range_stepped(unit, width, units) {
                let inside = row + c < n_rows;
                let row = select(inside, row + c, 0);
                let h = g * n.group + row / n.queries;
                let i = n.first + row % n.queries;
                let at = (b * n.n_heads + h) * n.seq_q + i;
                row_stats[3 * c] = stat(side, n, 0usize, at);
                row_stats[3 * c + 1] = select(inside, stat(side, n, 1usize, at), 0.0f32);
                row_stats[3 * c + 2] = stat(side, n, 2usize, at);
                facts[4 * c] = h as u32;
                facts[4 * c + 1] = i as u32;
                if comptime!(dropout) {
                    facts[4 * c + 2] = row_key(side, n, b, h, i, false);
                    facts[4 * c + 3] = row_key(side, n, b, h, i, true);
                }
            }
            sync_cube();
            load_rows::<E>(
                query,
                query_strides,
                &mut queries,
                &facts,
                &row_stats,
                b,
                width,
                qk,
                units,
            );
            load_rows::<E>(
                d_context,
                d_context_strides,
                &mut d_contexts,
                &facts,
                &row_stats,
                b,
                width,
                v,
                units,
            );
            sync_cube();

            for c in 0..width {
                // 3. The products of query and key, and of gradient and value.
                let mut q = Array::<Four<f32>>::new(qk);
                let mut d_c = Array::<Four<f32>>::new(v);
                let mut products = Array::<Four<f32>>::new(rows);
                let mut d_products = Array::<Four<f32>>::new(rows);
                #[unroll]
                for r in 0..rows {
                    products[r] = Four::new(0.0f32);
                    d_products[r] = Four::new(0.0f32);
                }
                #[unroll]
                for d in 0..qk {
                    q[d] = queries[c * qk + d];
                    #[unroll]
                    for r in 0..rows {
                        products[r] = fma(k[r * qk + d], q[d], products[r]);
                    }
                }
                #[unroll]
                for d in 0..v {
                    d_c[d] = d_contexts[c * v + d];
                    #[unroll]
                    for r in 0..rows {
                        d_products[r] = fma(val[r * v + d], d_c[d], d_products[r]);
                    }
                }

                // 4. The scores, the slopes of the cap, what dropout makes of the weights.
                let mut s = Array::<f32>::new(rows);
                let mut slopes = Array::<f32>::new(rows);
                let mut kept = Array::<f32>::new(rows);
                #[unroll]
                for r in 0..rows {
                    s[r] = total(products[r]) * n.scale;
                    slopes[r] = n.scale;
                    kept[r] = 1.0;
                }
                for _ in 0..looks {
                    #[unroll]
                    for r in 0..rows {
                        slots[3 * (r * units + unit)] = s[r];
                    }
                    let h = facts[4 * c] as usize;
                    let i = facts[4 * c + 1] as usize;
                    for r in 0..rows {
                        let slot = 3 * (r * units + unit);
                        let j = first + unit + r * units;
                        let product = slots[slot];
                        slots[slot] = score(product, side, bias, n, b, h, i, j);
                        slots[slot + 1] = slope(product, n) * n.scale;
                        if comptime!(dropout) {
                            slots[slot + 2] = factor(n, facts[4 * c + 2], facts[4 * c + 3], j);
                        }
                    }
                    #[unroll]
                    for r in 0..rows {
                        s[r] = slots[3 * (r * units + unit)];
                        slopes[r] = slots[3 * (r * units + unit) + 1];
                        if comptime!(dropout) {
                            kept[r] = slots[3 * (r * units + unit) + 2];
                        }
                    }
                }

                // 5. Through the softmax, and to key and value.
                let max = row_stats[3 * c];
                let inverse = row_stats[3 * c + 1];
                let delta = row_stats[3 * c + 2];
                let mut weights = Array::<Four<f32>>::new(rows);
                let mut d_scores = Array::<Four<f32>>::new(rows);
                #[unroll]
                for r in 0..rows {
                    let weight = exp(s[r] - max) * inverse;
                    let d_score = weight * (total(d_products[r]) * kept[r] - delta);
                    weights[r] = Four::new(weight * kept[r]);
                    d_scores[r] = Four::new(d_score * slopes[r]);
                }
                #[unroll]
                for d in 0..qk {
                    #[unroll]
                    for r in 0..rows {
                        d_k[r * qk + d] = fma(d_scores[r], q[d], d_k[r * qk + d]);
                    }
                }
                #[unroll]
                for d in 0..v {
                    #[unroll]
                    for r in 0..rows {
                        d_v[r * v + d] = fma(weights[r], d_c[d], d_v[r * v + d]);
                    }
                }
            }
        }
    }

    #[unroll]
    for r in 0..rows {
        let j = first + row_of(r, unit, spec);
        if j < n.n_keys {
            let at = (b * n.n_keys + j) * n.n_kv_heads + g;
            #[unroll]
            for d in 0..qk {
                out[at * qk + d] = Four::cast_from(d_k[r * qk + d]);
            }
            #[unroll]
            for d in 0..v {
                out[values_at + at * v + d] = Four::cast_from(d_v[r * v + d]);
            }
        }
    }
}

/// Rows into a tile, together; one that is not there or sees nothing counts as 0.
#[cube]
fn load_rows<E: Float>(
    source: &Array<Four<E>>,
    strides: &Strides,
    tile: &mut SharedMemory<Four<f32>>,
    facts: &SharedMemory<u32>,
    row_stats: &SharedMemory<f32>,
    b: usize,
    #[comptime] width: usize,
    #[comptime] fours: usize,
    #[comptime] units: usize,
) {
    for at in range_stepped(UNIT_POS_X as usize, comptime!(width * fours), units) {
        let c = at / fours;
        let from = strides.at(b, facts[4 * c + 1] as usize, facts[4 * c] as usize);
        let number = Four::<f32>::cast_from(source[from + at % fours]);
        tile[at] = select(row_stats[3 * c + 1] == 0.0, Four::new(0.0f32), number);
    }
}
