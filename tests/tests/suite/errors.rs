//! Every message of a refused input or record, word for word; the panicking calls say the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Tensor};
use mha::{
    AttentionOptions, Mask, Masking, MhaInput, MultiHeadAttentionConfig, attention, try_attention,
};
use mha_tests::{AnyBackend, on_every_backend};

on_every_backend!(inputs_of_the_module, inputs_of_the_function);

fn zeros<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D> {
    Tensor::zeros(dims, &B::Device::default())
}

fn mask<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D, Bool> {
    Tensor::<B, D, Bool>::empty(dims, &B::Device::default())
}

/// The text of a panic.
fn panic_text<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("a panic");
    panic.downcast_ref::<String>().expect("a message").clone()
}

fn inputs_of_the_module<B: AutodiffBackend>() {
    let module = MultiHeadAttentionConfig::new(8, 2).init::<B>(&Default::default());
    let input =
        |query, key, value| MhaInput::<B>::new(zeros::<B, 3>(query), zeros(key), zeros(value));
    let good = || input([2, 5, 8], [2, 7, 8], [2, 7, 8]);
    let narrow = |x: Tensor<B, 3>| x.cast(DType::F16);
    let mut cases = vec![
        (
            input([2, 5, 6], [2, 7, 8], [2, 7, 8]),
            "query: expected shape [2, 5, 8] (batch, seq_q, d_model), got [2, 5, 6]",
        ),
        (
            input([2, 5, 8], [3, 7, 8], [2, 7, 8]),
            "key: expected shape [2, 7, 8] (batch, seq_k, d_key), got [3, 7, 8]",
        ),
        (
            input([2, 5, 8], [2, 7, 8], [2, 5, 8]),
            "value: expected shape [2, 7, 8] (batch, seq_k, d_value), got [2, 5, 8]",
        ),
        (
            good().mask_pad(mask([2, 5])),
            "mask_pad: expected shape [2, 7] (batch, seq_k), got [2, 5]",
        ),
        (
            good().mask_attn(mask([2, 7, 5])),
            "mask_attn: expected shape [2, 5, 7] (batch, seq_q, seq_k), each axis may also be 1, \
             got [2, 7, 5]",
        ),
        (
            good().mask(Mask::block(mask::<B, 4>([2, 3, 5, 7]))),
            "mask.block: expected shape [2, 2, 5, 7] (batch, n_heads, seq_q, seq_k), each axis may also be 1, got [2, 3, 5, 7]",
        ),
        (
            good().bias(zeros([2, 2, 5, 5])),
            "bias: expected shape [2, 2, 5, 7] (batch, n_heads, seq_q, seq_k), each axis may also \
             be 1, got [2, 2, 5, 5]",
        ),
    ];
    // NdArray has no f16 to make such an input of.
    if B::supports_dtype(&Default::default(), DType::F16) {
        let tokens = || zeros::<B, 3>([2, 5, 8]);
        cases.push((
            MhaInput::self_attn(narrow(tokens())),
            "query: expected dtype F32 as the parameter query.weight has, got F16",
        ));
        cases.push((
            MhaInput::new(tokens(), narrow(tokens()), tokens()),
            "key: expected dtype F32 as query has, got F16",
        ));
    }
    for (input, said) in cases {
        let error = module.try_forward(input.clone()).map(drop).expect_err(said);
        assert_eq!(error.to_string(), said);
        assert_eq!(panic_text(|| module.forward(input)), said);
    }
}

fn inputs_of_the_function<B: AutodiffBackend>() {
    let call = |query, key, value, options: AttentionOptions<B>| {
        let [query, key, value] = [query, key, value].map(zeros::<B, 4>);
        let panic = panic_text(|| attention(query.clone(), key.clone(), value.clone(), &options));
        let error = try_attention(query, key, value, &options).map(drop).expect_err("an error");
        assert_eq!(error.to_string(), panic);
        panic
    };
    let none = AttentionOptions::default;
    assert_eq!(
        call([2, 5, 3, 4], [2, 7, 3, 6], [2, 7, 3, 4], none()),
        "key: expected shape [2, 7, 3, 4] (batch, seq_k, n_kv_heads, head_dim), got [2, 7, 3, 6]"
    );
    assert_eq!(
        call([2, 5, 3, 4], [2, 7, 1, 4], [2, 7, 3, 4], none()),
        "value: expected shape [2, 7, 1, 4] (batch, seq_k, n_kv_heads, value_dim), got [2, 7, 3, 4]"
    );
    assert_eq!(
        call([2, 5, 3, 4], [2, 7, 2, 4], [2, 7, 2, 4], none()),
        "n_kv_heads must divide n_heads, got n_kv_heads 2 and n_heads 3"
    );
    assert_eq!(
        call([2, 5, 3, 4], [2, 7, 3, 4], [2, 6, 3, 9], none()),
        "value: expected shape [2, 7, 3, 9] (batch, seq_k, n_kv_heads, value_dim), got [2, 6, 3, 9]"
    );
    assert_eq!(
        call([2, 5, 3, 0], [2, 7, 3, 0], [2, 7, 3, 4], none()),
        "query, key and value must have heads and features, got n_heads 3, n_kv_heads 3, head_dim 0, \
         value_dim 4"
    );
    let good =
        |options: AttentionOptions<B>| call([2, 5, 3, 4], [2, 7, 3, 4], [2, 7, 3, 4], options);
    assert_eq!(good(none().dropout(1.5)), "dropout must be a probability in [0, 1), got 1.5");
    assert_eq!(good(none().scale(f64::NAN)), "scale must be finite in f32, got NaN");
    assert_eq!(good(none().softcap(0.0)), "softcap must be in [1e-30, 1e30], got 0");
    assert_eq!(
        good(none().masking(Masking::Overwrite { min_float: f64::NAN })),
        "min_float must be finite in f32, got NaN"
    );
}

#[test]
fn records() {
    let init = |d_model: usize, bias: bool| {
        let config = MultiHeadAttentionConfig::new(d_model, 2).with_bias(bias);
        config.init::<AnyBackend>(&Default::default())
    };
    let load = |module: mha::MultiHeadAttention<AnyBackend>, record| {
        module.try_load_record(record).map(drop).map_err(|error| error.to_string())
    };
    let says = |text: &str| Err(text.to_string());
    assert_eq!(
        load(init(8, true), init(6, true).into_record()),
        says("query.weight: expected shape [8, 8] (d_input, d_output), got [6, 6]")
    );
    assert_eq!(
        load(init(8, true), init(8, false).into_record()),
        says("query.bias: expected a parameter, the record has none")
    );
    assert_eq!(
        load(init(8, false), init(8, true).into_record()),
        says("query.bias: expected none, the record has one")
    );
    // One parameter of another shape in the middle is found too.
    let mut record = init(8, true).into_record();
    record.value.bias = init(6, true).into_record().value.bias;
    assert_eq!(
        load(init(8, true), record),
        says("value.bias: expected shape [8] (d_output), got [6]")
    );
    assert_eq!(load(init(8, true), init(8, true).into_record()), Ok(()));
}

/// Burn would mix tensors of two devices in one operation, and panic there.
#[cfg(feature = "wgpu")]
#[test]
fn devices() {
    use burn::backend::{Wgpu, wgpu::WgpuDevice};
    let module = MultiHeadAttentionConfig::new(8, 2).init::<Wgpu>(&WgpuDevice::DefaultDevice);
    let tokens = Tensor::<Wgpu, 3>::zeros([2, 5, 8], &WgpuDevice::Cpu);
    let error = module.try_forward(MhaInput::self_attn(tokens)).map(drop).expect_err("an error");
    assert_eq!(
        error.to_string(),
        "query: expected on device DefaultDevice where the parameter query.weight is, got Cpu"
    );
}
