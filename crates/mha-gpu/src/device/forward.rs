//! The forward pass: the keys and values tile by tile, the softmax rescaled once for each
//! (Milakov and Gimelshein 2018, algorithm 3; Dao et al. 2022, FlashAttention, algorithm 1).

use cubecl::prelude::*;

use super::dropout::{factor, row_key};
use super::pair::score;
use super::tile::Tile;
use super::{Four, Looks, Numbers, Spec, Strides, exp, once, total};

/// One cube for each block of rows, key head and entry; in x also for each part of the keys. A launch meets
/// the tiles from `first_tile` to `end_tile`, and goes on where an earlier one ended unless it is the first.
///
/// Writes the context, `[batch, seq_q, n_heads, v]` in fours, and in `stats` for each head and query,
/// `[3, batch, n_heads, seq_q]`: its log-sum-exp, its largest score (0 if there is none), the inverse
/// of its sum. If the keys are split: for each part the sums so far, `[part, batch, n_kv_heads, rows, v]`,
/// and in `stats` the largest score and the sum. `L` rows' scores are stored at once.
#[cube(launch_unchecked)]
pub(crate) fn forward<E: Float, O: Float, L: Size>(
    query: &Array<Four<E>>,
    key: &Array<Four<E>>,
    value: &Array<Four<E>>,
    bias: &Array<f32>,
    side: &Array<u32>,
    context: &mut Array<Four<O>>,
    stats: &mut Array<f32>,
    n: &Numbers,
    query_strides: &Strides,
    key_strides: &Strides,
    value_strides: &Strides,
    blocks: usize,
    first_tile: usize,
    end_tile: usize,
    tiles_per_part: usize,
    #[comptime] spec: Spec,
) {
    let Spec { qk, v, rows, tile: width, units, spread, split, dropout, .. } = comptime!(spec);
    let block = CUBE_POS_X as usize % blocks;
    let part = CUBE_POS_X as usize / blocks;
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
    let hidden = once::<f32>(n.hidden);

    // 1. The rows of this unit. One that is not there is computed as the last one, and not written.
    let mut q = Array::<Four<f32>>::new(comptime!(rows * qk));
    let mut sums = Array::<Four<f32>>::new(comptime!(rows * v));
    let mut max = Array::<f32>::new(rows);
    let mut sum = Array::<f32>::new(rows);
    // Head, query and the keys for dropout, for what is not unrolled.
    let mut facts = SharedMemory::<u32>::new(comptime!(4 * rows * units));
    let first = block * comptime!(if spread { rows } else { rows * units });
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
        }
        #[unroll]
        for d in 0..v {
            sums[r * v + d] = Four::new(0.0f32);
        }
        max[r] = n.hidden;
        sum[r] = 0.0;
        let fact = 4 * (r * units + unit);
        facts[fact] = h as u32;
        facts[fact + 1] = i as u32;
        if comptime!(dropout) {
            facts[fact + 2] = row_key(side, n, b, h, i, false);
            facts[fact + 3] = row_key(side, n, b, h, i, true);
        }
        // The sink is a key without a value; one part has it.
        for _ in 0..select(part == 0 && first_tile == 0, n.sinks, 0) {
            let logit = f32::reinterpret(side[n.sink + h]);
            let mut counts = true;
            if comptime!(spread) {
                counts = unit == 0;
            }
            if counts {
                max[r] = logit;
                sum[r] = 1.0;
            }
        }
    }

    let batch = CUBE_COUNT_Z as usize;
    let own_part = part * comptime!(if spread { units } else { 1 })
        + comptime!(if spread { 1 } else { 0 }) * unit;
    if comptime!(spec.several) {
        // What an earlier launch left.
        if first_tile != 0 {
            #[unroll]
            for r in 0..rows {
                let row = first + row_of(r, unit, spec);
                let row = select(row < n_rows, row, n_rows - 1);
                let at = ((own_part * batch + b) * n.n_kv_heads + g) * n_rows + row;
                max[r] = stats[2 * at];
                sum[r] = stats[2 * at + 1];
                #[unroll]
                for d in 0..v {
                    sums[r * v + d] = Four::cast_from(context[at * v + d]);
                }
            }
        }
    }

    let define!(Word) = spec.word;
    let mut keys = Tile::<Word>::new(comptime!(if spread { 1 } else { width * qk / 2 }));
    let mut values = Tile::<Word>::new(comptime!(if spread { 1 } else { width * v / 2 }));
    let at_once = comptime!(usize::min(rows, 4));
    let groups = comptime!(rows / at_once);
    let mut scores = SharedMemory::<Vector<f32, L>>::new(comptime!(width * groups * units));
    let mut factors = SharedMemory::<Vector<f32, L>>::new(comptime!(if dropout {
        width * groups * units
    } else {
        1
    }));
    // What one pair's numbers are passed in to what is not unrolled.
    let mut slots = SharedMemory::<f32>::new(comptime!(2 * rows * units));
    let n_columns = comptime!(if spread { width * units } else { width });

    let spans = n.spans + b * n.spans_per_entry + block * n.spans_per_block;
    for span in side[spans] as usize..side[spans + 1] as usize {
        let at = n.span_list + 3 * span;
        let from = first_tile + part * tiles_per_part;
        let start = usize::max(side[at] as usize, from);
        let until = usize::min(from + tiles_per_part, end_tile);
        let end = usize::min(side[at + 1] as usize, until);
        let looks = side[at + 2] as usize;
        for tile in start..end {
            let column = tile * n_columns;

            // 2. The tile of keys and values, that of a key that nobody sees as 0.
            if comptime!(!spread) {
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
            }

            // 3. The scores, and the largest of each row.
            let mut largest = Array::<f32>::new(rows);
            #[unroll]
            for r in 0..rows {
                largest[r] = max[r];
            }
            #[unroll]
            for looking in 0..2usize {
                if comptime!(spec.looks.has(looking == 1)) {
                    // Once or not at all, by which kind of tile it is.
                    for _ in 0..select(looks == looking, 1usize, 0usize) {
                        for c in 0..width {
                            let mut products = Array::<Four<f32>>::new(rows);
                            #[unroll]
                            for r in 0..rows {
                                products[r] = Four::new(0.0f32);
                            }
                            let (from, seen) =
                                own_column(key_strides, side, n, b, g, column, c, unit, spec);
                            #[unroll]
                            for d in 0..comptime!(qk / 2) {
                                let (one, two) =
                                    own::<E, Word>(key, from, seen, &keys, c, d, qk, spread);
                                #[unroll]
                                for r in 0..rows {
                                    let at = comptime!(r * qk + 2 * d);
                                    products[r] = fma(q[at], one, products[r]);
                                    products[r] = fma(q[at + 1], two, products[r]);
                                }
                            }
                            let mut s = Array::<f32>::new(rows);
                            let mut kept = Array::<f32>::new(rows);
                            #[unroll]
                            for r in 0..rows {
                                s[r] = total(products[r]) * scale;
                                kept[r] = 1.0;
                            }
                            if comptime!(looking == 1) {
                                #[unroll]
                                for r in 0..rows {
                                    slots[2 * (r * units + unit)] = s[r];
                                }
                                let j = column_of(column, c, unit, spec);
                                for r in 0..rows {
                                    let fact = 4 * (r * units + unit);
                                    let h = facts[fact] as usize;
                                    let i = facts[fact + 1] as usize;
                                    let slot = 2 * (r * units + unit);
                                    slots[slot] = score(slots[slot], side, bias, n, b, h, i, j);
                                    if comptime!(dropout) {
                                        slots[slot + 1] =
                                            factor(n, facts[fact + 2], facts[fact + 3], j);
                                    }
                                }
                                #[unroll]
                                for r in 0..rows {
                                    s[r] = slots[2 * (r * units + unit)];
                                    if comptime!(dropout) {
                                        kept[r] = slots[2 * (r * units + unit) + 1];
                                    }
                                }
                            }
                            #[unroll]
                            for group in 0..groups {
                                let mut some = Vector::<f32, L>::empty();
                                let mut some_kept = Vector::<f32, L>::empty();
                                #[unroll]
                                for part in 0..at_once {
                                    let r = comptime!(group * at_once + part);
                                    largest[r] = f32::max(largest[r], s[r]);
                                    some[part] = s[r];
                                    some_kept[part] = kept[r];
                                }
                                scores[(c * groups + group) * units + unit] = some;
                                if comptime!(dropout) {
                                    factors[(c * groups + group) * units + unit] = some_kept;
                                }
                            }
                        }
                    }
                }
            }

            // 4. What the sums so far keep when the largest score grows.
            let mut base = Array::<f32>::new(rows);
            #[unroll]
            for r in 0..rows {
                // A row that has seen nothing yet has -∞, from which nothing can be subtracted.
                base[r] = select(largest[r] == hidden, 0.0f32, largest[r]);
                let keeps = exp(max[r] - base[r]);
                max[r] = largest[r];
                sum[r] = sum[r] * keeps;
                #[unroll]
                for d in 0..v {
                    sums[r * v + d] = sums[r * v + d] * Four::new(keeps);
                }
            }

            // 5. The weights, and the values by weight.
            for c in 0..width {
                let mut weights = Array::<Four<f32>>::new(rows);
                #[unroll]
                for group in 0..groups {
                    let at = (c * groups + group) * units + unit;
                    let some = scores[at];
                    #[unroll]
                    for part in 0..at_once {
                        let r = comptime!(group * at_once + part);
                        let weight = exp(some[part] - base[r]);
                        sum[r] += weight;
                        if comptime!(dropout) {
                            weights[r] = Four::new(weight * factors[at][part]);
                        } else {
                            weights[r] = Four::new(weight);
                        }
                    }
                }
                let (from, seen) = own_column(value_strides, side, n, b, g, column, c, unit, spec);
                #[unroll]
                for d in 0..comptime!(v / 2) {
                    let (one, two) = own::<E, Word>(value, from, seen, &values, c, d, v, spread);
                    #[unroll]
                    for r in 0..rows {
                        let at = comptime!(r * v + 2 * d);
                        sums[at] = fma(weights[r], one, sums[at]);
                        sums[at + 1] = fma(weights[r], two, sums[at + 1]);
                    }
                }
            }
        }
    }

    // 6. Normalized, or as they are for the merge.
    #[unroll]
    for r in 0..rows {
        let row = first + row_of(r, unit, spec);
        if row < n_rows {
            let h = g * n.group + row / n.queries;
            let i = n.first + row % n.queries;
            if comptime!(split) {
                let at = ((own_part * batch + b) * n.n_kv_heads + g) * n_rows + row;
                stats[2 * at] = max[r];
                stats[2 * at + 1] = sum[r];
                #[unroll]
                for d in 0..v {
                    context[at * v + d] = Four::cast_from(sums[r * v + d]);
                }
            } else {
                let at = (b * n.n_heads + h) * n.seq_q + i;
                let inverse = select(sum[r] == 0.0, 0.0f32, 1.0 / sum[r]);
                let all = batch * n.n_heads * n.seq_q;
                stats[at] = select(sum[r] == 0.0, n.hidden, max[r] + sum[r].ln());
                stats[all + at] = select(max[r] == n.hidden, 0.0f32, max[r]);
                stats[2 * all + at] = inverse;
                let to = ((b * n.seq_q + i) * n.n_heads + h) * v;
                #[unroll]
                for d in 0..v {
                    context[to + d] = Four::cast_from(sums[r * v + d] * Four::new(inverse));
                }
            }
        }
    }
}

/// Which row of the block a unit's row `r` is.
#[cube]
pub(super) fn row_of(#[comptime] r: usize, unit: usize, #[comptime] spec: Spec) -> usize {
    if comptime!(spec.spread) { r.runtime() } else { unit + comptime!(r * spec.units) }
}

/// Which key a unit meets in place `c` of a tile that starts at `column`.
#[cube]
fn column_of(column: usize, c: usize, unit: usize, #[comptime] spec: Spec) -> usize {
    if comptime!(spec.spread) { column + c * comptime!(spec.units) + unit } else { column + c }
}

/// Where that key lies, and whether anybody sees it; nothing is asked of a key in a shared tile.
#[cube]
fn own_column(
    strides: &Strides,
    side: &Array<u32>,
    n: &Numbers,
    b: usize,
    g: usize,
    column: usize,
    c: usize,
    unit: usize,
    #[comptime] spec: Spec,
) -> (usize, bool) {
    if comptime!(spec.spread) {
        let j = column_of(column, c, unit, spec);
        let inside = j < n.n_keys;
        let j = select(inside, j, 0);
        (strides.at(b, j, g), inside && seen_by_any(side, n, b, g, j))
    } else {
        (0usize.runtime(), true.runtime())
    }
}

/// Two fours of features, the `pair`-th of them, of the row in place `c` of the tile.
#[cube]
fn own<E: Float, W: Int>(
    source: &Array<Four<E>>,
    from: usize,
    seen: bool,
    tile: &Tile<W>,
    c: usize,
    #[comptime] pair: usize,
    #[comptime] fours: usize,
    #[comptime] spread: bool,
) -> (Four<f32>, Four<f32>) {
    if comptime!(spread) {
        two_of::<E>(source, from + comptime!(2 * pair), seen)
    } else {
        tile.read(c * comptime!(fours / 2) + pair)
    }
}

/// Two fours of features from here on, as 0 if they do not count.
#[cube]
pub(super) fn two_of<E: Float>(
    source: &Array<Four<E>>,
    from: usize,
    counts: bool,
) -> (Four<f32>, Four<f32>) {
    let (first, second) = (Four::cast_from(source[from]), Four::cast_from(source[from + 1]));
    let zero = Four::new(0.0f32);
    (select(counts, first, zero), select(counts, second, zero))
}

/// Whether a query sees this key, by what was found out before.
#[cube]
pub(super) fn seen_by_any(side: &Array<u32>, n: &Numbers, b: usize, g: usize, j: usize) -> bool {
    side[n.seen + n.checked * ((b * n.n_kv_heads + g) * n.n_keys + j)] != 0
}

/// Keys or values `column..` into a tile, together; `from` is where the first one of the head lies. What
/// is not there or not seen counts as 0.
#[cube]
pub(super) fn load<E: Float, W: Int>(
    source: &Array<Four<E>>,
    from: usize,
    stride: usize,
    n_keys: usize,
    tile: &mut Tile<W>,
    side: &Array<u32>,
    n: &Numbers,
    b: usize,
    g: usize,
    column: usize,
    #[comptime] fours: usize,
    #[comptime] spec: Spec,
) {
    let pairs = comptime!(fours / 2);
    for at in range_stepped(UNIT_POS_X as usize, comptime!(spec.tile * pairs), spec.units) {
        let j = column + at / pairs;
        let mut seen = j < n_keys;
        let j = select(seen, j, 0);
        // Where nothing is looked at, nothing is hidden.
        if comptime!(spec.looks != Looks::Never) {
            seen = seen && seen_by_any(side, n, b, g, j);
        }
        let (first, second) = two_of::<E>(source, from + j * stride + 2 * (at % pairs), seen);
        tile.write(at, first, second);
    }
}
