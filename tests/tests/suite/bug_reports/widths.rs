//! Keys and values of widths of their own.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig, attention};
use mha_tests::{Case, assert_close, floats, numbers, on_every_backend, tensor};

use crate::against_oracle::{check_function, check_module};

on_every_backend!(br_32_widths_of_their_own, br_32_scale_by_the_key_width);

/// pytorch/pytorch #27623 "Not possible to use different key/value dimensionalities in
/// nn.MultiheadAttention", #41070, #128348 and Dao-AILab/flash-attention #753 (value heads of
/// another width): shapes, and values and gradients against the plain reference.
fn br_32_widths_of_their_own<B: AutodiffBackend>() {
    for (head_dim, value_dim) in [(24, 24), (8, 16), (16, 8)] {
        let config = MultiHeadAttentionConfig::new(24, 1)
            .with_d_key(24)
            .with_d_value(12)
            .with_head_dim(head_dim)
            .with_value_dim(value_dim);
        let module = config.init::<B>(&Default::default());
        let tokens =
            |seed, width| tensor::<B, 3, _>(&numbers(seed, 5 * 10 * width), [5, 10, width]);
        let [query, key, value] = [tokens(1, 24), tokens(2, 24), tokens(3, 12)];
        assert_eq!(module.forward(MhaInput::new(query, key, value)).context.dims(), [5, 10, 24]);

        let name = format!("key heads of {head_dim}, value heads of {value_dim}");
        let case = Case::new(name, [5, 1, 10, 10, head_dim, value_dim]);
        check_function::<B>(&case);
        check_module::<B>(&Case { widths: Some([24, 24, 12, 24]), ..case });
    }
}

/// The same reports: the core output is as wide as a value head, the scale is that of a key head.
fn br_32_scale_by_the_key_width<B: AutodiffBackend>() {
    for (head_dim, value_dim) in [(8, 16), (16, 8)] {
        let device = Default::default();
        let query = Tensor::<B, 4>::ones([1, 1, 1, head_dim], &device);
        let key = Tensor::cat(vec![query.clone(), query.zeros_like()], 1);
        let value = Tensor::ones([1, 2, 1, value_dim], &device);
        let options = AttentionOptions::default().return_weights();
        let out = attention(query, key, value, &options);
        assert_eq!(out.context.dims(), [1, 1, 1, value_dim]);
        // Scores √head_dim and 0.
        let first = 1.0 / (1.0 + (-(head_dim as f64).sqrt()).exp());
        assert_close(&floats(out.weights.unwrap()), &[first, 1.0 - first], 1e-6);
    }
}
