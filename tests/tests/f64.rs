//! The module in f64: against the oracle to f64's precision, and its gradients against central
//! differences. A binary of its own: the default element type is set once per process and device,
//! and `NdArray<f64>` alone does not set it.
#![cfg(feature = "ndarray")]

use std::sync::Once;

use burn::backend::{Autodiff, NdArray};
use burn::tensor::{DType, Tensor, set_default_dtypes};
use mha::{MhaInput, MultiHeadAttention, Path};
use mha_tests::{Case, Layer, cases, module_gradients, numbers, tensor};

type B = Autodiff<NdArray<f64>>;

fn in_f64() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let set = set_default_dtypes::<B>(&Default::default(), DType::F64, DType::I64);
        set.expect("no tensor was made before");
    });
}

fn floats<const D: usize>(tensor: Tensor<NdArray<f64>, D>) -> Vec<f64> {
    tensor.into_data().to_vec().expect("the tensor holds f64")
}

fn module_of(case: &Case, layer: &Layer<f64>) -> MultiHeadAttention<B> {
    layer.fill(case.config().init::<B>(&Default::default()))
}

/// The cases but for those whose bias tensors are f32, and the slowest.
fn module_cases() -> impl Iterator<Item = Case> {
    let in_f32 = |case: &Case| case.bias.is_some() || case.head_scale;
    cases().into_iter().filter(move |case| !in_f32(case) && case.name != "longer")
}

#[track_caller]
fn assert_close(what: &str, ours: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), expected.len());
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{what}: {a} for {b}");
    }
}

#[test]
fn module_is_the_oracle() {
    in_f64();
    let on = |path| module_cases().map(move |case| (path, case));
    for (path, case) in on(Path::Plain).chain(on(Path::Fused)) {
        let layer = Layer::<f64>::new(&case);
        let module = module_of(&case, &layer);
        let [query, key, value] = layer.tensors::<B>();
        let input = MhaInput::new(query.clone(), key.clone(), value.clone()).path(path);
        let out = module.forward(case.apply(input)).context;
        assert_eq!(out.dtype(), DType::F64);
        let expected = layer.forward().context;
        assert_close(&case.name, &floats(out.clone().inner()), &expected, 1e-13);

        let d_output: Vec<f64> = numbers(9, expected.len()).into_iter().map(f64::from).collect();
        let gradients = (out.clone() * tensor::<B, 3, _>(&d_output, out.dims())).sum().backward();
        let expected = layer.backward(&d_output);
        let read = |data: burn::tensor::TensorData| data.to_vec::<f64>().expect("it holds f64");
        for (name, ours) in module_gradients(&module, &[query, key, value], &gradients, read) {
            let (_, expected) =
                expected.iter().find(|(other, _)| *other == name).expect("it has it");
            assert_close(&format!("{}, {name}", case.name), &ours, expected, 1e-11);
        }
    }
}

/// The oracle's own gradients, which everything is compared with: the change of the loss when one
/// number is moved a little up and a little down.
#[test]
fn oracle_gradients_are_central_differences() {
    for case in cases().into_iter().filter(|case| case.name != "longer") {
        let attention = case.oracle::<f64>();
        let d_context: Vec<f64> =
            numbers(9, attention.forward().context.len()).into_iter().map(f64::from).collect();
        let loss = |attention: &mha::oracle::Attention<f64>| -> f64 {
            attention.forward().context.iter().zip(&d_context).map(|(x, d)| x * d).sum()
        };
        let gradients = attention.backward(&d_context);
        macro_rules! check {
            ($field:ident) => {
                for index in 0..attention.$field.len() {
                    let step = 1e-5;
                    let [mut up, mut down] = [attention.clone(), attention.clone()];
                    up.$field[index] += step;
                    down.$field[index] -= step;
                    let slope = (loss(&up) - loss(&down)) / (2.0 * step);
                    let error = (slope - gradients.$field[index]).abs();
                    assert!(error < 1e-8, "{}: {} {index}", case.name, stringify!($field));
                }
            };
        }
        check!(query);
        check!(key);
        check!(value);
        check!(bias);
    }
}

/// The module's gradients themselves, parameter by parameter.
#[test]
fn module_gradients_are_central_differences() {
    in_f64();
    for case in module_cases().filter(|case| case.name != "one key" && case.name != "one query") {
        let layer = Layer::<f64>::new(&case);
        let count = layer.forward().context.len();
        let d_output: Vec<f64> = numbers(9, count).into_iter().map(f64::from).collect();
        let run = |layer: &Layer<f64>| {
            let module = module_of(&case, layer);
            let [query, key, value] = layer.tensors::<B>();
            let input = MhaInput::new(query.clone(), key, value);
            let out = module.forward(case.apply(input)).context;
            let dims = out.dims();
            (module, query, (out * tensor::<B, 3, _>(&d_output, dims)).sum())
        };
        let (module, query, loss) = run(&layer);
        let gradients = loss.backward();
        let slope = |change: &dyn Fn(&mut Layer<f64>, f64)| {
            let step = 1e-5;
            let [up, down] = [step, -step].map(|step| {
                let mut moved = layer.clone();
                change(&mut moved, step);
                floats(run(&moved).2.inner())[0]
            });
            (up - down) / (2.0 * step)
        };
        // A few numbers of each tensor, spread over it.
        let some = |len: usize| (0..len).step_by(len / 5 + 1);
        let expected = floats(query.grad(&gradients).unwrap());
        for index in some(expected.len()) {
            let slope = slope(&|layer, step| layer.inputs[0][index] += step);
            assert!((slope - expected[index]).abs() < 1e-8, "{}: query {index}", case.name);
        }
        let linears = [&module.query, &module.key, &module.value, &module.output];
        for (which, linear) in linears.into_iter().enumerate() {
            let expected = floats(linear.weight.grad(&gradients).unwrap());
            for index in some(expected.len()) {
                let slope = slope(&|layer, step| layer.weights[which][index] += step);
                assert!((slope - expected[index]).abs() < 1e-8, "{}: {which} {index}", case.name);
            }
            let Some(bias) = &linear.bias else { continue };
            let expected = floats(bias.grad(&gradients).unwrap());
            for index in some(expected.len()) {
                let slope = slope(&|layer, step| layer.biases[which][index] += step);
                assert!((slope - expected[index]).abs() < 1e-8, "{}: {which} {index}", case.name);
            }
        }
    }
}
