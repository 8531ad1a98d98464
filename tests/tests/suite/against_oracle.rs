//! The function and the module against the f64 oracle: values and all gradients, on every backend and
//! every path that it has, at most twice as far off as the textbook formula in f32.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::oracle::Sizes;
use mha::{Path, Weights, attention};
use mha_tests::{
    Call, Case, Layer, Leaves, Named, Yardstick, cases, floats, on_every_backend, paths, tensor,
    wide,
};

on_every_backend!(function, function_without_autodiff, module, module_averages_heads);

/// Query, key and value of a case.
fn inputs<B: Backend>(case: &Case) -> [Tensor<B, 4>; 3] {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = case.sizes;
    let [query, key, value, _] = case.inputs();
    [
        tensor(&query, [batch, seq_q, n_heads, head_dim]).require_grad(),
        tensor(&key, [batch, seq_k, n_kv_heads, head_dim]).require_grad(),
        tensor(&value, [batch, seq_k, n_kv_heads, value_dim]).require_grad(),
    ]
}

/// What a call returned, by name; weights on the plain path alone.
fn outputs<B: Backend>(
    path: Path,
    context: Vec<f32>,
    weights: Option<Tensor<B, 4>>,
    lse: Option<Tensor<B, 3>>,
) -> Named<f32> {
    assert_eq!(weights.is_some(), path == Path::Plain);
    let lse = floats(lse.expect("the case asks for them"));
    let weights = weights.map(|weights| ("weights", floats(weights)));
    let all = [Some(("context", context)), weights, Some(("lse", lse))].into_iter().flatten();
    all.map(|(name, numbers)| (name.to_string(), numbers)).collect()
}

fn function_without_autodiff<B: AutodiffBackend>() {
    for case in function_cases().iter().filter(|case| case.dropout.is_none()) {
        let yardstick = Yardstick::of_function(case, 0);
        for path in paths::<B::InnerBackend>() {
            let [query, key, value] = inputs::<B::InnerBackend>(case);
            let (options, _) = case.options(path);
            let out = attention(query, key, value, &options);
            yardstick.check(&outputs(path, floats(out.context), out.weights, out.lse));
        }
    }
}

/// The cases that a function can have.
fn function_cases() -> Vec<Case> {
    cases().into_iter().filter(|case| !case.is_for_modules()).collect()
}

fn function<B: AutodiffBackend>() {
    for case in function_cases() {
        check_function::<B>(&case);
    }
}

/// Sizes are so small that the textbook formula is often exact by luck; see [`Yardstick`].
const NEIGHBOURS: u32 = 32;

/// Values and all gradients of one call of the function.
pub(crate) fn check_function<B: AutodiffBackend>(case: &Case) {
    let yardstick = Yardstick::of_function(case, NEIGHBOURS);
    for path in paths::<B>() {
        check_function_on::<B>(path, case, &yardstick);
    }
}

/// The same in kernels alone.
#[cfg(feature = "wgpu")]
pub(crate) fn check_kernels<B: AutodiffBackend>(case: &Case) {
    check_function_on::<B>(Path::Fused, case, &Yardstick::of_function(case, NEIGHBOURS));
}

fn check_function_on<B: AutodiffBackend>(path: Path, case: &Case, yardstick: &Yardstick<'_>) {
    let [query, key, value] = inputs::<B>(case);
    let (options, Leaves { bias, table, memory, sinks, head_scale }) = case.options(path);
    let out = attention(query.clone(), key.clone(), value.clone(), &options);
    let mut ours = outputs(path, floats(out.context.clone()), out.weights, out.lse);
    if case.has_pairs() {
        let [.., d_context] = case.inputs();
        let d_context = tensor::<B, 4, _>(&d_context, out.context.dims());
        let gradients = (out.context * d_context).sum().backward();
        macro_rules! add {
            ($($name:literal: $tensor:expr),+ $(,)?) => {
                $(if let Some(gradient) = $tensor.and_then(|tensor| tensor.grad(&gradients)) {
                    ours.push((concat!("gradient of ", $name).to_string(), floats(gradient)));
                })+
            };
        }
        let (memory_key, memory_value) = memory.map(|[key, value]| (key, value)).unzip();
        add!(
            "query": Some(query), "key": Some(key), "value": Some(value), "bias": bias,
            "table": table, "memory key": memory_key, "memory value": memory_value,
            "sinks": sinks, "head scale": head_scale,
        );
        yardstick.check_all_are_there(&ours, |name| path == Path::Plain || name != "weights");
    }
    yardstick.check(&ours);
}

/// The call of a case's module.
fn call<B: Backend>(case: &Case) -> Call<B> {
    Call::new(&Layer::new(case), case.config().init(&B::Device::default()))
}

fn module<B: AutodiffBackend>() {
    for case in cases() {
        check_module::<B>(&case);
    }
}

/// Values and all gradients of one call of a module.
pub(crate) fn check_module<B: AutodiffBackend>(case: &Case) {
    let yardstick = Yardstick::of_module(case, NEIGHBOURS);
    for path in paths::<B>() {
        check_module_on::<B>(path, case, &yardstick);
    }
}

fn check_module_on<B: AutodiffBackend>(path: Path, case: &Case, yardstick: &Yardstick<'_>) {
    let call = call::<B>(case);
    let weights = if path == Path::Plain { Weights::PerHead } else { Weights::None };
    let out = call.module.forward(call.input.clone().path(path).weights(weights).lse());
    let mut ours = outputs(path, floats(out.context.clone()), out.weights, out.lse);
    if case.has_pairs() {
        let d_output = tensor::<B, 3, _>(&case.d_output(), out.context.dims());
        ours.extend(call.gradients(&(out.context * d_output).sum().backward()));
        yardstick.check_all_are_there(&ours, |name| path == Path::Plain || name != "weights");
    }
    yardstick.check(&ours);
}

fn module_averages_heads<B: AutodiffBackend>() {
    for case in cases() {
        let Call { module, input, .. } = call::<B>(&case);
        let per_head = module.forward(input.clone().weights(Weights::PerHead)).weights.unwrap();
        let averaged = module.forward(input.clone().weights(Weights::Averaged)).weights.unwrap();
        let none = module.forward(input).weights;
        assert!(none.is_none());

        let Sizes { batch, seq_q, seq_k, .. } = case.sizes;
        assert_eq!(averaged.dims(), [batch, 1, seq_q, seq_k + case.extra_keys()]);
        let expected = wide(&floats(per_head.mean_dim(1)));
        mha_tests::assert_close(&floats(averaged), &expected, 1e-6);
    }
}
