//! f16 and bf16: computed in f32, given back in the input's type. NdArray has neither.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::{
    AttentionOptions, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Path, Weights,
    attention,
};
use mha_tests::{assert_close, floats, largest, numbers, on_every_backend, paths, tensor, wide};

on_every_backend!(function, module);

/// The half types of a backend, with the distance from 1 to the next number.
pub(crate) fn halves<B: Backend>() -> Vec<(DType, f64)> {
    let all = [(DType::F16, 2f64.powi(-10)), (DType::BF16, 2f64.powi(-7))];
    let device = B::Device::default();
    all.into_iter().filter(|&(dtype, _)| B::supports_dtype(&device, dtype)).collect()
}

/// Which types are tested at all: a backend that lost one would pass by skipping it.
#[test]
fn halves_are_there() {
    #[cfg(feature = "flex")]
    assert_eq!(halves::<burn::backend::Flex>().len(), 2);
    #[cfg(feature = "ndarray")]
    assert_eq!(halves::<burn::backend::NdArray>().len(), 0);
    #[cfg(feature = "wgpu")]
    assert!(halves::<burn::backend::Wgpu>().iter().any(|&(dtype, _)| dtype == DType::F16));
}

fn halves_on_paths<B: Backend>() -> impl Iterator<Item = ((DType, f64), Path)> {
    halves::<B>()
        .into_iter()
        .flat_map(|half| paths::<B>().into_iter().map(move |path| (half, path)))
}

fn function<B: AutodiffBackend>() {
    for ((dtype, epsilon), path) in halves_on_paths::<B>() {
        let half = |seed, seq| {
            let x = tensor::<B, 4, _>(&numbers(seed, 2 * seq * 3 * 4), [2, seq, 3, 4]);
            x.cast(dtype).detach().require_grad()
        };
        let in_half = [half(1, 5), half(2, 7), half(3, 7)];
        let in_f32 = in_half.clone().map(|x| x.cast(DType::F32).detach().require_grad());
        let run = |[query, key, value]: [Tensor<B, 4>; 3]| {
            let options = AttentionOptions::default().causal().path(path);
            let options =
                if path == Path::Plain { options.return_weights() } else { options.return_lse() };
            let out = attention(query.clone(), key.clone(), value.clone(), &options);
            let loss = out.context.clone().cast(DType::F32).powi_scalar(2).sum();
            let gradients = loss.backward();
            let gradients = [query, key, value].map(|x| x.grad(&gradients).unwrap());
            (out, gradients)
        };
        let ((ours, our_gradients), (exact, gradients)) = (run(in_half), run(in_f32));
        // The same computation in f32, but for the rounding of what goes in and out.
        assert_eq!(ours.context.dtype(), dtype);
        if let Some((ours, exact)) = ours.weights.zip(exact.weights) {
            assert_eq!(ours.dtype(), DType::F32);
            assert_close(&floats(ours), &wide(&floats(exact)), 1e-6);
        }
        if let Some((ours, exact)) = ours.lse.zip(exact.lse) {
            assert_eq!(ours.dtype(), DType::F32);
            assert_close(&floats(ours), &wide(&floats(exact)), 1e-6);
        }
        let context = floats(ours.context.cast(DType::F32));
        assert_close(&context, &wide(&floats(exact.context)), 1.5 * epsilon);
        for (ours, exact) in our_gradients.into_iter().zip(gradients) {
            let exact = wide(&floats(exact));
            let magnitude = largest(&exact).max(1.0);
            assert_close(&floats(ours.cast(DType::F32)), &exact, 4.0 * epsilon * magnitude);
        }
    }
}

/// The module with its parameters in another type.
pub(crate) fn cast<B: Backend>(
    module: MultiHeadAttention<B>,
    dtype: DType,
) -> MultiHeadAttention<B> {
    struct Cast(DType);

    impl<B: Backend> ModuleMapper<B> for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            param.map(|tensor| tensor.cast(self.0))
        }
    }

    module.map(&mut Cast(dtype))
}

fn module<B: AutodiffBackend>() {
    for ((dtype, epsilon), path) in halves_on_paths::<B::InnerBackend>() {
        let device = Default::default();
        let config = MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0);
        let module = config.init::<B::InnerBackend>(&device);
        let tokens = tensor(&numbers(1, 2 * 5 * 8), [2, 5, 8]);
        let exact = module.forward(MhaInput::self_attn(tokens.clone())).context;
        let module = cast(module, dtype);
        let weights = if path == Path::Plain { Weights::PerHead } else { Weights::None };
        let input = MhaInput::self_attn(tokens.clone().cast(dtype)).weights(weights).path(path);
        let out = module.forward(input);
        assert_eq!(out.context.dtype(), dtype);
        assert!(out.weights.is_none_or(|weights| weights.dtype() == DType::F32));
        let ours = floats(out.context.cast(DType::F32));
        assert_close(&ours, &wide(&floats(exact)), 8.0 * epsilon);

        // Parameters in one type and tokens in another are refused by name.
        let error = module.try_forward(MhaInput::self_attn(tokens)).map(drop).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("query: expected dtype {dtype:?} as the parameter query.weight has, got F32")
        );
    }
}
