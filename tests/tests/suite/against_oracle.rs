//! The function and the module against the f64 oracle: values and all gradients, on every backend,
//! at most twice as far off as the textbook formula in f32.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::oracle::Sizes;
use mha::{MhaInput, Weights, attention};
use mha_tests::{
    Case, Layer, Leaves, Named, Yardstick, cases, floats, module_gradients, on_every_backend,
    tensor, wide,
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

/// What a call returned, by name.
fn outputs<B: Backend>(
    context: Vec<f32>,
    weights: Option<Tensor<B, 4>>,
    lse: Option<Tensor<B, 3>>,
) -> Named<f32> {
    let weights = floats(weights.expect("the case asks for weights"));
    let lse = floats(lse.expect("the case asks for them"));
    let all = [("context", context), ("weights", weights), ("lse", lse)];
    all.map(|(name, numbers)| (name.to_string(), numbers)).into()
}

fn function_without_autodiff<B: AutodiffBackend>() {
    for case in function_cases().iter().filter(|case| case.dropout.is_none()) {
        let [query, key, value] = inputs::<B::InnerBackend>(case);
        let (options, _) = case.options();
        let out = attention(query, key, value, &options);
        let ours = outputs(floats(out.context), out.weights, out.lse);
        Yardstick::of_function(case, 0).check(&ours);
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

/// Values and all gradients of one call of the function.
pub(crate) fn check_function<B: AutodiffBackend>(case: &Case) {
    check_function_near::<B>(case, 0);
}

/// [`check_function`], with the textbook's error looked for in `neighbours` too.
pub(crate) fn check_function_near<B: AutodiffBackend>(case: &Case, neighbours: u32) {
    let [query, key, value] = inputs::<B>(case);
    let (options, Leaves { bias, table, memory, sinks, head_scale }) = case.options();
    let out = attention(query.clone(), key.clone(), value.clone(), &options);
    let mut ours = outputs(floats(out.context.clone()), out.weights, out.lse);
    let yardstick = Yardstick::of_function(case, neighbours);
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
        yardstick.check_all_are_there(&ours, |_| true);
    }
    yardstick.check(&ours);
}

/// The module of a case and its input.
fn call<B: Backend>(
    case: &Case,
    layer: &Layer<f32>,
) -> (mha::MultiHeadAttention<B>, MhaInput<B>, [Tensor<B, 3>; 3]) {
    let module = layer.fill(case.config().init(&B::Device::default()));
    let [query, key, value] = layer.tensors();
    let input = MhaInput::new(query.clone(), key.clone(), value.clone());
    (module, case.apply(input), [query, key, value])
}

fn module<B: AutodiffBackend>() {
    for case in cases() {
        check_module::<B>(&case);
    }
}

/// Values and all gradients of one call of a module.
pub(crate) fn check_module<B: AutodiffBackend>(case: &Case) {
    check_module_near::<B>(case, 0);
}

/// [`check_module`], with the textbook's error looked for in `neighbours` too.
pub(crate) fn check_module_near<B: AutodiffBackend>(case: &Case, neighbours: u32) {
    let (module, input, inputs) = call::<B>(case, &Layer::new(case));
    let out = module.forward(input.weights(Weights::PerHead).lse());
    let mut ours = outputs(floats(out.context.clone()), out.weights, out.lse);
    let yardstick = Yardstick::of_module(case, neighbours);
    if case.has_pairs() {
        let d_output = tensor::<B, 3, _>(&case.d_output(), out.context.dims());
        let gradients = (out.context * d_output).sum().backward();
        let read = |data: burn::tensor::TensorData| data.to_vec::<f32>().expect("it holds f32");
        let gradients = module_gradients(&module, &inputs, &gradients, read).into_iter();
        ours.extend(gradients.map(|(name, gradient)| (format!("gradient of {name}"), gradient)));
        let has_shift = matches!(case.qk_norm, Some(mha::QkNorm::Layer { .. }));
        yardstick.check_all_are_there(&ours, |name| {
            !name.ends_with("head_scale") && (has_shift || !name.ends_with("norm.beta"))
        });
    }
    yardstick.check(&ours);
}

fn module_averages_heads<B: AutodiffBackend>() {
    for case in cases() {
        let layer = Layer::<f32>::new(&case);
        let (module, input, _) = call::<B>(&case, &layer);
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
