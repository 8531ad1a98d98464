//! What is wrong with a checkpoint or its config.json is said, whatever it is.

use burn::tensor::Device;
use mha::weights::{Checkpoint, Dtype, Error, Model, Store};
use mha_tests::AnyBackend;

/// A tensor of a file that is made here.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// A tensor of different numbers of order 1.
pub(super) fn f32s(name: &str, shape: &[usize]) -> Stored {
    let numbers = (0..shape.iter().product()).map(|n: usize| ((n * 7 % 11) as f32 - 5.0) / 10.0);
    let bytes = numbers.flat_map(f32::to_le_bytes).collect();
    Stored { name: name.to_string(), dtype: Dtype::F32, shape: shape.to_vec(), bytes }
}

/// A safetensors file of these.
pub(super) fn store(tensors: &[Stored]) -> Store {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for Stored { name, dtype, shape, bytes } in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = serde_json::json!({
            "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]
        });
        header.insert(name.clone(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    Store::from_bytes(file).expect("a file")
}

fn pytorch() -> Vec<Stored> {
    vec![
        f32s("a.in_proj_weight", &[12, 4]),
        f32s("a.in_proj_bias", &[12]),
        f32s("a.out_proj.weight", &[4, 4]),
        f32s("a.out_proj.bias", &[4]),
    ]
}

fn llama() -> Vec<Stored> {
    vec![
        f32s("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        f32s("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        f32s("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
        f32s("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
    ]
}

fn load(checkpoint: &Checkpoint, prefix: &str) -> Result<(), Error> {
    let layer = checkpoint.layer(prefix)?;
    let device = Device::<AnyBackend>::default();
    checkpoint.load::<AnyBackend>(&layer, &device).map(|_| ())
}

/// What loading says of PyTorch's layer once `change` has been at its file.
fn of_pytorch(n_heads: Option<usize>, change: impl FnOnce(&mut Vec<Stored>)) -> String {
    let mut tensors = pytorch();
    change(&mut tensors);
    let model = n_heads.map_or(Model::default(), |n_heads| Model::default().with_heads(n_heads));
    let checkpoint = Checkpoint::new(store(&tensors), model);
    // Inspecting says the same, or nothing where the numbers are at fault.
    println!("{}", checkpoint.inspect());
    load(&checkpoint, "a").err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn files() {
    let reshape = |n: usize, shape: &'static [usize]| {
        move |tensors: &mut Vec<Stored>| tensors[n] = f32s(&tensors[n].name, shape)
    };
    let number = |n: usize, at: usize, x: f32| {
        move |tensors: &mut Vec<Stored>| {
            tensors[n].bytes[4 * at..][..4].copy_from_slice(&x.to_le_bytes());
        }
    };
    assert_eq!(of_pytorch(Some(2), |_| {}), "");
    let missing = "\"a\" (pytorch): missing ";
    assert_eq!(
        of_pytorch(Some(2), |tensors| drop(tensors.remove(3))),
        format!("{missing}a.out_proj.bias")
    );
    assert_eq!(
        of_pytorch(Some(2), |tensors| drop(tensors.remove(2))),
        format!("{missing}a.out_proj.weight")
    );
    assert_eq!(
        of_pytorch(Some(2), reshape(0, &[11, 4])),
        "a.in_proj_weight: expected shape [12, 4] (features, d_input), got [11, 4]"
    );
    assert_eq!(
        of_pytorch(Some(2), reshape(1, &[10])),
        "a.in_proj_bias: expected shape [12] (features), got [10]"
    );
    let axes = "a.in_proj_weight: expected 2 axes (features, d_input) of 1 to 262144, got shape";
    assert_eq!(of_pytorch(Some(2), reshape(0, &[3, 4, 4])), format!("{axes} [3, 4, 4]"));
    assert_eq!(of_pytorch(Some(2), reshape(0, &[0, 4])), format!("{axes} [0, 4]"));
    assert_eq!(
        of_pytorch(Some(2), reshape(0, &[usize::MAX, 0])),
        format!("{axes} [{}, 0]", usize::MAX)
    );
    assert_eq!(
        of_pytorch(Some(2), number(0, 7, f32::NAN)),
        "a.in_proj_weight: expected finite elements, element 7 is NaN"
    );
    assert_eq!(
        of_pytorch(Some(2), number(3, 2, f32::NEG_INFINITY)),
        "a.out_proj.bias: expected finite elements, element 2 is -inf"
    );
    assert_eq!(
        of_pytorch(Some(2), |tensors| tensors[2].dtype = Dtype::I32),
        "a.out_proj.weight: expected elements of f16, bf16, f32 or f64, got I32"
    );
    let wide = |tensors: &mut Vec<Stored>| {
        let numbers = [1.0f64, 2.0, 1e300, 4.0];
        tensors[3].dtype = Dtype::F64;
        tensors[3].bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    };
    assert_eq!(
        of_pytorch(Some(2), wide),
        "output.bias: expected finite elements, element 2 is inf"
    );
    assert_eq!(
        of_pytorch(None, |_| {}),
        "\"a\" (pytorch): the number of heads is not in the file: a config.json beside it, or \
         Model::with_heads, says so"
    );
    assert_eq!(
        of_pytorch(Some(3), |_| {}),
        "\"a\": n_heads must divide the 4 features of all heads, got 3"
    );
    assert_eq!(
        of_pytorch(Some(0), |_| {}),
        "\"a\" (pytorch): the number of heads is not in the file: a config.json beside it, or \
         Model::with_heads, says so"
    );
    let error = Checkpoint::new(store(&pytorch()), Model::default()).layer("b").unwrap_err();
    assert_eq!(error.to_string(), "\"b\": no attention layer of this name; the checkpoint has a");
    let refused = |name: &'static str| {
        let mut tensors = vec![
            f32s("x.self.query.weight", &[4, 4]),
            f32s("x.self.key.weight", &[4, 4]),
            f32s("x.self.value.weight", &[4, 4]),
            f32s("x.output.dense.weight", &[4, 4]),
        ];
        tensors.push(f32s(name, &[9, 2]));
        let checkpoint = Checkpoint::new(store(&tensors), Model::default().with_heads(2));
        checkpoint.layer("x").unwrap_err().to_string()
    };
    assert_eq!(
        refused("x.self.distance_embedding.weight"),
        "mha has no place for x.self.distance_embedding.weight"
    );
}

/// What loading Llama's layer says with this config.json; empty if nothing is wrong.
fn of_config(json: &str) -> String {
    let model = match Model::from_json(json) {
        Ok(model) => model,
        Err(error) => return error.to_string(),
    };
    let checkpoint = Checkpoint::new(store(&llama()), model);
    println!("{}", checkpoint.inspect());
    load(&checkpoint, "model.layers.0.self_attn").err().map_or(String::new(), |e| e.to_string())
}

#[test]
fn configs() {
    let llama = |more: &str| {
        let heads = r#""num_attention_heads": 4, "num_key_value_heads": 2"#;
        of_config(&format!(r#"{{"model_type": "llama", {heads}{more}}}"#))
    };
    assert_eq!(llama(""), "");
    assert_eq!(llama(r#", "rope_scaling": null, "sliding_window": null, "head_dim": null"#), "");
    assert!(of_config("{").starts_with("config.json, the file: expected a JSON object, got EOF"));
    assert_eq!(of_config("[]"), "config.json, the file: expected a JSON object, got another value");

    let whole = "expected a whole number of at least 1, got";
    for wrong in ["0", "-1", "1.5", "1e30", "\"4\"", "[]", "18446744073709551615"] {
        let field = "num_attention_heads";
        let message = of_config(&format!(r#"{{"model_type": "llama", "{field}": {wrong}}}"#));
        assert!(message.starts_with(&format!("config.json, {field}: {whole}")), "{message}");
        let message = llama(&format!(r#", "sliding_window": {wrong}"#));
        assert!(message.starts_with(&format!("config.json, sliding_window: {whole}")), "{message}");
    }
    assert_eq!(
        of_config(r#"{"model_type": "llama", "num_attention_heads": 3}"#),
        "\"model.layers.0.self_attn\": n_heads must divide the 8 features of all heads, got 3"
    );
    // Of two numbers that contradict each other the tensor's shape decides.
    assert_eq!(
        of_config(r#"{"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 4}"#),
        "model.layers.0.self_attn.k_proj.weight: expected shape [8, 8] (features, d_input), got \
         [4, 8]"
    );
    assert_eq!(
        of_config(r#"{"model_type": "new", "num_attention_heads": 4}"#),
        "\"model.layers.0.self_attn\" (llama): how positions are told apart is not in the file: \
         model_type \"new\" does not tell, Model::with_position does"
    );
    assert_eq!(
        llama(r#", "rope_scaling": {"type": "newer", "factor": 2.0}"#),
        "config.json, type: expected default, linear, dynamic, llama3, yarn or longrope, got \
         \"newer\""
    );
    assert_eq!(
        llama(r#", "rope_scaling": {"type": "linear"}"#),
        "config.json, factor: expected a number, as its rope_type asks for, got null"
    );
    assert_eq!(
        llama(
            r#", "max_position_embeddings": 8, "rope_scaling":
            {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]}"#
        ),
        "config.json, long_factor: expected 1 numbers, got [1.0,2.0]"
    );
    // What a number may be is the module's to say.
    for (more, part) in [
        (r#", "rope_theta": 0.5"#, "theta must be finite and above 1, got 0.5"),
        (r#", "attention_dropout": 2.0"#, "dropout must"),
        (r#", "attn_logit_softcapping": -1.0"#, "softcap must"),
        (r#", "rope_scaling": {"type": "linear", "factor": -1.0}"#, "factor must"),
        (r#", "partial_rotary_factor": 1e9"#, "width must"),
        (r#", "partial_rotary_factor": 0.5"#, "width must"),
    ] {
        let message = llama(more);
        assert!(message.contains(part), "{message}");
        assert!(message.starts_with("\"model.layers.0.self_attn\": "), "{message}");
    }
}
