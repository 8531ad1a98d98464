//! Files and config.json with random faults: an error or a module, never a panic.

use burn::tensor::Device;
use mha::weights::{Checkpoint, Dtype, Model, Store};
use mha_tests::AnyBackend;
use serde_json::{Value, json};

use super::golden::folders;
use super::refused::{Stored, store};

/// Numbers to choose by, the same each time (xorshift, Marsaglia 2003).
struct Choice(u64);

impl Choice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// Values that a field should not have, most of the time.
fn odd(choice: &mut Choice) -> Value {
    let values = [
        json!(null),
        json!(0),
        json!(1),
        json!(2),
        json!(3),
        json!(7),
        json!(-1),
        json!(0.5),
        json!(1e308),
        json!(-1e308),
        json!(1e-320),
        json!(2_147_483_647),
        json!(u64::MAX),
        json!(true),
        json!(""),
        json!("yarn"),
        json!("longrope"),
        json!("bloom"),
        json!("gptj"),
        json!([]),
        json!([1.0, 2.0]),
        json!({}),
        json!({"rope_type": "dynamic", "factor": 2}),
    ];
    choice.of(&values)
}

/// Puts something odd somewhere into a config.json.
fn break_config(config: &mut Value, choice: &mut Choice) {
    let Value::Object(fields) = config else { return };
    let names: Vec<String> = fields.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = choice.of(&names);
    let inner = &mut fields[&name];
    if inner.is_object() && choice.below(4) > 0 {
        return break_config(inner, choice);
    }
    *inner = odd(choice);
}

/// Changes a tensor's shape, its type or its name.
fn break_tensor(tensors: &mut Vec<Stored>, choice: &mut Choice) {
    let n = choice.below(tensors.len());
    match choice.below(6) {
        0 => drop(tensors.remove(n)),
        1 => tensors[n].name += choice.of(&["x", ".weight", "/bias"]),
        2 => {
            tensors[n].bytes.fill(0xff); // NaN in every float
        }
        3 => tensors[n].shape.reverse(),
        _ => {
            let axes = choice.below(4);
            let lengths = [0, 1, 2, 3, 4, 6, 8, 12, 13, 24, 36];
            let shape: Vec<usize> = (0..axes).map(|_| choice.of(&lengths)).collect();
            let dtype = choice.of(&[Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::I64]);
            let length = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            tensors[n] = Stored { shape, dtype, bytes: vec![0; length], ..tensors[n].clone() };
        }
    }
}

#[test]
fn never_a_panic() {
    let device = Device::<AnyBackend>::default();
    let (mut loaded, mut refused) = (0, 0);
    for (n, folder) in folders().into_iter().enumerate() {
        let mut choice = Choice(n as u64 + 1);
        let path = folder.join("model.safetensors");
        let Ok(original) = Store::open(path) else { continue }; // shards, a pickle
        let tensors: Vec<Stored> = original
            .entries()
            .map(|(name, entry)| Stored {
                name: name.to_string(),
                dtype: entry.dtype,
                shape: entry.shape.clone(),
                bytes: original.read(name).expect("readable").into_bytes(),
            })
            .collect();
        let config = ["config.json", "config-transformers-4.json", "params.json"]
            .iter()
            .find_map(|name| std::fs::read_to_string(folder.join(name)).ok());
        let config: Value = config.map_or(json!({"num_attention_heads": 2}), |text| {
            serde_json::from_str(&text).expect("JSON")
        });
        for _ in 0..60 {
            let (mut tensors, mut config) = (tensors.clone(), config.clone());
            for _ in 0..choice.below(3) {
                break_config(&mut config, &mut choice);
            }
            for _ in 0..choice.below(3) {
                break_tensor(&mut tensors, &mut choice);
            }
            let Ok(model) = Model::from_json(&config.to_string()) else { continue };
            let checkpoint = Checkpoint::new(store(&tensors), model);
            let inspection = checkpoint.inspect();
            assert!(inspection.to_string().contains("attention layers"));
            for found in inspection.layers {
                match found.layer.and_then(|layer| checkpoint.load::<AnyBackend>(&layer, &device)) {
                    Ok(_) => loaded += 1,
                    Err(error) => {
                        refused += 1;
                        assert!(error.to_string().len() < 1000, "{error}");
                    }
                }
            }
        }
    }
    // Some faults do no harm.
    assert!(loaded > 500 && refused > 500, "{loaded} loaded, {refused} refused");
}
