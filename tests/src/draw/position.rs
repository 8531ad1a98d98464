//! Draws of position encodings.

use mha::{Position, Rotary, RotaryScaling, T5Buckets, Yarn};
use proptest::prelude::*;

use super::{MAX_HEAD_DIM, MAX_SEQ};

/// A position encoding, and the head width that it asks for.
pub(super) fn position() -> impl Strategy<Value = (Position, Option<usize>)> {
    prop_oneof![
        3 => Just((Position::None, None)),
        1 => Just((Position::Alibi, None)),
        2 => t5().prop_map(|buckets| (buckets.into(), None)),
        4 => rotary().prop_map(|(rotary, head_dim)| (rotary.into(), Some(head_dim))),
    ]
}

/// Few buckets, so that small distances reach the last.
fn t5() -> impl Strategy<Value = T5Buckets> {
    (any::<bool>(), 1..=4usize, any::<bool>(), 1..=9usize).prop_map(
        |(bidirectional, exact, odd, beyond)| {
            let buckets = if bidirectional {
                T5Buckets::bidirectional().with_n_buckets(4 * exact + 2 * usize::from(odd))
            } else {
                T5Buckets::causal().with_n_buckets(2 * exact + usize::from(odd))
            };
            buckets.with_max_distance(exact + beyond)
        },
    )
}

/// A rotation, and the head width: the channels that turn, and those that do not.
fn rotary() -> impl Strategy<Value = (Rotary, usize)> {
    let theta = prop::sample::select(&[1e4, 100.0, 5e5, 2.0][..]);
    let rest = prop_oneof![Just(0), 1..=MAX_HEAD_DIM];
    (any::<bool>(), theta, 1..=MAX_HEAD_DIM / 2, rest, any::<bool>(), scaling()).prop_map(
        |(half, theta, pairs, rest, say_width, mut scaling)| {
            if let RotaryScaling::LongRope { short, long, .. } = &mut scaling {
                short.truncate(pairs);
                long.truncate(pairs);
            }
            let turns_all = matches!(scaling, RotaryScaling::Proportional { .. });
            let rest = if turns_all { 0 } else { rest.min(MAX_HEAD_DIM - 2 * pairs) };
            let rotary = if half { Rotary::half(theta) } else { Rotary::interleaved(theta) };
            let rotary = rotary.with_scaling(scaling);
            let rotary = if rest > 0 || say_width { rotary.with_width(2 * pairs) } else { rotary };
            (rotary, 2 * pairs + rest)
        },
    )
}

fn scaling() -> impl Strategy<Value = RotaryScaling> {
    let factor = || (10..=80i32).prop_map(|x| f64::from(x) / 10.0);
    let length = || 1..=2 * MAX_SEQ;
    let divisors = || prop::collection::vec(factor(), MAX_HEAD_DIM / 2);
    prop_oneof![
        3 => Just(RotaryScaling::None),
        1 => factor().prop_map(|factor| RotaryScaling::Linear { factor }),
        1 => factor().prop_map(|factor| RotaryScaling::Ntk { factor }),
        1 => (factor(), length()).prop_map(|(factor, original_length)| {
            RotaryScaling::DynamicNtk { factor, original_length }
        }),
        2 => yarn().prop_map(RotaryScaling::Yarn),
        1 => (factor(), factor(), factor(), length()).prop_map(
            |(factor, low, more, original_length)| {
                let high = low * more;
                RotaryScaling::Llama3 { factor, low, high, original_length }
            }
        ),
        1 => (divisors(), divisors(), length(), length()).prop_map(|(short, long, first, more)| {
            let original_length = first + 1;
            let max_length = original_length + more - 1;
            RotaryScaling::LongRope { short, long, original_length, max_length }
        }),
        1 => (1..=10i32, factor()).prop_map(|(share, factor)| {
            RotaryScaling::Proportional { share: f64::from(share) / 10.0, factor }
        }),
    ]
}

fn yarn() -> impl Strategy<Value = Yarn> {
    let factor = || (10..=80i32).prop_map(|x| f64::from(x) / 10.0);
    let mscale = || prop::option::of(factor());
    let louder = prop_oneof![
        Just((None, None, None)),
        factor().prop_map(|louder| (Some(louder / 4.0), None, None)),
        (mscale(), mscale()).prop_map(|(mscale, all_dim)| (None, mscale, all_dim)),
    ];
    let betas = (factor(), factor());
    (factor(), 1..=2 * MAX_SEQ, betas, any::<bool>(), louder).prop_map(
        |(factor, length, (slow, more), truncate, (attention_factor, mscale, all_dim))| {
            let mut yarn = Yarn::new(factor, length)
                .with_beta_slow(slow / 10.0)
                .with_beta_fast(slow * more / 10.0)
                .with_truncate(truncate);
            yarn.attention_factor = attention_factor;
            (yarn.mscale, yarn.mscale_all_dim) = (mscale, all_dim);
            yarn
        },
    )
}
