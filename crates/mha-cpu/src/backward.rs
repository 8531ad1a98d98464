//! The backward pass: scores are computed again, tile by tile, from the log-sum-exp.
//!
//! With p = exp(s - lse), what dropout kept of it p', and δ = dO · O of each query (Dao 2023, section
//! 3.1: <https://arxiv.org/abs/2307.08691>):
//!
//! 1. dV = p'ᵀ dO
//! 2. ds = p (dp - δ), where dp is what dropout kept of dO Vᵀ
//! 3. dQ = scale · ds K and dK = scale · dsᵀ Q, with the softcap's derivative in ds
//!
//! A task has some queries of all query heads that share a key head. It goes over the keys tile by
//! tile, sums dK and dV of a tile over its queries, and adds to dQ. What several tasks have of the same
//! dK and dV is added in pairs, in an order that the sizes alone decide.

mod block;
mod d_bias;
mod derive;
mod partial;
mod sums;
mod task;

use std::ops::Range;

use crate::buffers::{stale, zeros};
use crate::call::{Sizes, shape};
use crate::decode::{self, is_decoding};
use crate::machine::Rows;
use crate::simd::Isa;
use crate::tile::Tiles;
use crate::{Call, Error, Gradients, Real, Saved, Wanted};
use d_bias::BiasPlan;
use partial::Partial;
use task::Task;

/// What the tasks of a call share.
pub(crate) struct Shared<'a, T> {
    pub(crate) isa: Isa,
    pub(crate) tiles: Tiles<'a, T>,
    pub(crate) saved: &'a Saved<'a, T>,
    pub(crate) wanted: Wanted,
    pub(crate) plan: BiasPlan,
    /// The queries of each task of a head.
    splits: Vec<Range<usize>>,
    /// Rows of the gradients: `[batch, seq_q, n_heads]`
    pub(crate) d_query: Rows<'a, T>,
    /// `[batch, n_keys, n_kv_heads]`
    d_key: Rows<'a, T>,
    d_value: Rows<'a, T>,
}

/// See [`backward`](crate::backward).
pub(crate) fn backward<T: Real>(
    isa: Isa,
    call: &Call<'_, T>,
    saved: &Saved<'_, T>,
    wanted: Wanted,
) -> Result<Gradients<T>, Error> {
    let tiles = Tiles::new(call)?;
    let sizes = tiles.sizes;
    let Sizes { batch, seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim, .. } = sizes;
    let axes = "batch, seq_q, n_heads, value_dim";
    let context = [batch, seq_q, n_heads, value_dim];
    shape("context", axes, &context, &saved.context.dims())?;
    shape("d_context", axes, &context, &saved.d_context.dims())?;
    shape("lse", "batch * n_heads * seq_q", &[batch * n_heads * seq_q], &[saved.lse.len()])?;
    shape("rest", "batch * n_heads * seq_q", &[saved.lse.len()], &[saved.rest.len()])?;
    let wanted = Wanted {
        bias: wanted.bias && call.bias.is_some(),
        relative: wanted.relative && call.relative.is_some(),
        sink: wanted.sink && call.sink.is_some(),
        ..wanted
    };

    if is_decoding(&sizes) {
        return Ok(decode::backward(isa, &tiles, saved, wanted));
    }

    let len = |wanted: bool, len: usize| if wanted { len } else { 0 };
    let mut query = wanted.query.then(|| stale(batch * seq_q * n_heads * head_dim));
    let mut key = wanted.key.then(|| stale(batch * n_keys * n_kv_heads * head_dim));
    let mut value = wanted.value.then(|| stale(batch * n_keys * n_kv_heads * value_dim));
    let plan = BiasPlan::new(call.bias.map(|bias| bias.dims()).filter(|_| wanted.bias), &sizes);
    let mut bias = zeros(len(wanted.bias, plan.len()));
    let mut relative = zeros(len(wanted.relative, call.relative.map_or(0, |all| all.table.len())));
    let mut sink = zeros(len(wanted.sink, n_heads));

    let shared = Shared {
        isa,
        tiles,
        saved,
        wanted,
        plan,
        splits: splits(&sizes),
        d_query: Rows::new(query.as_deref_mut().unwrap_or_default(), head_dim),
        d_key: Rows::new(key.as_deref_mut().unwrap_or_default(), head_dim),
        d_value: Rows::new(value.as_deref_mut().unwrap_or_default(), value_dim),
    };
    for wave in plan.waves(&sizes) {
        let d_bias = Rows::new(&mut bias, plan.row_width());
        let partials = sizes.run(wave.clone(), |head| {
            let partial = shared.add_up(head, &shared.splits, &d_bias);
            shared.write(head, &partial);
            partial.small()
        });
        for ([b, g], partial) in wave.into_iter().zip(partials) {
            let heads = sizes.heads_of(g).start;
            add(&mut sink[if wanted.sink { heads } else { 0 }..], &partial.sink);
            if let Some(all) = call.relative.filter(|_| wanted.relative) {
                add(&mut relative[heads * all.width()..], &partial.relative);
            }
            plan.add(&mut bias, [b, g], &partial.bias, &sizes);
        }
    }
    drop(shared);
    Ok(Gradients {
        query,
        key,
        value,
        bias: wanted.bias.then_some(bias),
        relative: wanted.relative.then_some(relative),
        sink: wanted.sink.then_some(sink),
    })
}

impl<T: Real> Shared<'_, T> {
    /// The sum of what some splits of a head have, added in pairs. `d_bias`: see [`BiasPlan`].
    fn add_up(
        &self,
        head: [usize; 2],
        splits: &[Range<usize>],
        d_bias: &Rows<'_, T>,
    ) -> Partial<T> {
        match splits {
            [] => Partial::zeros(self),
            [rows] => {
                let rows = rows.clone();
                T::dispatch(self.isa, Task { shared: self, head, rows, d_bias })
            }
            _ => {
                let (left, right) = splits.split_at(splits.len() / 2);
                let (mut left, right) = rayon::join(
                    || self.add_up(head, left, d_bias),
                    || self.add_up(head, right, d_bias),
                );
                left.add(&right);
                left
            }
        }
    }

    /// The gradients of one head's keys and values.
    fn write(&self, [b, g]: [usize; 2], partial: &Partial<T>) {
        let Sizes { n_keys, n_kv_heads, head_dim, value_dim, .. } = self.tiles.sizes;
        let scale = T::from_f64(self.tiles.call.scale);
        for j in 0..n_keys {
            let row = (b * n_keys + j) * n_kv_heads + g;
            if self.wanted.key {
                let from = &partial.key[j * head_dim..][..head_dim];
                for (to, &from) in self.d_key.take(row).iter_mut().zip(from) {
                    *to = from * scale;
                }
            }
            if self.wanted.value {
                let from = &partial.value[j * value_dim..][..value_dim];
                self.d_value.take(row).copy_from_slice(from);
            }
        }
    }
}

/// Cuts the queries of a head into tasks, by the sizes alone: enough tasks in all, none with more rows
/// than its buffers should hold, and none so small that copying the keys would take long.
fn splits(sizes: &Sizes) -> Vec<Range<usize>> {
    let &Sizes { batch, n_kv_heads, seq_q, .. } = sizes;
    let mut rows = (4096 / sizes.group()).max(32);
    while rows > 256 && batch * n_kv_heads * seq_q.div_ceil(rows) < 16 {
        rows /= 2;
    }
    crate::tile::ranges(0..seq_q, rows).collect()
}

/// Adds numbers to those at the start of `to`.
pub(crate) fn add<T: Real>(to: &mut [T], from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = *to + from;
    }
}
