//! Weights of PyTorch's module, split by hand.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Weights};
use mha_tests::{assert_close, bools, floats, on_every_backend, tensor};
use serde_json::Value;

use super::core;

on_every_backend!(br_43_packed_weights, br_43_packed_as_pytorch, br_43_separate_as_pytorch);

/// A layer of PyTorch's, whose weight has a row for each output, as one of Burn's, whose weight has
/// a column for each.
fn linear<B: Backend>(weight: Tensor<B, 2>, bias: Option<Tensor<B, 1>>) -> Linear<B> {
    let weight = Param::from_tensor(weight.transpose());
    Linear { weight, bias: bias.map(Param::from_tensor) }
}

/// NVIDIA/apex #838 "How to load weights to `MultiHeadAttention`": the rows of the packed weight
/// are those of query, key and value, in this order.
fn br_43_packed_weights<B: AutodiffBackend>() {
    let packed = [5.0, 6.0, 7.0, 8.0, -1.0, 2.0, 0.5, 1.0, 1.0, 2.0, 3.0, 4.0];
    let packed = tensor::<B, 2, f32>(&packed, [6, 2]);
    let [query, key, value] = [0, 1, 2].map(|part| packed.clone().narrow(0, 2 * part, 2));
    let mut module = core::<B>(2, 1);
    module.query = linear(query, None);
    module.key = linear(key, None);
    module.value = linear(value.clone(), None);
    let run = |module: &MultiHeadAttention<B>| {
        let input = MhaInput::self_attn(tensor::<B, 3, f32>(&[1.0, 1.0], [1, 1, 2]));
        floats(module.forward(input).context)
    };
    assert_close(&run(&module), &[3.0, 7.0], 1e-6);
    // What it gives when one forgets to transpose.
    module.value.weight = Param::from_tensor(value);
    assert_close(&run(&module), &[4.0, 6.0], 1e-6);
}

const BATCH: usize = 2;
const SEQ_Q: usize = 5;
const SEQ_K: usize = 7;
const EMBED: usize = 12;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/pytorch_packed.json")).expect("JSON")
}

/// All numbers of a nested array, in order.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn read<B: Backend, const D: usize>(value: &Value, dims: [usize; D]) -> Tensor<B, D> {
    let numbers: Vec<f32> = flat(value).into_iter().map(|x| x as f32).collect();
    tensor(&numbers, dims)
}

fn read_bools<B: Backend, const D: usize>(value: &Value, dims: [usize; D]) -> Tensor<B, D, Bool> {
    fn flat(value: &Value) -> Vec<bool> {
        match value {
            Value::Array(items) => items.iter().flat_map(flat).collect(),
            value => vec![value.as_bool().expect("true or false")],
        }
    }
    bools(&flat(value), dims)
}

/// The module with these weights, `[d_output, d_input]` each, and the rest of PyTorch's parameters:
/// the packed bias holds that of query, key and value, in this order.
fn module<B: Backend>(
    [query, key, value]: [Tensor<B, 2>; 3],
    parameters: &Value,
) -> MultiHeadAttention<B> {
    let [[_, d_key], [_, d_value]] = [key.dims(), value.dims()];
    let config = MultiHeadAttentionConfig::new(EMBED, 3)
        .with_d_key(d_key)
        .with_d_value(d_value)
        .with_dropout(0.0);
    let mut module = config.init::<B>(&Default::default());
    let bias = |part: usize| {
        let packed: Tensor<B, 1> = read(&parameters["in_proj_bias"], [3 * EMBED]);
        Some(packed.narrow(0, part * EMBED, EMBED))
    };
    module.query = linear(query, bias(0));
    module.key = linear(key, bias(1));
    module.value = linear(value, bias(2));
    module.output = linear(
        read(&parameters["out_proj.weight"], [EMBED, EMBED]),
        Some(read(&parameters["out_proj.bias"], [EMBED])),
    );
    module
}

#[track_caller]
fn assert_as_recorded<B: Backend>(
    module: &MultiHeadAttention<B>,
    input: MhaInput<B>,
    recorded: &Value,
) {
    let out = module.forward(input.weights(Weights::PerHead));
    assert_close(&floats(out.context), &flat(&recorded["output"]), 1e-5);
    assert_close(&floats(out.weights.unwrap()), &flat(&recorded["weights"]), 1e-5);
}

/// pytorch/pytorch #32764 (users rebuild the layer to reuse PyTorch's weights): one packed weight
/// and bias, against PyTorch's recorded output, with its masks too.
fn br_43_packed_as_pytorch<B: AutodiffBackend>() {
    let recorded = &fixture()["packed"];
    let parameters = &recorded["parameters"];
    let packed: Tensor<B, 2> = read(&parameters["in_proj_weight"], [3 * EMBED, EMBED]);
    let weights = [0, 1, 2].map(|part| packed.clone().narrow(0, part * EMBED, EMBED));
    let module = module(weights, parameters);
    let input = || MhaInput::self_attn(read(&recorded["tokens"], [BATCH, SEQ_Q, EMBED]));
    assert_as_recorded(&module, input(), &recorded["plain"]);

    // PyTorch's module has Burn's sense of masks: true hides.
    let masks = &recorded["masks"];
    let masked = input()
        .mask_attn(read_bools(&masks["attn_mask"], [1, SEQ_Q, SEQ_Q]))
        .mask_pad(read_bools(&masks["key_padding_mask"], [BATCH, SEQ_Q]));
    assert_as_recorded(&module, masked, &recorded["masked"]);
}

/// The same reports: with other widths of keys and values PyTorch keeps three weights, but still
/// one packed bias.
fn br_43_separate_as_pytorch<B: AutodiffBackend>() {
    let (k_dim, v_dim) = (10, 8);
    let recorded = &fixture()["separate"];
    let parameters = &recorded["parameters"];
    let weights = [("q", EMBED), ("k", k_dim), ("v", v_dim)]
        .map(|(name, width)| read(&parameters[format!("{name}_proj_weight")], [EMBED, width]));
    let module = module::<B>(weights, parameters);
    let input = MhaInput::new(
        read(&recorded["query"], [BATCH, SEQ_Q, EMBED]),
        read(&recorded["key"], [BATCH, SEQ_K, k_dim]),
        read(&recorded["value"], [BATCH, SEQ_K, v_dim]),
    );
    assert_as_recorded(&module, input, &recorded["plain"]);
}
