//! Rotary positions.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::{
    KvCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Positions, Rotary, Weights,
};
use mha_tests::{assert_close, bools, floats, numbers, on_every_backend, tensor, wide};

use super::core_of;
use crate::half::{cast, halves};

on_every_backend!(br_18_rotary_and_cache, br_18_two_layers_token_by_token, br_20_tables_in_f32);

/// A core of one head with keys of two channels, values of one, scores not scaled.
fn two_channels<B: Backend>(rotary: Rotary) -> MultiHeadAttention<B> {
    let config = MultiHeadAttentionConfig::new(2, 1)
        .with_d_value(1)
        .with_value_dim(1)
        .with_d_output(1)
        .with_scale(1.0)
        .with_dropout(0.0)
        .with_position(rotary);
    core_of(&config)
}

/// lucidrains/x-transformers #311 "K/V Caching Bug?" (the query of a cached step is rotated as if
/// it were the first): keys at positions 0 and 3, the query at 3.
fn br_18_rotary_and_cache<B: AutodiffBackend>() {
    for rotary in [Rotary::half(10_000.0), Rotary::interleaved(10_000.0)] {
        let module = two_channels::<B>(rotary);
        let ones = |n: usize| tensor::<B, 3, f32>(&[1.0, 0.0].repeat(n), [1, n, 2]);
        let values = |values: &[f32]| tensor::<B, 3, f32>(values, [1, values.len(), 1]);

        // The two keys alone, with their positions said.
        let input = || MhaInput::new(ones(1), ones(2), values(&[1.0, 2.0]));
        let at = |position: i64| {
            let keys = Positions::Ids(vec![vec![0, 3]]);
            let input = input().query_positions(position).key_positions(keys);
            floats(module.forward(input).context)
        };
        assert_close(&at(3), &[1.879742], 1e-6);
        assert_close(&at(0), &[1.120258], 1e-6); // what the mistake gives
        assert_close(&at(4), &[1.767446], 1e-6);

        // Four tokens, of which two are hidden: in one pass, and after three cached ones.
        let all = [1.0, 7.0, 7.0, 2.0];
        let hidden = || bools(&[false, true, true, false], [1, 4]);
        let whole = MhaInput::new(ones(1), ones(4), values(&all)).mask_pad(hidden());
        assert_close(&floats(module.forward(whole.causal()).context), &[1.879742], 1e-6);
        for mut cache in [KvCache::growing(), KvCache::preallocated(4), KvCache::rolling(4)] {
            let first = MhaInput::new(ones(3), ones(3), values(&all[..3])).causal();
            module.forward_cached(first, &mut cache);
            let last = MhaInput::new(ones(1), ones(1), values(&all[3..])).mask_pad(hidden());
            let out = module.forward_cached(last.causal(), &mut cache).context;
            assert_close(&floats(out), &[1.879742], 1e-6);
        }
    }
}

/// fla-org/flash-linear-attention #766 (a shared counter that layer 0 moves shifts later layers by
/// one): two residual layers, ten tokens one at a time against the whole.
fn br_18_two_layers_token_by_token<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 4)
        .with_n_kv_heads(2)
        .with_head_dim(4)
        .with_dropout(0.0)
        .with_position(Rotary::half(10_000.0));
    let layers = [(); 2].map(|()| config.init::<B>(&Default::default()));
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 10 * 8), [2, 10, 8]);
    let whole = |start: i64| {
        let pass = |x: Tensor<B, 3>, layer: &MultiHeadAttention<B>| {
            let input = MhaInput::self_attn(x.clone()).causal().positions(start);
            x + layer.forward(input).context
        };
        floats(layers.iter().fold(tokens.clone(), pass))
    };
    let stepwise = |start: Option<i64>| {
        let mut caches = [(); 2].map(|()| KvCache::growing());
        let step = |t: usize| {
            let token = tokens.clone().narrow(1, t, 1);
            layers.iter().zip(&mut caches).fold(token, |x, (layer, cache)| {
                let input = MhaInput::self_attn(x.clone()).causal();
                let input = match start {
                    Some(start) => input.positions(start + t as i64),
                    None => input,
                };
                x + layer.forward_cached(input, cache).context
            })
        };
        floats(Tensor::cat((0..10).map(step).collect(), 1))
    };
    let expected = wide(&whole(0));
    assert_close(&stepwise(None), &expected, 1e-5);
    assert_close(&stepwise(Some(0)), &expected, 1e-5);
    // Only the distance counts.
    assert_close(&whole(1000), &expected, 1e-4);
    assert_close(&stepwise(Some(1000)), &expected, 1e-4);
}

/// EleutherAI/gpt-neox #1003 "RotaryEmbedding computation is wrong for certain position/feature
/// pairs in reduced precision" and huggingface/candle PR #3520: positions that bf16 cannot hold.
fn br_20_tables_in_f32<B: AutodiffBackend>() {
    let device = Default::default();
    let mut types = vec![(DType::F32, 1e-6)];
    types.extend(halves::<B::InnerBackend>().into_iter().map(|(dtype, _)| (dtype, 4e-3)));
    for rotary in [Rotary::half(10_000.0), Rotary::interleaved(10_000.0)] {
        for &(dtype, tolerance) in &types {
            let module = cast(two_channels::<B::InnerBackend>(rotary.clone()), dtype);
            // The query [1, 0] at position p and one key at 0: the log-sum-exp is their product,
            // cos p for the key [1, 0] and sin p for [0, 1].
            let turned = |positions: Vec<i64>, key: [f32; 2]| {
                let n = positions.len();
                let query = tensor::<_, 3, f32>(&[1.0, 0.0].repeat(n), [1, n, 2]).cast(dtype);
                let key = tensor::<_, 3, f32>(&key, [1, 1, 2]).cast(dtype);
                let value = Tensor::ones([1, 1, 1], (&device, dtype));
                let input = MhaInput::new(query, key, value).key_positions(0);
                let input = input.query_positions(vec![positions]).weights(Weights::PerHead);
                let out = module.forward(input.lse());
                assert_eq!(out.context.dtype(), dtype);
                assert_eq!(out.weights.unwrap().dtype(), DType::F32);
                floats(out.lse.unwrap())
            };
            assert_close(&turned(vec![15_962], [1.0, 0.0]), &[-0.908016], tolerance);
            let positions = || (0..=16_000).collect::<Vec<i64>>();
            let exact = |of: fn(f64) -> f64| -> Vec<f64> {
                positions().iter().map(|&position| of(position as f64)).collect()
            };
            assert_close(&turned(positions(), [1.0, 0.0]), &exact(f64::cos), tolerance);
            assert_close(&turned(positions(), [0.0, 1.0]), &exact(f64::sin), tolerance);
        }
    }

    // Every pair of a head of eight channels: pair i turns by 10^-i.
    for &(dtype, tolerance) in &types {
        let config = MultiHeadAttentionConfig::new(8, 1)
            .with_scale(1.0)
            .with_dropout(0.0)
            .with_position(Rotary::half(10_000.0));
        let module = cast(core_of::<B::InnerBackend>(&config), dtype);
        for pair in 0..4usize {
            let mut unit = [0.0f32; 8];
            unit[pair] = 1.0;
            let token = tensor::<_, 3, _>(&unit, [1, 1, 8]).cast(dtype);
            for position in [1, 255, 257, 2049, 15_962, 16_000] {
                let input = MhaInput::self_attn(token.clone()).key_positions(0);
                let out = module.forward(input.query_positions(position).lse());
                let angle = position as f64 * 0.1f64.powi(pair as i32);
                assert_close(&floats(out.lse.unwrap()), &[angle.cos()], tolerance);
            }
        }
    }
}
