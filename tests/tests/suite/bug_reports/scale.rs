//! The scale, and head sizes that are no multiple of anything.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::oracle::Sizes;
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{Case, assert_close, floats, on_every_backend};

use super::core_of;
use crate::against_oracle::{check_function, check_module};

on_every_backend!(br_31_true_width_and_given_scale, br_31_odd_sizes);

/// tracel-ai/burn #4475 "Enhance burn::tensor::module::attention() with scale, float mask, and
/// softcap", SKaiNET-developers/SKaiNET #860 (no scale is not a scale of 0),
/// Dao-AILab/flash-attention #1347 and pytorch/pytorch #110630 (a scale by a padded width).
fn br_31_true_width_and_given_scale<B: AutodiffBackend>() {
    for (width, scale, expected) in [
        (4, None, 0.880797),
        (4, Some(0.25), 0.731059),
        (4, Some(1.0), 0.982014),
        (4, Some(0.0), 0.5),
        (5, None, 0.903442),
    ] {
        let device = Default::default();
        let query = Tensor::<B, 4>::ones([1, 1, 1, width], &device);
        let key = Tensor::cat(vec![query.clone(), query.zeros_like()], 1);
        let options = AttentionOptions::default().return_weights();
        let options = scale.into_iter().fold(options, AttentionOptions::scale);
        let weights = attention(query.clone(), key.clone(), key.clone(), &options).weights;
        assert_close(&floats(weights.unwrap())[..1], &[expected], 1e-6);

        let config = MultiHeadAttentionConfig::new(width, 1).with_dropout(0.0);
        let config = scale.into_iter().fold(config, MultiHeadAttentionConfig::with_scale);
        let (query, key) = (query.reshape([1, 1, width]), key.reshape([1, 2, width]));
        let input = MhaInput::new(query, key.clone(), key).weights(Weights::PerHead);
        let weights = core_of(&config).forward(input).weights;
        assert_close(&floats(weights.unwrap())[..1], &[expected], 1e-6);
    }
}

/// The same reports: odd head sizes against the plain reference, forward and backward.
fn br_31_odd_sizes<B: AutodiffBackend>() {
    for width in [1, 3, 5, 63, 65, 80, 96] {
        let case = Case::new(format!("head size {width}"), [2, 2, 5, 7, width, width]);
        check_function::<B>(&case);
        check_module::<B>(&case);
        let grouped = Case { sizes: Sizes { n_kv_heads: 1, ..case.sizes }, ..case };
        check_function::<B>(&Case { scale: Some(0.3), ..grouped });
    }
}
