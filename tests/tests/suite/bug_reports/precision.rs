//! Long rows and strong scores.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{assert_close, assert_same, floats, on_every_backend, tensor};

use super::{assert_finite, core_of};
use crate::half::{cast, halves};

on_every_backend!(br_36_long_rows_in_half_precision, br_36_strong_scores);

/// huggingface/candle #3727 "Softmax on f16/bf16 is numerically broken on long axes": a sum of
/// 4,096 equal weights in f16 would stall at 2,048 of them.
fn br_36_long_rows_in_half_precision<B: AutodiffBackend>() {
    fn check<B: Backend>(dtype: DType) {
        let device = B::Device::default();
        let ones = |seq| Tensor::<B, 4>::ones([1, seq, 1, 1], &device).cast(dtype);
        let options = AttentionOptions::default().return_weights();
        let out = attention(ones(1), ones(4096), ones(4096), &options);
        assert_close(&floats(out.weights.unwrap().sum_dim(3)), &[1.0], 1e-5);
        assert_close(&floats(out.context.cast(DType::F32)), &[1.0], 1e-2);

        let module = cast(core_of(&MultiHeadAttentionConfig::new(1, 1).with_dropout(0.0)), dtype);
        let ones = |seq| Tensor::<B, 3>::ones([1, seq, 1], &device).cast(dtype);
        let input = MhaInput::new(ones(1), ones(4096), ones(4096)).weights(Weights::PerHead);
        let out = module.forward(input);
        assert_close(&floats(out.weights.unwrap().sum_dim(3)), &[1.0], 1e-5);
        assert_close(&floats(out.context.cast(DType::F32)), &[1.0], 1e-2);
    }
    check::<B>(DType::F32);
    for (dtype, _) in halves::<B>() {
        check::<B>(dtype);
        check::<B::InnerBackend>(dtype);
    }
}

/// Weights, context and gradients of one query over keys with these scores, which are products of
/// query and key, or a bias.
fn run<B: AutodiffBackend>(scores: &[f32], by_bias: bool) -> [Vec<f32>; 3] {
    let device = Default::default();
    let n = scores.len();
    let query = Tensor::<B, 4>::ones([1, 1, 1, 1], &device).require_grad();
    let products = tensor::<B, 4, _>(scores, [1, n, 1, 1]);
    let key = if by_bias { products.zeros_like() } else { products }.require_grad();
    let value: Vec<f32> = (0..n).map(|j| j as f32).collect();
    let value = tensor::<B, 4, _>(&value, [1, n, 1, 1]).require_grad();
    let options = AttentionOptions::default().scale(1.0).return_weights();
    let options = if by_bias { options.bias(tensor(scores, [1, 1, 1, n])) } else { options };
    let out = attention(query.clone(), key.clone(), value.clone(), &options);
    let gradients = out.context.clone().sum().backward();
    // Not the query's: it has the keys, which differ by the constant, as factors.
    let gradients = [key, value].map(|x| floats(x.grad(&gradients).unwrap())).concat();
    [floats(out.weights.unwrap()), floats(out.context), gradients]
}

/// pytorch/pytorch PR #62897 (the row maximum is not subtracted), and huggingface/candle #3727.
fn br_36_strong_scores<B: AutodiffBackend>() {
    for by_bias in [false, true] {
        // Multiples of a quarter: a constant added to them is added exactly.
        let scores: Vec<f32> = (0..64)
            .map(|j| if j % 2 == 0 { 1e4 } else { -1e4 } + (j * 7 % 13) as f32 / 4.0)
            .collect();
        let [weights, context, gradients] = run::<B>(&scores, by_bias);
        assert_finite(&weights);
        assert_close(&[weights.iter().sum()], &[1.0], 1e-6);
        assert!(weights.iter().skip(1).step_by(2).all(|&x| x == 0.0));
        // The strong half as it would be around 0.
        let total: f64 = (0..64).step_by(2).map(|j| (f64::from(j * 7 % 13) / 4.0).exp()).sum();
        let expected: Vec<f64> =
            (0..64).step_by(2).map(|j| (f64::from(j * 7 % 13) / 4.0).exp() / total).collect();
        let strong: Vec<f32> = weights.iter().step_by(2).copied().collect();
        assert_close(&strong, &expected, 1e-6);
        assert_finite(&context);
        assert_finite(&gradients);
        for constant in [1e4, -1e4, 3e4] {
            let moved: Vec<f32> = scores.iter().map(|x| x + constant).collect();
            let [w, c, g] = run::<B>(&moved, by_bias);
            assert_same(&w, &weights);
            assert_same(&c, &context);
            assert_same(&g, &gradients);
        }

        // One far above the rest takes all.
        for strong in [0, 3, 7] {
            let mut scores = [0.5; 8];
            scores[strong] = 1e4;
            let [weights, context, gradients] = run::<B>(&scores, by_bias);
            let expected: Vec<f32> = (0..8).map(|j| f32::from(u8::from(j == strong))).collect();
            assert_same(&weights, &expected);
            assert_eq!(context, [strong as f32]);
            assert_finite(&gradients);
        }
    }
}
