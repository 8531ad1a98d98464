//! `ALiBi`.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{MhaInput, MultiHeadAttentionConfig, Position, Weights, alibi_slopes};
use mha_tests::{assert_close, floats, on_every_backend};

use super::core_of;

on_every_backend!(br_26_slopes);

/// ml-explore/mlx #343 "alibi error if log2(num_heads) is not an integer".
fn br_26_slopes<B: AutodiffBackend>() {
    let of = |eighths: &[f64]| -> Vec<f64> { eighths.iter().map(|x| (-x).exp2()).collect() };
    for (n_heads, expected) in [
        (6, of(&[2.0, 4.0, 6.0, 8.0, 1.0, 3.0])),
        (8, of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])),
        (12, of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.5, 1.5, 2.5, 3.5])),
    ] {
        for (slope, expected) in alibi_slopes(n_heads).iter().zip(&expected) {
            assert!((slope - expected).abs() < 1e-15, "{n_heads} heads: {slope} for {expected}");
        }
        assert_eq!(alibi_slopes(n_heads).len(), n_heads);

        // In a module: equal scores but for the distance, so that a weight is that of the nearer
        // key times e^(-slope).
        let config = MultiHeadAttentionConfig::new(n_heads, n_heads)
            .with_dropout(0.0)
            .with_position(Position::Alibi);
        let tokens = |n| Tensor::<B, 3>::zeros([1, n, n_heads], &Default::default());
        let input = MhaInput::new(tokens(1), tokens(2), tokens(2)).weights(Weights::PerHead);
        let weights = floats(core_of(&config).forward(input).weights.unwrap());
        let nearer = |slope: &f64| 1.0 / (1.0 + (-slope).exp());
        let of_head = |slope: &f64| [1.0 - nearer(slope), nearer(slope)];
        let expected: Vec<f64> = expected.iter().flat_map(of_head).collect();
        assert_close(&weights, &expected, 1e-6);
    }
}
