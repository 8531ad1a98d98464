//! What Burn does to a module from outside: checkpointing, quantising, moving to a device.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Tensor, TensorData};
use mha::{
    Gate, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Position, QkNorm, Rotary,
    Sink, T5Buckets,
};
use mha_tests::{assert_same, coins, floats, largest, numbers, on_every_backend, tensor, wide};

on_every_backend!(layer_in_half, fork_is_the_same);

/// Checkpointing that computes some steps again on the way back, with NdArray alone: it is Burn's
/// graph that differs, and not the backend.
#[cfg(feature = "ndarray")]
mod checkpointing {
    use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
    use burn::backend::{Autodiff, NdArray};
    use mha::{Path, Weights};
    use mha_tests::{Case, Layer, cases, module_gradients};

    use super::super::against_oracle::{check_function, check_module};
    use super::*;

    type Balanced = Autodiff<NdArray, BalancedCheckpointing>;

    #[test]
    fn function_against_oracle() {
        for case in cases().iter().filter(|case| !case.is_for_modules()) {
            check_function::<Balanced>(case);
        }
    }

    #[test]
    fn module_against_oracle() {
        for case in cases() {
            check_module::<Balanced>(&case);
        }
    }

    /// Output, on the plain path weights, and all gradients.
    fn run<B: AutodiffBackend>(case: &Case, path: Path) -> Vec<Vec<f32>> {
        let layer = Layer::<f32>::new(case);
        let module = layer.fill(case.config().init::<B>(&B::Device::default()));
        let [query, key, value] = layer.tensors();
        let input = MhaInput::new(query.clone(), key.clone(), value.clone());
        let weights = if path == Path::Plain { Weights::PerHead } else { Weights::None };
        let out = module.forward(case.apply(input).weights(weights).path(path));
        let gradients = out.context.clone().powi_scalar(2).sum().backward();
        let read = |data: burn::tensor::TensorData| data.to_vec::<f32>().expect("it holds f32");
        let gradients = module_gradients(&module, &[query, key, value], &gradients, read);
        let outputs = [Some(floats(out.context)), out.weights.map(floats)].into_iter().flatten();
        outputs.chain(gradients.into_iter().map(|(_, gradient)| gradient)).collect()
    }

    #[test]
    fn same_bits_as_without() {
        let on = |path| cases().into_iter().map(move |case| (path, case));
        for (path, case) in on(Path::Plain).chain(on(Path::Fused)) {
            let ours = run::<Balanced>(&case, path);
            let expected = run::<Autodiff<NdArray>>(&case, path);
            assert_eq!(ours.len(), expected.len(), "{}", case.name);
            for (ours, expected) in ours.iter().zip(&expected) {
                assert_same(ours, expected);
            }
        }
    }
}

/// 8 bits for a number, on the backends that hold each in a byte; GPU backends pack four into a
/// word, and refuse parameters of other widths.
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod quantised {
    use burn::module::Quantizer;
    use burn::tensor::ops::QuantizedTensor;
    use burn::tensor::quantization::{
        Calibration, QTensorPrimitive, QuantLevel, QuantParam, QuantValue,
    };
    use mha::{AttentionOptions, attention};
    use mha_tests::max_error;

    use super::*;

    #[cfg(feature = "ndarray")]
    #[test]
    fn on_ndarray() {
        weights::<burn::backend::NdArray>();
        whole::<burn::backend::NdArray>();
    }

    #[cfg(feature = "flex")]
    #[test]
    fn on_flex() {
        weights::<burn::backend::Flex>();
        whole::<burn::backend::Flex>();
    }

    /// The module with all its parameters in 8 bits.
    fn quantised<B: Backend>(module: MultiHeadAttention<B>) -> MultiHeadAttention<B> {
        let scheme = <QuantizedTensor<B> as QTensorPrimitive>::default_scheme()
            .with_value(QuantValue::Q8S)
            .with_level(QuantLevel::Tensor)
            .with_param(QuantParam::F32);
        module.quantize_weights(&mut Quantizer { calibration: Calibration::MinMax, scheme })
    }

    /// Quantised to 8 bits a module computes with Burn's own quantised product, and its output moves by
    /// what 8 bits are coarse.
    fn weights<B: Backend>() {
        let device = Default::default();
        let config = MultiHeadAttentionConfig::new(24, 3).with_n_kv_heads(1).with_dropout(0.0);
        let module = config.init::<B>(&device);
        let tokens = tensor(&numbers(1, 2 * 5 * 24), [2, 5, 24]);
        let input = || MhaInput::self_attn(Tensor::clone(&tokens)).causal();
        let exact = wide(&floats(module.forward(input()).context));

        let module = quantised(module);
        for linear in [&module.query, &module.key, &module.value, &module.output] {
            assert!(matches!(linear.weight.val().dtype(), DType::QFloat(_)), "it stays quantised");
        }
        let ours = floats(module.forward(input()).context);

        let project = |linear: &Linear<B>, heads: usize| {
            linear.forward(tokens.clone()).reshape([2, 5, heads, 8])
        };
        let [query, key, value] =
            [project(&module.query, 3), project(&module.key, 1), project(&module.value, 1)];
        let context = attention(query, key, value, &AttentionOptions::default().causal()).context;
        let by_hand = module.output.forward(context.reshape([2, 5, 24]));
        assert_same(&ours, &floats(by_hand));

        let error = max_error(&ours, &exact);
        assert!(error > 0.0, "nothing was quantised");
        assert!(error < 0.05 * largest(&exact), "error {error} of {}", largest(&exact));
    }

    /// Norms, memory, table, sinks and gate may be in 8 bits too.
    fn whole<B: Backend>() {
        let device = Default::default();
        for module in modules::<B>(&device) {
            let exact = wide(&floats(module.forward(input(&device)).context));
            let ours = floats(quantised(module).forward(input(&device)).context);
            let error = max_error(&ours, &exact);
            assert!(error > 0.0, "nothing was quantised");
            assert!(error < 0.05 * largest(&exact), "error {error} of {}", largest(&exact));
        }
    }
}

/// Modules that have every kind of parameter between them.
fn modules<B: Backend>(device: &B::Device) -> Vec<MultiHeadAttention<B>> {
    let positions = [Position::from(Rotary::half(100.0)), T5Buckets::causal().into()];
    let config = |position: Position| {
        MultiHeadAttentionConfig::new(12, 3)
            .with_n_kv_heads(1)
            .with_position(position)
            .with_qk_norm(QkNorm::Layer { epsilon: 1e-6 })
            .with_bias_kv(2)
            .with_sink(Sink::Learned)
            .with_gate(Gate::Elementwise)
            .with_dropout(0.0)
    };
    positions.map(|position| config(position).init(device)).into()
}

/// A module of which one layer was cast is refused by that layer's name. NdArray has no half types.
fn layer_in_half<B: AutodiffBackend>() {
    let device = Default::default();
    if !B::supports_dtype(&device, DType::F16) {
        return;
    }
    let said = |change: fn(&mut MultiHeadAttention<B>)| {
        let mut all = modules::<B>(&device).into_iter();
        let mut module = all.next().expect("a module");
        change(&mut module);
        module.try_forward(input(&device)).map(drop).expect_err("an error").to_string()
    };
    assert_eq!(
        said(|module| to_half(&mut module.query)),
        "query: expected dtype F16 as the parameter query.weight has, got F32"
    );
    let expected = |name: &str| format!("{name}: expected dtype F32 as query.weight has, got F16");
    assert_eq!(said(|module| to_half(&mut module.key)), expected("key.weight"));
    assert_eq!(said(|module| to_half(&mut module.output)), expected("output.weight"));
    assert_eq!(
        said(|module| to_half(module.gate.as_mut().expect("a gate"))),
        expected("gate.weight")
    );
}

fn to_half<B: Backend>(linear: &mut Linear<B>) {
    linear.weight = linear.weight.clone().map(|weight| weight.cast(DType::F16));
}

/// Self-attention with a dense mask, all of it on this device.
fn input<B: Backend>(device: &B::Device) -> MhaInput<B> {
    let tokens = TensorData::new(numbers(1, 2 * 5 * 12), [2, 5, 12]);
    let tokens = Tensor::<B, 3>::from_data(tokens, (device, DType::F32));
    let hidden = TensorData::new(coins(2, 2 * 5 * 5, 20), [2, 5, 5]);
    let hidden = Tensor::<B, 3, Bool>::from_data(hidden, device);
    MhaInput::self_attn(tokens).mask(Mask::block(hidden)).causal()
}

/// The output, and the gradient of a weight at either end.
fn run<B: AutodiffBackend>(module: &MultiHeadAttention<B>, device: &B::Device) -> [Vec<f32>; 3] {
    let out = module.forward(input(device)).context;
    let gradients = out.clone().powi_scalar(2).sum().backward();
    let of = |weight: &Tensor<B, 2>| floats(weight.grad(&gradients).expect("a gradient"));
    [floats(out), of(&module.query.weight.val()), of(&module.output.weight.val())]
}

/// A fork trains on its own: it gives the same output, and its own parameters have the gradients.
fn fork_is_the_same<B: AutodiffBackend>() {
    let device = Default::default();
    for module in modules::<B>(&device) {
        let expected = run(&module, &device);
        for (ours, expected) in run(&module.clone().fork(&device), &device).iter().zip(&expected) {
            assert_same(ours, expected);
        }
        let moved = module.to_device(&device).forward(input(&device)).context;
        assert_same(&floats(moved), &expected[0]);
    }
}

/// The same on a second device, to which the parameters travel as a record: between two wgpu
/// devices Burn 0.21's own `to_device` panics inside CubeCL, for a plain tensor too.
#[cfg(feature = "wgpu")]
#[test]
fn a_second_device() {
    use burn::backend::{Autodiff, Wgpu, wgpu::WgpuDevice};
    use burn::record::{FullPrecisionSettings, NamedMpkBytesRecorder, Recorder};
    use mha_tests::assert_close;
    type B = Autodiff<Wgpu>;
    let (first, second) = (WgpuDevice::DefaultDevice, WgpuDevice::Cpu);
    let recorder = NamedMpkBytesRecorder::<FullPrecisionSettings>::default();
    for (module, other) in modules::<B>(&first).into_iter().zip(modules::<B>(&second)) {
        let expected = run(&module, &first);
        let bytes = recorder.record(module.into_record(), ()).expect("saves");
        let fork = other.load_record(recorder.load(bytes, &second).expect("loads"));
        assert_eq!(fork.devices(), std::slice::from_ref(&second));
        for (ours, expected) in run(&fork, &second).iter().zip(&expected) {
            let expected = wide(expected);
            assert_close(ours, &expected, 1e-5 * largest(&expected).max(1.0));
        }
    }
}
