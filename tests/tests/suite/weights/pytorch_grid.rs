//! PyTorch's attention over the grid of its own parameters: `tests/fixtures/pytorch_grid.py` says what
//! the cases are.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha::weights::{Checkpoint, Model, Store};
use mha::{AttentionOptions, Mask, MhaInput, Sink, Weights, attention_heads_first};
use mha_tests::{assert_close, floats, on_every_path};
use serde::Deserialize;

use super::gradients::Gradients;
use super::numbers::{numbers, read, read_bools, scale, shape};

on_every_path!(modules, functions);

/// A call of `nn.MultiheadAttention`.
#[derive(Debug, Deserialize)]
struct ModuleCase {
    case: String,
    heads: usize,
    add_zero_attn: bool,
    batch_first: bool,
    unbatched: bool,
    attn_mask: String,
    key_padding_mask: String,
    need_weights: String,
}

/// A call of `scaled_dot_product_attention`.
#[derive(Debug, Deserialize)]
struct FunctionCase {
    case: String,
    heads: Option<usize>,
    mask: String,
    is_causal: bool,
    scale: Option<f64>,
}

fn grid() -> Store {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pytorch_grid.safetensors");
    Store::open(path).expect("the grid")
}

/// The cases of one operation.
fn cases<T: for<'a> Deserialize<'a>>(store: &Store, op: &str) -> Vec<T> {
    let all: Vec<serde_json::Value> =
        serde_json::from_str(&store.metadata()["cases"]).expect("JSON");
    let of_op = all.into_iter().filter(|case| case["op"] == op);
    of_op.map(|case| serde_json::from_value(case).expect("a case")).collect()
}

/// Compares the gradient of a leaf with the one that is stored, if there is one.
fn compare<B: AutodiffBackend, const D: usize>(
    store: &Store,
    name: &str,
    leaf: &Tensor<B, D>,
    gradients: &B::Gradients,
) {
    let Some(expected) = numbers(store, name) else { return };
    let gradient = leaf.grad(gradients).expect("a gradient");
    assert_close(&floats(gradient), &expected, 1e-5 * scale(&expected));
}

fn modules<B: AutodiffBackend>(path: mha::Path) {
    let checkpoint = Checkpoint::new(grid(), Model::default());
    let cases = cases::<ModuleCase>(checkpoint.store(), "mha");
    assert!(cases.len() >= 150, "{}", cases.len());
    let mut checkpoint = checkpoint;
    for case in cases {
        println!("{case:?}");
        checkpoint = checkpoint.with_model(Model::default().with_heads(case.heads));
        module::<B>(&checkpoint, &case, path);
    }
}

fn module<B: AutodiffBackend>(checkpoint: &Checkpoint, case: &ModuleCase, path: mha::Path) {
    let store = checkpoint.store();
    let name = |name: &str| format!("{}.{name}", case.case);
    let layer = checkpoint.layer(&name("param")).expect("a layer");
    let mut config = layer.config().clone().with_dropout(0.0);
    if case.add_zero_attn {
        config = config.with_sink(Sink::ZeroKey);
    }
    let layer = layer.with_config(config);
    let module = checkpoint.load::<B>(&layer, &Default::default()).expect("loads").attention;

    let leaf = |input: &str| -> Option<Tensor<B, 3>> {
        let dims = match *shape(store, &name(input))? {
            [seq, d] => [1, seq, d],
            [a, b, c] => [a, b, c],
            ref other => panic!("{other:?}"),
        };
        Some(read::<B, 3>(store, &name(input), dims).require_grad())
    };
    let query = leaf("query").expect("a query");
    let (key, value) = (leaf("key"), leaf("value"));
    let of_key = key.clone().unwrap_or(query.clone());
    let inputs = [query.clone(), of_key.clone(), value.clone().unwrap_or(of_key)];
    let seq_first = !case.batch_first && !case.unbatched;
    let [q, k, v] = inputs;
    let [batch, seq_k] =
        if seq_first { [k.dims()[1], k.dims()[0]] } else { [k.dims()[0], k.dims()[1]] };
    let input = if seq_first { MhaInput::seq_first(q, k, v) } else { MhaInput::new(q, k, v) };

    let mask_name = name("attn_mask");
    let dims = shape(store, &mask_name).map(|dims| match *dims {
        [seq_q, seq_k] => [1, 1, seq_q, seq_k],
        [_, seq_q, seq_k] => [batch, case.heads, seq_q, seq_k],
        ref other => panic!("{other:?}"),
    });
    let float = |dims| read::<B, 4>(store, &mask_name, dims).require_grad();
    let mut mask = Mask::none();
    let added = dims.filter(|_| case.attn_mask.starts_with("float")).map(float);
    if let Some(dims) = dims.filter(|_| case.attn_mask.starts_with("bool")) {
        mask = mask.and(Mask::block(read_bools::<B, 4>(store, &mask_name, dims)));
    }
    let mut bias = added.clone();
    match case.key_padding_mask.as_str() {
        "bool" => {
            let hidden = read_bools(store, &name("key_padding_mask"), [batch, seq_k]);
            mask = mask.and(Mask::block_keys(hidden));
        }
        "float" => {
            let padding = read::<B, 4>(store, &name("key_padding_mask"), [batch, 1, 1, seq_k]);
            bias = Some(match bias {
                Some(bias) => bias + padding,
                None => padding,
            });
        }
        _ => {}
    }
    let mut input = input.mask(mask).path(path);
    if let Some(bias) = bias {
        input = input.bias(bias);
    }
    // Kernels never have the weights.
    let expected_weights = numbers(store, &name("weights")).filter(|_| path == mha::Path::Plain);
    if expected_weights.is_some() {
        let average = case.need_weights == "average";
        input = input.weights(if average { Weights::Averaged } else { Weights::PerHead });
    }

    let out = module.forward(input);
    let context = if seq_first { out.context.swap_dims(0, 1) } else { out.context };
    let expected = numbers(store, &name("output")).expect("an output");
    assert_close(&floats(context.clone()), &expected, 1e-5 * scale(&expected));
    if let Some(expected) = expected_weights {
        assert_close(&floats(out.weights.expect("asked for")), &expected, 1e-5);
    }

    let d_output = read::<B, 3>(store, &name("d_output"), context.dims());
    let gradients = (context * d_output).sum().backward();
    compare(store, &name("d_query"), &query, &gradients);
    if let Some(key) = &key {
        compare(store, &name("d_key"), key, &gradients);
    }
    if let Some(value) = &value {
        compare(store, &name("d_value"), value, &gradients);
    }
    if let Some(added) = &added {
        compare(store, &name("d_attn_mask"), added, &gradients);
    }
    let module = module.map(&mut Gradients(&gradients));
    for (parameter, array) in checkpoint.export::<B>(&layer, &module).expect("a place") {
        let stored = parameter.replace(".param.", ".d_param.");
        let expected = numbers(store, &stored).expect("a gradient");
        let found: Vec<f32> = array.to_f64().expect("floats").iter().map(|&x| x as f32).collect();
        assert_close(&found, &expected, 1e-5 * scale(&expected));
    }
}

fn functions<B: AutodiffBackend>(path: mha::Path) {
    let store = grid();
    let cases = cases::<FunctionCase>(&store, "sdpa");
    assert!(cases.len() >= 50, "{}", cases.len());
    for case in cases {
        println!("{case:?}");
        function::<B>(&store, &case, path);
    }
}

fn function<B: AutodiffBackend>(store: &Store, case: &FunctionCase, path: mha::Path) {
    let name = |name: &str| format!("{}.{name}", case.case);
    let leaf = |input: &str| -> Tensor<B, 4> {
        let dims = match *shape(store, &name(input)).expect("there") {
            [batch, seq, d] => [batch, 1, seq, d],
            [batch, heads, seq, d] => [batch, heads, seq, d],
            ref other => panic!("{other:?}"),
        };
        read::<B, 4>(store, &name(input), dims).require_grad()
    };
    let [query, key, value] = ["query", "key", "value"].map(leaf);
    let mut options = AttentionOptions::default().path(path);
    if let Some(scale) = case.scale {
        options = options.scale(scale);
    }
    if case.is_causal {
        options = options.mask(Mask::top_left());
    }
    let dims = shape(store, &name("attn_mask")).map(|dims| match *dims {
        [seq_q, seq_k] => [1, 1, seq_q, seq_k],
        [batch, seq_q, seq_k] if case.heads.is_none() => [batch, 1, seq_q, seq_k],
        [heads, seq_q, seq_k] => [1, heads, seq_q, seq_k],
        [batch, heads, seq_q, seq_k] => [batch, heads, seq_q, seq_k],
        ref other => panic!("{other:?}"),
    });
    let added = dims
        .filter(|_| case.mask.starts_with("float"))
        .map(|dims| read::<B, 4>(store, &name("attn_mask"), dims).require_grad());
    if let Some(bias) = added.clone() {
        options = options.bias(bias);
    } else if let Some(dims) = dims {
        options = options.mask(Mask::keep(read_bools::<B, 4>(store, &name("attn_mask"), dims)));
    }

    let out = attention_heads_first(query.clone(), key.clone(), value.clone(), &options).context;
    let expected = numbers(store, &name("output")).expect("an output");
    assert_close(&floats(out.clone()), &expected, 1e-5 * scale(&expected));
    let d_output = read::<B, 4>(store, &name("d_output"), out.dims());
    let gradients = (out * d_output).sum().backward();
    compare(store, &name("d_query"), &query, &gradients);
    compare(store, &name("d_key"), &key, &gradients);
    compare(store, &name("d_value"), &value, &gradients);
    if let Some(added) = &added {
        compare(store, &name("d_attn_mask"), added, &gradients);
    }
}
