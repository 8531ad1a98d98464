//! `mha::linear` beside the oracle and beside Burn's own layer.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::{linear, oracle, try_linear};
use mha_tests::{
    assert_as_accurate_as_textbook, assert_close, floats, numbers, on_every_backend, tensor, wide,
};

on_every_backend!(as_the_oracle, any_rank, refused);

fn layer<B: Backend>(weight: &[f32], bias: Option<&[f32]>, d_input: usize) -> Linear<B> {
    let d_output = weight.len() / d_input;
    let weight = Param::from_tensor(tensor(weight, [d_input, d_output]));
    let bias = bias.map(|bias| Param::from_tensor(tensor(bias, [d_output])));
    Linear { weight, bias }
}

/// One row, a few, and more than a kernel takes at a time; a single feature on either side.
fn as_the_oracle<B: AutodiffBackend>() {
    for ([rows, d_input, d_output], with_bias) in [
        ([1, 13, 7], true),
        ([5, 13, 7], false),
        ([5, 1, 11], true),
        ([3, 67, 1], true),
        ([131, 37, 53], true),
    ] {
        let x = numbers(1, rows * d_input);
        let weight = numbers(2, d_input * d_output);
        let bias = with_bias.then(|| numbers(3, d_output));
        let layer = layer::<B>(&weight, bias.as_deref(), d_input);
        let input = tensor::<B, 2, _>(&x, [rows, d_input]).require_grad();
        let output = linear(&layer, input.clone());
        let d_output_of = numbers(4, rows * d_output);
        let upstream = tensor::<B, 2, _>(&d_output_of, [rows, d_output]);
        let gradients = (output.clone() * upstream).sum().backward();

        let exact = {
            let bias = bias.as_deref().map(wide);
            oracle::linear(&wide(&x), &wide(&weight), bias.as_deref(), d_input)
        };
        let in_f32 = oracle::linear(&x, &weight, bias.as_deref(), d_input);
        let name = format!("{rows} x {d_input} to {d_output}");
        assert_as_accurate_as_textbook(&name, &floats(output), &in_f32, &exact);

        let [exact_input, exact_weight, exact_bias] =
            oracle::linear_backward(&wide(&x), &wide(&weight), &wide(&d_output_of), d_output);
        let [f32_input, f32_weight, f32_bias] =
            oracle::linear_backward(&x, &weight, &d_output_of, d_output);
        let held = |what: &str, ours: Vec<f32>, in_f32: &[f32], exact: &[f64]| {
            let name = format!("{name}: gradient of {what}");
            assert_as_accurate_as_textbook(&name, &ours, in_f32, exact);
        };
        held("input", floats(input.grad(&gradients).unwrap()), &f32_input, &exact_input);
        let weight = layer.weight.val().grad(&gradients).unwrap();
        held("weight", floats(weight), &f32_weight, &exact_weight);
        if let Some(bias) = &layer.bias {
            held("bias", floats(bias.val().grad(&gradients).unwrap()), &f32_bias, &exact_bias);
        }
    }
}

/// The last axis is the one that counts, whatever stands before it, even nothing.
fn any_rank<B: AutodiffBackend>() {
    let layer = layer::<B>(&numbers(1, 5 * 3), Some(&numbers(2, 3)), 5);
    let in_order = numbers(3, 7 * 5);
    let x = tensor::<B, 2, _>(&in_order, [7, 5]);
    let rows = floats(linear(&layer, x.clone()));
    assert_eq!(floats(linear(&layer, x.clone().reshape([7, 1, 1, 5]))), rows);
    assert_eq!(linear(&layer, x.clone().reshape([1, 7, 5])).dims(), [1, 7, 3]);
    let first: Tensor<B, 1> = x.clone().narrow(0, 0, 1).reshape([5]);
    assert_close(&floats(linear(&layer, first)), &wide(&rows[..3]), 1e-6);
    let turned_twice = x.clone().transpose().reshape([5, 7]).transpose();
    assert_eq!(floats(linear(&layer, turned_twice)), rows);
    // The same numbers, stored by columns.
    let columns: Vec<_> = (0..5 * 7).map(|i| in_order[i % 7 * 5 + i / 7]).collect();
    let by_columns = tensor::<B, 2, _>(&columns, [5, 7]).transpose();
    assert_eq!(floats(by_columns.clone()), in_order);
    assert_close(&floats(linear(&layer, by_columns)), &wide(&rows), 1e-6);
    let none = Tensor::<B, 3>::zeros([2, 0, 5], &Default::default());
    assert_eq!(linear(&layer, none).dims(), [2, 0, 3]);
}

fn refused<B: Backend>() {
    let error = |layer: &Linear<B>, dims: [usize; 3]| {
        let input = Tensor::<B, 3>::zeros(dims, &Default::default());
        try_linear(layer, input).unwrap_err().to_string()
    };
    let fits = layer::<B>(&numbers(1, 5 * 3), None, 5);
    assert_eq!(
        error(&fits, [2, 7, 3]),
        "input must have 5 features, d_input of weight, in its last axis, got shape [2, 7, 3]"
    );
    let empty = Param::from_tensor(Tensor::zeros([0, 3], &Default::default()));
    let empty = Linear { weight: empty, bias: None };
    assert_eq!(error(&empty, [2, 7, 0]), "weight must have rows and columns, got shape [0, 3]");
    let bias = Param::from_tensor(Tensor::zeros([4], &Default::default()));
    let of_another = Linear { bias: Some(bias), ..fits.clone() };
    assert_eq!(error(&of_another, [2, 7, 5]), "bias: expected shape [3] (d_output), got [4]");
    let input = Tensor::<B, 3>::zeros([2, 7, 5], &Default::default());
    if B::supports_dtype(&Default::default(), DType::F16) {
        let error = try_linear(&fits, input.cast(DType::F16)).unwrap_err().to_string();
        assert_eq!(error, "weight: expected dtype F16 as input has, got F32");
    }
}
