//! Calls of the module.

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{DType, Tensor};
use mha::{Mask, MhaInput, MultiHeadAttentionConfig, Position, Rotary, T5Buckets, Weights};
use mha_tests::on_every_backend;

use super::{assert_refuses, assert_says, mask, zeros};

on_every_backend!(shapes, options, element_types, positions, weights_and_why);

fn shapes<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2).with_d_key(6).with_d_value(4);
    let module = config.init::<B>(&Default::default());
    let refused = |query, key, value, said| {
        let input = MhaInput::new(zeros::<B, 3>(query), zeros(key), zeros(value));
        assert_refuses(&module, input, said);
    };
    refused(
        [2, 5, 6],
        [2, 7, 6],
        [2, 7, 4],
        "query: expected shape [2, 5, 8] (batch, seq_q, d_model), got [2, 5, 6]",
    );
    refused(
        [2, 5, 8],
        [3, 7, 6],
        [2, 7, 4],
        "key: expected shape [2, 7, 6] (batch, seq_k, d_key), got [3, 7, 6]",
    );
    refused(
        [2, 5, 8],
        [2, 7, 6],
        [2, 5, 4],
        "value: expected shape [2, 7, 4] (batch, seq_k, d_value), got [2, 5, 4]",
    );
    let said = "key: expected shape [2, 7, 6] (batch, seq_k, d_key), got [2, 7, 8]";
    assert_says(module.cache_memory(zeros([2, 7, 8]), zeros([2, 7, 4])), said);
}

fn options<B: AutodiffBackend>() {
    let module = MultiHeadAttentionConfig::new(8, 2).init::<B>(&Default::default());
    let refused = |change: fn(MhaInput<B>) -> MhaInput<B>, said| {
        let input = MhaInput::new(zeros::<B, 3>([2, 5, 8]), zeros([2, 7, 8]), zeros([2, 7, 8]));
        assert_refuses(&module, change(input), said);
    };
    refused(
        |input| input.mask_pad(mask([2, 5])),
        "mask_pad: expected shape [2, 7] (batch, seq_k), got [2, 5]",
    );
    refused(
        |input| input.mask_attn(mask([2, 7, 5])),
        "mask_attn: expected shape [2, 5, 7] (batch, seq_q, seq_k), each axis may also be 1, got \
         [2, 7, 5]",
    );
    refused(
        |input| input.mask(Mask::block(mask::<B, 4>([2, 3, 5, 7]))),
        "mask.block: expected shape [2, 2, 5, 7] (batch, n_heads, seq_q, seq_k), each axis may \
         also be 1, got [2, 3, 5, 7]",
    );
    refused(
        |input| input.mask(Mask::lengths(vec![8])),
        "mask.lengths must be at most 7 (seq_k), got 8",
    );
    refused(
        |input| input.bias(zeros([2, 2, 5, 5])),
        "bias: expected shape [2, 2, 5, 7] (batch, n_heads, seq_q, seq_k), each axis may also be \
         1, got [2, 2, 5, 5]",
    );
    refused(
        |input| input.head_scale(zeros([3])),
        "head_scale: expected shape [2] (n_heads), got [3]",
    );
    refused(
        |input| input.t5(T5Buckets::causal(), zeros([32, 3])),
        "t5 table: expected shape [32, 2] (n_buckets, n_heads), got [32, 3]",
    );
    refused(
        |input| input.t5(T5Buckets::causal().with_n_buckets(1), zeros([1, 2])),
        "n_buckets must be at least 2, got 1",
    );
    refused(
        |input| input.query_offset(vec![0, 1, 2]),
        "query_offset must have 1 or 2 (batch) entries, got 3",
    );
}

fn element_types<B: AutodiffBackend>() {
    let device = Default::default();
    // NdArray has f64 and no f16, GPUs have f16 and no f64.
    let has = |dtype: &DType| B::supports_dtype(&device, *dtype);
    let Some(other) = [DType::F16, DType::F64].into_iter().find(has) else { return };
    let module = MultiHeadAttentionConfig::new(8, 2).init::<B>(&device);
    let tokens = || zeros::<B, 3>([2, 5, 8]);
    let cast = |x: Tensor<B, 3>| x.cast(other);
    let refused = |input, said: &str| {
        assert_refuses(&module, input, &format!("{said} has, got {other:?}"));
    };
    refused(
        MhaInput::self_attn(cast(tokens())),
        "query: expected dtype F32 as the parameter query.weight",
    );
    refused(MhaInput::new(tokens(), cast(tokens()), tokens()), "key: expected dtype F32 as query");
    refused(
        MhaInput::new(tokens(), tokens(), cast(tokens())),
        "value: expected dtype F32 as query",
    );
    let input = || MhaInput::self_attn(tokens());
    let bias = zeros::<B, 4>([1; 4]).cast(other);
    refused(input().bias(bias), "bias: expected dtype F32 as query");
    let scale = zeros::<B, 1>([2]).cast(other);
    refused(input().head_scale(scale), "head_scale: expected dtype F32 as query");
    let table = zeros::<B, 2>([32, 2]).cast(other);
    refused(input().t5(T5Buckets::causal(), table), "t5 table: expected dtype F32 as query");
}

fn positions<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2).with_position(Rotary::half(1e4));
    let module = config.init::<B>(&Default::default());
    let input = || MhaInput::new(zeros::<B, 3>([2, 5, 8]), zeros([2, 7, 8]), zeros([2, 7, 8]));
    assert_refuses(
        &module,
        input().query_positions(vec![0, 1, 2]),
        "query_positions must be given for 1 or 2 (batch) entries, got 3",
    );
    assert_refuses(
        &module,
        input().key_positions(vec![vec![0; 7], vec![0; 6]]),
        "key_positions must be 7 per entry, got 6",
    );
    // Any position has an angle, and any offset is one.
    for end in [i64::MIN, i64::MAX] {
        module.try_forward(input().positions(end)).expect("it turns");
        module.try_forward(input().query_positions(vec![vec![end; 5]])).expect("it turns");
        for position in [Rotary::half(1e4).into(), Position::Alibi, T5Buckets::causal().into()] {
            let config = MultiHeadAttentionConfig::new(8, 2).with_position(position);
            let module = config.init::<B>(&Default::default());
            module.try_forward(input().causal().query_offset(end)).expect("it fits");
        }
    }
}

fn weights_and_why<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2).with_bias_kv(1);
    let module = config.init::<B>(&Default::default());
    let input = || MhaInput::self_attn(zeros::<B, 3>([2, 5, 8])).weights(Weights::PerHead);
    let weights = |heads: &[usize], rows: &[usize]| module.weights_of(input(), heads, rows);
    assert_says(weights(&[0, 2], &[0]), "heads must be below 2 (n_heads), got 2");
    assert_says(weights(&[0], &[4, 5]), "rows must be below 5 (seq_q), got 5");

    let explanation = module.explain(&input()).expect("it fits");
    assert_says(explanation.why(2, 0, 0, 0), "b must be below 2 (batch), got 2");
    assert_says(explanation.why(0, 2, 0, 0), "h must be below 2 (n_heads), got 2");
    assert_says(explanation.why(0, 0, 5, 0), "i must be below 5 (seq_q), got 5");
    let said = "j must be below 6 (seq_k, bias_kv and zero key), got 6";
    assert_says(explanation.why(0, 0, 0, 6), said);
    assert!(explanation.why(0, 0, 0, 5).is_ok(), "the memory's key");

    let said = "query: expected shape [2, 5, 8] (batch, seq_q, d_model), got [2, 5, 7]";
    let wrong = MhaInput::self_attn(zeros::<B, 3>([2, 5, 7]));
    assert_says(module.explain(&wrong), said);
    assert_says(module.weights_of(wrong, &[0], &[0]), said);
}

/// Burn would mix tensors of two devices in one operation, and panic there.
#[cfg(feature = "wgpu")]
#[test]
fn devices() {
    use burn::backend::{Wgpu, wgpu::WgpuDevice};
    let module = MultiHeadAttentionConfig::new(8, 2).init::<Wgpu>(&WgpuDevice::DefaultDevice);
    let on = |device| Tensor::<Wgpu, 3>::zeros([2, 5, 8], &device);
    assert_refuses(
        &module,
        MhaInput::self_attn(on(WgpuDevice::Cpu)),
        "query: expected on device DefaultDevice where the parameter query.weight is, got Cpu",
    );
    let there = Tensor::<Wgpu, 2>::zeros([2, 5], &WgpuDevice::Cpu).bool();
    assert_refuses(
        &module,
        MhaInput::self_attn(on(WgpuDevice::DefaultDevice)).mask_pad(there),
        "mask_pad: expected on device DefaultDevice where query is, got Cpu",
    );
}
