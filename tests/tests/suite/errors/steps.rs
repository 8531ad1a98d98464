//! What panics and has no `try_` twin: the steps on their own, a cache's window, tables of numbers.

use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha::{KvCache, MultiHeadAttention, MultiHeadAttentionConfig, QkNorm, Rotary, T5Buckets};
use mha_tests::{AnyBackend, on_every_backend};

use super::{panic_text, zeros};

on_every_backend!(steps);

fn steps<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2).with_n_kv_heads(1).with_value_dim(3);
    let config = config.with_qk_norm(QkNorm::Rms { epsilon: 1e-6 });
    let module = config.init::<B>(&Default::default());
    let tokens = |features| zeros::<B, 3>([2, 5, features]);
    assert_eq!(
        panic_text(|| module.project(tokens(8), tokens(6), tokens(8))),
        "key: expected shape [2, 5, 8] (batch, seq_k, d_key), got [2, 5, 6]"
    );
    let split = |query, key, value| {
        panic_text(|| module.split_heads(tokens(query), tokens(key), tokens(value)))
    };
    let axes = "(batch, seq, features of all heads)";
    assert_eq!(split(6, 4, 3), format!("query: expected shape [2, 5, 8] {axes}, got [2, 5, 6]"));
    assert_eq!(split(8, 8, 3), format!("key: expected shape [2, 5, 4] {axes}, got [2, 5, 8]"));
    assert_eq!(split(8, 4, 4), format!("value: expected shape [2, 5, 3] {axes}, got [2, 5, 4]"));
    // As many numbers as it should have, in other places.
    assert_eq!(
        panic_text(|| module.merge_heads(zeros([2, 5, 3, 2]))),
        "context: expected shape [2, 5, 2, 3] (batch, seq, n_heads, value_dim), got [2, 5, 3, 2]"
    );
    let norm = module.query_norm.as_ref().expect("it was asked for");
    let wide: Tensor<B, 4> = zeros([2, 5, 2, 8]);
    assert_eq!(
        panic_text(|| norm.forward(wide)),
        "heads: expected shape [2, 5, 2, 4] (batch, seq, heads, head_dim), got [2, 5, 2, 8]"
    );
}

#[test]
fn numbers() {
    let said = "window must be at least 1, got 0";
    for cache in [KvCache::<AnyBackend>::rolling, |n| KvCache::rolling_with_sinks(n, 4)] {
        let panic = std::panic::catch_unwind(|| cache(0)).expect_err("a panic");
        assert_eq!(panic.downcast_ref::<&str>().copied(), Some(said));
    }
    let said = "theta must be finite and above 1, got 0";
    assert_eq!(panic_text(|| Rotary::half(0.0).frequencies(8, 0)), said);
    let said = "n_buckets must be at least 2, got 0";
    assert_eq!(panic_text(|| T5Buckets::causal().with_n_buckets(0).bucket(3)), said);
}

/// A module of `burn::nn` that computes something else than it says.
#[test]
fn conversion() {
    use burn::nn::attention as burn_nn;
    let theirs = burn_nn::MultiHeadAttentionConfig::new(2, 4);
    let theirs = theirs.init::<AnyBackend>(&Default::default());
    assert_eq!(
        panic_text(|| MultiHeadAttention::from(theirs)),
        "head_dim must be at least 1 and below 65536, got 0"
    );
}
