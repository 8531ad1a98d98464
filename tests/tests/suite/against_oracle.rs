//! The function and the module against the f64 oracle: values and all gradients, on every backend,
//! at most twice as far off as the textbook formula in f32.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::oracle::{Output, Sizes};
use mha::{Attention, MhaInput, Weights, attention};
use mha_tests::{
    Case, Layer, Leaves, as_accurate_as_textbook, assert_as_accurate_as_textbook, cases, floats,
    largest, module_gradients, on_every_backend, tensor, wide,
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

fn check_output<B: Backend>(case: &Case, out: Attention<B>) {
    let exact = case.oracle::<f64>().forward();
    let textbook = case.oracle::<f32>().forward();
    let check = |what, ours: &[f32], theirs: &[f32], exact: &[f64]| {
        let name = format!("{}, {what}", case.name);
        assert_as_accurate_as_textbook(&name, ours, theirs, exact);
    };
    check("context", &floats(out.context), &textbook.context, &exact.context);
    let weights = floats(out.weights.expect("the case asks for weights"));
    check("weights", &weights, &textbook.weights, &exact.weights);
    check_lse(case, &floats(out.lse.expect("the case asks for them")), &textbook, &exact);
}

/// -∞ exactly where the oracle has it, and close elsewhere.
fn check_lse(case: &Case, ours: &[f32], textbook: &Output<f32>, exact: &Output<f64>) {
    let finite = |x: &f64| x.is_finite();
    let there: Vec<bool> = exact.lse.iter().map(finite).collect();
    for (ours, exact) in ours.iter().zip(&exact.lse).filter(|(_, exact)| !exact.is_finite()) {
        assert_eq!(f64::from(*ours), *exact, "{}, lse", case.name);
    }
    let pick = |all: &[f32]| -> Vec<f32> {
        all.iter().zip(&there).filter(|(_, there)| **there).map(|(&x, _)| x).collect()
    };
    let exact: Vec<f64> = exact.lse.iter().copied().filter(finite).collect();
    let name = format!("{}, lse", case.name);
    assert_as_accurate_as_textbook(&name, &pick(ours), &pick(&textbook.lse), &exact);
}

fn function_without_autodiff<B: AutodiffBackend>() {
    for case in function_cases().iter().filter(|case| case.dropout.is_none()) {
        let [query, key, value] = inputs::<B::InnerBackend>(case);
        let (options, _) = case.options();
        check_output(case, attention(query, key, value, &options));
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
    let [query, key, value] = inputs::<B>(case);
    let (options, Leaves { bias, table, memory, sinks, head_scale }) = case.options();
    let out = attention(query.clone(), key.clone(), value.clone(), &options);
    check_output(case, out.clone());

    let [.., d_context] = case.inputs();
    let d_context = tensor::<B, 4, _>(&d_context, out.context.dims());
    let gradients = (out.context * d_context).sum().backward();
    let [.., d_context] = case.inputs();
    let exact = case.named(&case.oracle::<f64>().backward(&wide(&d_context)));
    let textbook = case.named(&case.oracle::<f32>().backward(&d_context));
    let mut ours = Vec::new();
    macro_rules! add {
        ($($name:literal: $tensor:expr),+ $(,)?) => {
            $(if let Some(tensor) = $tensor {
                ours.push(($name, floats(tensor.grad(&gradients).expect("a gradient"))));
            })+
        };
    }
    let (memory_key, memory_value) = memory.map(|[key, value]| (key, value)).unzip();
    add!(
        "query": Some(query), "key": Some(key), "value": Some(value), "bias": bias, "table": table,
        "memory key": memory_key, "memory value": memory_value, "sinks": sinks,
        "head scale": head_scale,
    );
    assert_eq!(ours.len(), exact.len(), "{}: every input has a gradient", case.name);
    for (name, ours) in ours {
        macro_rules! of {
            ($all:ident) => {
                &$all.iter().find(|(other, _)| other == name).expect("the oracle has it").1
            };
        }
        let what = format!("{}, gradient of {name}", case.name);
        assert_as_accurate_as_textbook(&what, &ours, of!(textbook), of!(exact));
    }
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
    let (exact, textbook) = (Layer::<f64>::new(case), Layer::<f32>::new(case));
    let (module, input, inputs) = call::<B>(case, &textbook);
    let out = module.forward(input.weights(Weights::PerHead).lse());

    let (exact_out, textbook_out): (Output<f64>, Output<f32>) =
        (exact.forward(), textbook.forward());
    let check = |what: &str, ours: &[f32], theirs: &[f32], exact: &[f64]| {
        let name = format!("{}, {what}", case.name);
        assert_as_accurate_as_textbook(&name, ours, theirs, exact);
    };
    check("context", &floats(out.context.clone()), &textbook_out.context, &exact_out.context);
    let weights = floats(out.weights.expect("weights were asked for"));
    check("weights", &weights, &textbook_out.weights, &exact_out.weights);
    check_lse(case, &floats(out.lse.expect("asked for")), &textbook_out, &exact_out);

    let d_output = mha_tests::numbers(9, exact_out.context.len());
    let dims = out.context.dims();
    let gradients = (out.context * tensor::<B, 3, _>(&d_output, dims)).sum().backward();
    let read = |data: burn::tensor::TensorData| data.to_vec::<f32>().expect("it holds f32");
    let ours = module_gradients(&module, &inputs, &gradients, read);
    let d_exact = wide(&d_output);
    let (theirs, terms) = (textbook.backward(&d_output), exact.backward_magnitudes(&d_exact));
    let exact = exact.backward(&d_exact);
    for (name, ours) in &ours {
        macro_rules! of {
            ($all:ident) => {
                &$all.iter().find(|(other, _)| other == name).expect("the oracle has it").1
            };
        }
        // The projections and the attention between them: three stages, each with its rounding.
        let magnitude = 3.0 * largest(of!(terms));
        if let Err(error) = as_accurate_as_textbook(ours, of!(theirs), of!(exact), magnitude) {
            panic!("{}, gradient of {name}: {error}", case.name);
        }
    }
    let has_shift = matches!(case.qk_norm, Some(mha::QkNorm::Layer { .. }));
    let expected = exact
        .iter()
        .filter(|(name, _)| *name != "head_scale" && (has_shift || !name.ends_with("norm.beta")));
    assert_eq!(ours.len(), expected.count(), "{}: every parameter has a gradient", case.name);
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
