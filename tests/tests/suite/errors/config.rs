//! Configurations beyond the widths, which `suite/config.rs` has.

use mha::{MhaInitializer, MultiHeadAttentionConfig, QkNorm, Rotary, RotaryScaling};
use mha::{T5Buckets, Yarn};
use mha_tests::AnyBackend;

use super::{assert_says, panic_text};

fn check(config: MultiHeadAttentionConfig, said: &str) {
    let device = Default::default();
    assert_says(config.try_init::<AnyBackend>(&device), said);
    assert_eq!(panic_text(|| config.init::<AnyBackend>(&device)), said);
}

/// Heads of 6 features.
fn config() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(12, 2)
}

#[test]
fn rotary() {
    let refused = |rotary: Rotary, said: &str| check(config().with_position(rotary), said);
    refused(Rotary::half(1.0), "theta must be finite and above 1, got 1");
    let odd = config().with_head_dim(5).with_position(Rotary::half(1e4));
    check(odd, "head_dim must be even and at least 2 where rotary positions have no width, got 5");
    let wide = "width must be even, at least 2 and at most head_dim 6, got";
    refused(Rotary::half(1e4).with_width(8), &format!("{wide} 8"));
    refused(Rotary::interleaved(1e4).with_width(3), &format!("{wide} 3"));
}

#[test]
fn scaling() {
    let refused = |scaling, said: &str| {
        check(config().with_position(Rotary::half(1e4).with_scaling(scaling)), said);
    };
    let factor = 0.5;
    let said = "factor must be at least 1 and finite, got 0.5";
    refused(RotaryScaling::Linear { factor }, said);
    refused(RotaryScaling::Ntk { factor }, said);
    refused(RotaryScaling::DynamicNtk { factor, original_length: 9 }, said);
    refused(RotaryScaling::Llama3 { factor, low: 1.0, high: 4.0, original_length: 9 }, said);
    refused(RotaryScaling::Proportional { share: 0.5, factor }, said);
    refused(RotaryScaling::Yarn(Yarn::new(factor, 9)), said);

    let (factor, original_length) = (2.0, 0);
    let said = "original_length must be at least 1, got 0";
    refused(RotaryScaling::DynamicNtk { factor, original_length }, said);
    refused(RotaryScaling::Llama3 { factor, low: 1.0, high: 4.0, original_length }, said);
    refused(RotaryScaling::Yarn(Yarn::new(factor, original_length)), said);

    refused(
        RotaryScaling::Llama3 { factor, low: 5.0, high: 4.0, original_length: 9 },
        "low must be above 0 and at most high, which is finite, got low 5 and high 4",
    );
    refused(
        RotaryScaling::Proportional { share: 0.0, factor },
        "share must be above 0 and at most 1, got 0",
    );
    let long_rope = |short: &[f64], long: &[f64], original_length, max_length| {
        let (short, long) = (short.to_vec(), long.to_vec());
        RotaryScaling::LongRope { short, long, original_length, max_length }
    };
    let (good, three) =
        ([1.0; 3], "must be 3 numbers in [1e-6, 1e6], one for each pair of channels");
    refused(long_rope(&[1.0], &good, 9, 9), &format!("short {three}, got 1 numbers"));
    refused(long_rope(&good, &[1.0, 0.0, 1.0], 9, 9), &format!("long {three}, got 0"));
    refused(long_rope(&good, &good, 1, 9), "original_length must be at least 2, got 1");
    refused(long_rope(&good, &good, 9, 8), "max_length must be at least 9, got 8");
}

#[test]
fn yarn() {
    let refused = |yarn, said| {
        let rotary = Rotary::half(1e4).with_scaling(RotaryScaling::Yarn(yarn));
        check(config().with_position(rotary), said);
    };
    let yarn = || Yarn::new(4.0, 9);
    refused(
        yarn().with_beta_slow(40.0),
        "beta_slow must be above 0 and at most beta_fast, which is finite, got beta_slow 40 and \
         beta_fast 32",
    );
    refused(yarn().with_attention_factor(0.0), "attention_factor must be in [1e-6, 1e6], got 0");
    refused(yarn().with_mscale(-1.0), "mscale must be in [0.0, 1e6], got -1");
    refused(yarn().with_mscale_all_dim(-1.0), "mscale_all_dim must be in [0.0, 1e6], got -1");
}

#[test]
fn t5() {
    let refused = |buckets: T5Buckets, said: &str| check(config().with_position(buckets), said);
    let both = T5Buckets::bidirectional();
    refused(
        both.with_n_buckets(5),
        "n_buckets must be even and at least 4 with both directions, got 5",
    );
    refused(T5Buckets::causal().with_n_buckets(1), "n_buckets must be at least 2, got 1");
    // A table of this size would be an overflow where it is drawn.
    refused(both.with_n_buckets(1 << 60), "n_buckets must be below 65536, got 1152921504606846976");
    refused(
        both.with_max_distance(8),
        "max_distance must be above 8, half the buckets of one direction, got 8",
    );
}

#[test]
fn norms_memory_and_presets() {
    for epsilon in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let said = format!("qk_norm must have an epsilon in [1e-30, 1e30], got {epsilon}");
        for norm in [QkNorm::Rms { epsilon }, QkNorm::Layer { epsilon }, QkNorm::L2 { epsilon }] {
            check(config().with_qk_norm(norm), &said);
        }
    }
    check(config().with_bias_kv(65_536), "bias_kv must be below 65536, got 65536");
    check(
        config().with_initializer(MhaInitializer::Gpt2 { n_layers: 0 }),
        "initializer must have at least one layer, got n_layers 0",
    );
}
