//! The gradients of keys and values: a unit holds keys and meets all queries that read them.

use cubecl::prelude::*;

use super::delta::stat;
use super::dropout::{factor, row_key};
use super::forward::{row_of, seen_by_any, two_of};
use super::pair::{score, slope};
use super::tile::Tile;
use super::{Four, Looks, Numbers, Spec, Strides, exp, once, total};

/// One cube for each block of keys, key head and entry; tiles are of rows. A launch meets
/// those from `first_tile` to `end_tile`, and adds to what is there unless that is the first one.
///
/// Writes the gradients of the keys, `[batch, n_keys, n_kv_heads, qk]` in fours, and from `values_at`
/// on those of the values.
#[cube(launch_unchecked)]
pub(crate) fn d_key_value<E: Float, O: Float>(
    query: &Array<Four<E>>,
    key: &Array<Four<E>>,
    value: &Array<Four<E>>,
    d_context: &Array<Four<E>>,
    bias: &Array<f32>,
    side: &Array<u32>,
    out: &mut Array<Four<O>>,
    n: &Numbers,
    query_strides: &Strides,
    key_strides: &Strides,
    value_strides: &Strides,
    d_context_strides: &Strides,
    values_at: usize,
    first_tile: usize,
    end_tile: usize,
    #[comptime] spec: Spec,
) {
    let Spec { qk, v, rows, tile: width, units, dropout, .. } = comptime!(spec);
    let block = CUBE_POS_X as usize;
    let g = CUBE_POS_Y as usize;
    let b = CUBE_POS_Z as usize;
    let unit = UNIT_POS_X as usize;
    let n_rows = n.group * n.queries;

    // What every unit is told, read once.
    let scale = once::<f32>(n.scale);
    let query_from = query_strides.at(b, 0, 0);
    let query_stride = once::<usize>(query_strides.seq);
    let query_head = once::<usize>(query_strides.head);
    let d_context_from = d_context_strides.at(b, 0, 0);
    let d_context_stride = once::<usize>(d_context_strides.seq);
    let d_context_head = once::<usize>(d_context_strides.head);

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

    let define!(Word) = spec.word;
    let mut queries = Tile::<Word>::new(comptime!(width * qk / 2));
    let mut d_contexts = Tile::<Word>::new(comptime!(width * v / 2));
    let mut row_stats = SharedMemory::<f32>::new(comptime!(3 * width));
    let mut facts = SharedMemory::<u32>::new(comptime!(6 * width));
    let mut slots = SharedMemory::<f32>::new(comptime!(3 * rows * units));

    let spans = n.spans + b * n.spans_per_entry + block * n.spans_per_block;
    for span in side[spans] as usize..side[spans + 1] as usize {
        let at = n.span_list + 3 * span;
        let looks = side[at + 2] as usize;
        let start = usize::max(side[at] as usize, first_tile);
        let end = usize::min(side[at + 1] as usize, end_tile);
        for tile in start..end {
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
                facts[6 * c] = h as u32;
                facts[6 * c + 1] = i as u32;
                facts[6 * c + 4] = (query_from + i * query_stride + h * query_head) as u32;
                facts[6 * c + 5] =
                    (d_context_from + i * d_context_stride + h * d_context_head) as u32;
                if comptime!(dropout) {
                    facts[6 * c + 2] = row_key(side, n, b, h, i, false);
                    facts[6 * c + 3] = row_key(side, n, b, h, i, true);
                }
            }
            sync_cube();
            load_rows::<E, Word>(query, 4usize, &mut queries, &facts, &row_stats, qk, spec);
            load_rows::<E, Word>(d_context, 5usize, &mut d_contexts, &facts, &row_stats, v, spec);
            sync_cube();

            #[unroll]
            for looking in 0..2usize {
                if comptime!(spec.looks.has(looking == 1)) {
                    // Once or not at all, by which kind of tile it is.
                    for _ in 0..select(looks == looking, 1usize, 0usize) {
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
                            for d in 0..comptime!(qk / 2) {
                                let (one, two) = queries.read(c * comptime!(qk / 2) + d);
                                q[2 * d] = one;
                                q[2 * d + 1] = two;
                                #[unroll]
                                for r in 0..rows {
                                    let at = comptime!(r * qk + 2 * d);
                                    products[r] = fma(k[at], one, products[r]);
                                    products[r] = fma(k[at + 1], two, products[r]);
                                }
                            }
                            #[unroll]
                            for d in 0..comptime!(v / 2) {
                                let (one, two) = d_contexts.read(c * comptime!(v / 2) + d);
                                d_c[2 * d] = one;
                                d_c[2 * d + 1] = two;
                                #[unroll]
                                for r in 0..rows {
                                    let at = comptime!(r * v + 2 * d);
                                    d_products[r] = fma(val[at], one, d_products[r]);
                                    d_products[r] = fma(val[at + 1], two, d_products[r]);
                                }
                            }

                            // 4. The scores, the slopes of the cap, what dropout makes of the weights.
                            let mut s = Array::<f32>::new(rows);
                            let mut slopes = Array::<f32>::new(rows);
                            let mut kept = Array::<f32>::new(rows);
                            #[unroll]
                            for r in 0..rows {
                                s[r] = total(products[r]) * scale;
                                slopes[r] = 1.0;
                                kept[r] = 1.0;
                            }
                            if comptime!(looking == 1) {
                                #[unroll]
                                for r in 0..rows {
                                    slots[3 * (r * units + unit)] = s[r];
                                }
                                let h = facts[6 * c] as usize;
                                let i = facts[6 * c + 1] as usize;
                                for r in 0..rows {
                                    let slot = 3 * (r * units + unit);
                                    let j = first + unit + r * units;
                                    let product = slots[slot];
                                    slots[slot] = score(product, side, bias, n, b, h, i, j);
                                    slots[slot + 1] = slope(product, n);
                                    if comptime!(dropout) {
                                        slots[slot + 2] =
                                            factor(n, facts[6 * c + 2], facts[6 * c + 3], j);
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
                                let d_weight = total(d_products[r]);
                                if comptime!(dropout) {
                                    weights[r] = Four::new(weight * kept[r]);
                                    d_scores[r] = Four::new(weight * (d_weight * kept[r] - delta));
                                } else {
                                    weights[r] = Four::new(weight);
                                    d_scores[r] = Four::new(weight * (d_weight - delta));
                                }
                                if comptime!(looking == 1) {
                                    d_scores[r] = d_scores[r] * Four::new(slopes[r]);
                                }
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
                let to = at * qk + d;
                let mut four = d_k[r * qk + d] * Four::new(scale);
                if comptime!(spec.several) {
                    four += select(first_tile == 0, Four::new(0.0f32), Four::cast_from(out[to]));
                }
                out[to] = Four::cast_from(four);
            }
            #[unroll]
            for d in 0..v {
                let to = values_at + at * v + d;
                let mut four = d_v[r * v + d];
                if comptime!(spec.several) {
                    four += select(first_tile == 0, Four::new(0.0f32), Four::cast_from(out[to]));
                }
                out[to] = Four::cast_from(four);
            }
        }
    }
}

/// Rows into a tile, together, from where the fact of this number says; one that sees nothing counts as
/// 0.
#[cube]
fn load_rows<E: Float, W: Int>(
    source: &Array<Four<E>>,
    #[comptime] fact: usize,
    tile: &mut Tile<W>,
    facts: &SharedMemory<u32>,
    row_stats: &SharedMemory<f32>,
    #[comptime] fours: usize,
    #[comptime] spec: Spec,
) {
    let pairs = comptime!(fours / 2);
    for at in range_stepped(UNIT_POS_X as usize, comptime!(spec.tile * pairs), spec.units) {
        let c = at / pairs;
        let from = facts[6 * c + fact] as usize + 2 * (at % pairs);
        let mut counts = true;
        // Where nothing is hidden, every row sees something; one that is not there has no weight.
        if comptime!(spec.looks != Looks::Never) {
            counts = row_stats[3 * c + 1] != 0.0;
        }
        let (first, second) = two_of::<E>(source, from, counts);
        tile.write(at, first, second);
    }
}
