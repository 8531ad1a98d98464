//! Whole configurations drawn at random, for tests of what holds for all of them.
//!
//! What depends on the sizes is drawn for the largest and then cut to fit, so that a failing case
//! shrinks in every part by itself.

mod masks;
mod pieces;
mod position;
mod run;

use mha::oracle::Sizes;
use mha::{Gate, ProjectionBias, QkNorm, Sink};
use proptest::prelude::*;

use crate::{Case, Dense};
use masks::{Masks, masks};
pub use pieces::{CacheKind, Pieces, pieces};
use position::position;
pub use run::{for_all_draws, seed};

/// The longest batch, sequence, head and value.
const MAX_BATCH: usize = 3;
const MAX_SEQ: usize = 9;
const MAX_HEAD_DIM: usize = 8;
const MAX_VALUE_DIM: usize = 7;

/// Any case: small sizes, and every option that a function or a module has.
pub fn any_case() -> impl Strategy<Value = Case> {
    case(sizes())
}

/// A few entries, heads, tokens and features; now and then no entry or no token at all.
fn sizes() -> impl Strategy<Value = Sizes> {
    let length = |max: usize| prop_oneof![40 => 1..=max, 1 => Just(0)];
    let (batch, seq_q, seq_k) = (length(MAX_BATCH), length(MAX_SEQ), length(MAX_SEQ));
    (batch, 1..=3usize, 1..=3usize, seq_q, seq_k, 1..=MAX_HEAD_DIM, 1..=MAX_VALUE_DIM).prop_map(
        |(batch, n_kv_heads, group, seq_q, seq_k, head_dim, value_dim)| Sizes {
            batch,
            n_heads: n_kv_heads * group,
            n_kv_heads,
            seq_q,
            seq_k,
            head_dim,
            value_dim,
        },
    )
}

/// A case of these sizes, but for the head width where a position encoding asks for another.
fn case(sizes: impl Strategy<Value = Sizes>) -> impl Strategy<Value = Case> {
    let tenths = |range| Strategy::prop_map(range, |x: i32| f64::from(x) / 10.0);
    let scores = (maybe(tenths(-20..=20)), maybe(tenths(1..=50)), maybe(any::<[bool; 4]>()));
    let widths = maybe(prop::array::uniform4(1..=12usize));
    let outputs = (gate(), prop::bool::weighted(0.2), maybe((any::<u64>(), tenths(1..=9))));
    let keys = (0..=2usize, sink(), maybe(qk_norm()));
    (sizes, any::<u32>(), widths, scores, masks(), position(), keys, outputs).prop_map(
        |(sizes, seed, widths, scores, masks, (position, head_dim), keys, outputs)| {
            let sizes = Sizes { head_dim: head_dim.unwrap_or(sizes.head_dim), ..sizes };
            let Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
            let Masks { pad, attn, heads, rules } = masks;
            let (scale, softcap, bias) = scores;
            let (bias_kv, sink, qk_norm) = keys;
            let (gate, head_scale, dropout) = outputs;
            Case {
                name: "drawn".into(),
                seed,
                neighbour: 0,
                sizes,
                widths,
                projection_bias: ProjectionBias::default(),
                scale,
                softcap,
                pad: pad.map(|percent| Dense { dims: [batch, seq_k], percent }),
                attn: attn.map(|(percent, ones)| Dense {
                    dims: with_ones([batch, seq_q, seq_k], ones),
                    percent,
                }),
                heads: heads.map(|(percent, ones)| Dense {
                    dims: with_ones([batch, n_heads, seq_q, seq_k], ones),
                    percent,
                }),
                rules: rules.into_iter().map(|rule| rule.fit(&sizes)).collect(),
                bias: bias.map(|ones| with_ones([batch, n_heads, seq_q, seq_k], ones)),
                position,
                qk_norm,
                bias_kv,
                sink,
                gate,
                head_scale,
                dropout,
            }
        },
    )
}

/// An option that most cases have not, so that few meet in one case and all pairs do in some.
fn maybe<S: Strategy>(option: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    prop::option::weighted(0.25, option)
}

fn sink() -> impl Strategy<Value = Sink> {
    prop_oneof![
        2 => Just(Sink::None),
        1 => Just(Sink::Quiet),
        1 => Just(Sink::ZeroKey),
        1 => Just(Sink::Learned),
    ]
}

fn gate() -> impl Strategy<Value = Gate> {
    prop_oneof![3 => Just(Gate::None), 1 => Just(Gate::PerHead), 1 => Just(Gate::Elementwise)]
}

fn qk_norm() -> impl Strategy<Value = QkNorm> {
    let epsilon = || prop::sample::select(&[1e-2, 1e-6][..]);
    prop_oneof![
        epsilon().prop_map(|epsilon| QkNorm::Rms { epsilon }),
        epsilon().prop_map(|epsilon| QkNorm::Layer { epsilon }),
        epsilon().prop_map(|epsilon| QkNorm::L2 { epsilon }),
    ]
}

/// A shape whose axes are broadcast where `ones` says so.
fn with_ones<const D: usize>(dims: [usize; D], ones: [bool; D]) -> [usize; D] {
    std::array::from_fn(|axis| if ones[axis] { 1 } else { dims[axis] })
}
