//! The example of the article, against NumPy: seven tokens, d_model 8, for 1, 2, 4 and 8 heads.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Weights};
use mha_tests::{assert_close, floats, on_every_backend, tensor};
use serde_json::Value;

on_every_backend!(numpy);

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../fixtures/numpy_walkthrough.json")).expect("JSON")
}

/// All numbers of a nested array, in order.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn matrix<B: Backend>(value: &Value, rows: usize) -> Tensor<B, 2> {
    let numbers: Vec<f32> = flat(value).into_iter().map(|x| x as f32).collect();
    tensor(&numbers, [rows, 8])
}

/// The module of the fixture with this many heads, and its tokens `[1, 7, 8]`.
fn example<B: Backend>(n_heads: usize) -> (MultiHeadAttention<B>, Tensor<B, 3>) {
    let fixture = fixture();
    let config = MultiHeadAttentionConfig::new(8, n_heads).with_bias(false).with_dropout(0.0);
    let mut module = config.init::<B>(&Default::default());
    let weight = |name: &str| Param::from_tensor(matrix(&fixture[name], 8));
    module.query.weight = weight("W_Q");
    module.key.weight = weight("W_K");
    module.value.weight = weight("W_V");
    module.output.weight = weight("W_O");
    (module, matrix(&fixture["X"], 7).unsqueeze())
}

/// What NumPy computes for this many heads.
fn expected_output(n_heads: usize) -> Vec<f64> {
    let fixture = fixture();
    let counts = fixture["head_counts"].as_array().expect("a list");
    let of = counts.iter().find(|count| count["n_heads"] == n_heads).expect("the head count");
    flat(&of["output"])
}

fn numpy<B: AutodiffBackend>() {
    for of in fixture()["head_counts"].as_array().expect("a list") {
        let n_heads = of["n_heads"].as_u64().expect("a count") as usize;
        let (module, tokens) = example::<B>(n_heads);
        let out = module.forward(MhaInput::self_attn(tokens).weights(Weights::PerHead));
        assert_close(&floats(out.context), &flat(&of["output"]), 2e-5);
        assert_close(&floats(out.weights.unwrap()), &flat(&of["weights"]), 1e-5);
    }
}

/// The fixture is what it says it is.
#[test]
fn check_values() {
    let output = expected_output(2);
    for (value, expected) in output.iter().zip([0.80712381, -1.60705917, 11.04755425]) {
        assert!((value - expected).abs() < 1e-8);
    }
    assert!((output.iter().sum::<f64>() - 20.02610582).abs() < 1e-8);
}
