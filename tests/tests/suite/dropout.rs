//! Dropout: one pattern per seed on every backend, active only with autodiff, on the weights.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::oracle::{Attention, Sizes};
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig, Path, Weights, attention};
use mha_tests::{assert_same, floats, numbers, on_every_backend, paths, tensor};

on_every_backend!(
    pattern_is_the_oracles,
    seed_decides,
    backend_seed_governs,
    inactive_without_autodiff,
    weights_are_before_dropout,
);

const SIZES: Sizes =
    Sizes { batch: 2, n_heads: 3, n_kv_heads: 3, seq_q: 61, seq_k: 67, head_dim: 1, value_dim: 67 };

/// The kept weights times their factor, `[batch, seq_q, n_heads, seq_k]`: equal scores, and values
/// that are the unit vectors.
fn kept<B: Backend>(options: &AttentionOptions<B>) -> Vec<f32> {
    let Sizes { batch, n_heads, seq_q, seq_k, .. } = SIZES;
    let device = Default::default();
    let query = Tensor::<B, 4>::zeros([batch, seq_q, n_heads, 1], &device);
    let key = Tensor::zeros([batch, seq_k, n_heads, 1], &device);
    let value = Tensor::<B, 2>::eye(seq_k, &device).reshape([1, seq_k, 1, seq_k]);
    let value = value.expand([batch, seq_k, n_heads, seq_k]);
    floats(attention(query, key, value, options).context)
}

fn options<B: Backend>(probability: f64) -> AttentionOptions<B> {
    AttentionOptions::default().dropout(probability)
}

fn pattern_is_the_oracles<B: AutodiffBackend>() {
    paths::<B>().into_iter().for_each(pattern_is_the_oracles_on::<B>);
}

fn pattern_is_the_oracles_on<B: AutodiffBackend>(path: Path) {
    let Sizes { batch, n_heads, seq_q, seq_k, .. } = SIZES;
    for (seed, probability) in [(0, 0.1), (1, 0.5), (u64::MAX, 0.9), (0x1234_5678_9abc_def0, 0.3)] {
        let zeros = |count| vec![0.0; count];
        let (rows, keys) = (batch * seq_q * n_heads, batch * seq_k * n_heads);
        let mut oracle =
            Attention::<f64>::new(SIZES, zeros(rows), zeros(keys), zeros(keys * seq_k));
        oracle.drop(seed, probability);
        let kept = kept::<B>(&options(probability).dropout_seed(seed).path(path));
        let factor = 1.0 / (1.0 - probability) / seq_k as f64;
        for (row, kept) in kept.chunks(seq_k).enumerate() {
            let [b, i, h] = [row / n_heads / seq_q, row / n_heads % seq_q, row % n_heads];
            let dropped = &oracle.dropped[((b * n_heads + h) * seq_q + i) * seq_k..][..seq_k];
            for (&kept, &dropped) in kept.iter().zip(dropped) {
                let expected = if dropped { 0.0 } else { factor };
                assert!((f64::from(kept) - expected).abs() < 1e-5 * factor, "{b} {i} {h}");
            }
        }
    }
}

fn seed_decides<B: AutodiffBackend>() {
    let with = |seed| kept::<B>(&options(0.2).dropout_seed(seed));
    assert_same(&with(5), &with(5));
    assert!(with(5) != with(6));
    assert!(with(5) != with(5 + (1 << 40)));
}

/// Without a seed two calls differ, and the backend's seed makes them repeat. NdArray's and Flex's
/// generators are global, so other tests may draw in between: a few tries find a quiet moment.
fn backend_seed_governs<B: AutodiffBackend>() {
    let device = Default::default();
    assert!(kept::<B>(&options(0.2)) != kept::<B>(&options(0.2)));
    let repeats = (0..50).any(|_| {
        let draw = || {
            B::seed(&device, 3);
            kept::<B>(&options(0.2))
        };
        draw() == draw()
    });
    assert!(repeats);
}

fn inactive_without_autodiff<B: AutodiffBackend>() {
    let dropped = kept::<B::InnerBackend>(&options(0.8).dropout_seed(1));
    assert_same(&dropped, &kept::<B::InnerBackend>(&options(0.0)));
}

fn weights_are_before_dropout<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(6, 2).with_dropout(0.5);
    let module = config.init::<B>(&Default::default());
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 5 * 6), [2, 5, 6]);
    for wanted in [Weights::PerHead, Weights::Averaged] {
        let out = module.forward(MhaInput::self_attn(tokens.clone()).weights(wanted));
        for sum in floats(out.weights.unwrap().sum_dim(3)) {
            assert!((sum - 1.0).abs() < 1e-6);
        }
    }
}
