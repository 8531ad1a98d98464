//! The function and the module against the f64 oracle: values and all gradients, on every backend,
//! at most twice as far off as the textbook formula in f32.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::oracle::{Output, Sizes};
use mha::{Attention, MhaInput, Weights, attention};
use mha_tests::{
    Case, Layer, LayerGradients, as_accurate_as_textbook, assert_as_accurate_as_textbook, cases,
    floats, largest, on_every_backend, tensor, wide,
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
}

fn function_without_autodiff<B: AutodiffBackend>() {
    for case in cases().iter().filter(|case| case.dropout.is_none()) {
        let [query, key, value] = inputs::<B::InnerBackend>(case);
        let (options, _) = case.options();
        check_output(case, attention(query, key, value, &options));
    }
}

fn function<B: AutodiffBackend>() {
    for case in cases() {
        let [query, key, value] = inputs::<B>(&case);
        let (options, bias) = case.options();
        let out = attention(query.clone(), key.clone(), value.clone(), &options);
        check_output(&case, out.clone());

        let [.., d_context] = case.inputs();
        let d_context = tensor::<B, 4, _>(&d_context, out.context.dims());
        let gradients = (out.context * d_context).sum().backward();
        let [.., d_context] = case.inputs();
        let exact = case.oracle::<f64>().backward(&wide(&d_context));
        let textbook = case.oracle::<f32>().backward(&d_context);
        let check = |what, ours: Tensor<B::InnerBackend, 4>, theirs: &[f32], exact: &[f64]| {
            let name = format!("{}, gradient of {what}", case.name);
            assert_as_accurate_as_textbook(&name, &floats(ours), theirs, exact);
        };
        let grad = |tensor: &Tensor<B, 4>| tensor.grad(&gradients).expect("a gradient");
        check("query", grad(&query), &textbook.query, &exact.query);
        check("key", grad(&key), &textbook.key, &exact.key);
        check("value", grad(&value), &textbook.value, &exact.value);
        if let Some(bias) = bias {
            let theirs = case.bias_gradient(&textbook.bias);
            check("bias", grad(&bias), &theirs, &case.bias_gradient(&exact.bias));
        }
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
        let (exact, textbook) = (Layer::<f64>::new(&case), Layer::<f32>::new(&case));
        let (module, input, inputs) = call::<B>(&case, &textbook);
        let out = module.forward(input.weights(Weights::PerHead));

        let (exact_out, textbook_out): (Output<f64>, Output<f32>) =
            (exact.forward(), textbook.forward());
        let check = |what: &str, ours: &[f32], theirs: &[f32], exact: &[f64]| {
            let name = format!("{}, {what}", case.name);
            assert_as_accurate_as_textbook(&name, ours, theirs, exact);
        };
        check("context", &floats(out.context.clone()), &textbook_out.context, &exact_out.context);
        let weights = floats(out.weights.expect("weights were asked for"));
        check("weights", &weights, &textbook_out.weights, &exact_out.weights);

        let d_output = mha_tests::numbers(9, exact_out.context.len());
        let dims = out.context.dims();
        let gradients = (out.context * tensor::<B, 3, _>(&d_output, dims)).sum().backward();
        let ours = LayerGradients::of(&module, &inputs, &gradients);
        let (theirs, magnitudes) =
            (textbook.backward(&d_output), exact.backward_magnitudes(&wide(&d_output)));
        let exact = exact.backward(&wide(&d_output));
        // The projections and the attention between them: three stages, each with its rounding.
        let check = |what: String, ours: &[f32], theirs: &[f32], exact: &[f64], terms: &[f64]| {
            if let Err(error) = as_accurate_as_textbook(ours, theirs, exact, 3.0 * largest(terms)) {
                panic!("{}, gradient of {what}: {error}", case.name);
            }
        };
        for (index, name) in ["query", "key", "value", "output"].into_iter().enumerate() {
            macro_rules! check_field {
                ($what:expr, $field:ident) => {
                    let (exact, terms) = (&exact.$field[index], &magnitudes.$field[index]);
                    check($what, &ours.$field[index], &theirs.$field[index], exact, terms);
                };
            }
            if index < 3 {
                check_field!(format!("the input {name}"), inputs);
            }
            check_field!(format!("{name}.weight"), weights);
            check_field!(format!("{name}.bias"), biases);
        }
    }
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
        assert_eq!(averaged.dims(), [batch, 1, seq_q, seq_k]);
        let expected = wide(&floats(per_head.mean_dim(1)));
        mha_tests::assert_close(&floats(averaged), &expected, 1e-6);
    }
}
