//! A BERT of two layers in the layout of the real one, with made-up weights.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use mha::weights::{Array, Dtype, Entry};
use mha_examples::random::SplitMix64;

use crate::support::fresh_dir;

/// The files that stand beside the tests.
const FILES: [&str; 3] = ["config.json", "sentence_bert_config.json", "tokenizer.json"];

/// Features, word pieces, positions, types and hidden features, as config.json has them.
const D_MODEL: usize = 12;
const TOKENS: usize = 26;
const POSITIONS: usize = 16;
const TYPES: usize = 2;
const D_HIDDEN: usize = 20;

/// Tensors of the real model's file that an embedding does not need.
pub(crate) const UNUSED: [&str; 3] =
    ["embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"];

/// The tests' own files of the tiny model.
pub(crate) fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentence_embeddings/tiny")
}

/// Writes the model for the test `name` and returns its folder.
pub(crate) fn model(name: &str) -> PathBuf {
    let dir = fresh_dir(name);
    fs::create_dir(&dir).unwrap();
    for file in FILES {
        fs::copy(source().join(file), dir.join(file)).unwrap();
    }
    write_tensors(&dir, tensors());
    dir
}

/// Writes `DIR/model.safetensors`.
pub(crate) fn write_tensors(dir: &Path, tensors: BTreeMap<String, Array>) {
    let entry = |array: &Array| Entry { dtype: array.dtype(), shape: array.shape().to_vec() };
    let entries: Vec<_> =
        tensors.iter().map(|(name, array)| (name.clone(), entry(array))).collect();
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let read = |name: &str| Ok::<_, mha_files::Error>(tensors[name].clone());
    mha_files::write(&dir.join("model.safetensors"), &entries, &metadata, read).unwrap();
}

/// The model's tensors, of which tiny.py makes the same.
pub(crate) fn tensors() -> BTreeMap<String, Array> {
    let drawn = parameters().into_iter().zip(0..);
    let mut tensors: BTreeMap<_, _> = drawn
        .map(|((name, shape), seed)| (name.clone(), drawn_array(seed, &name, shape)))
        .collect();
    let ids = (0..POSITIONS as i64).flat_map(i64::to_le_bytes).collect();
    let ids = Array::new(Dtype::I64, vec![1, POSITIONS], ids).unwrap();
    tensors.insert(UNUSED[0].to_string(), ids);
    for (name, shape) in UNUSED[1..].iter().zip([vec![D_MODEL], vec![D_MODEL, D_MODEL]]) {
        tensors.insert(name.to_string(), drawn_array(0, name, shape));
    }
    tensors
}

/// Names and shapes of what the encoder has, in the order of their names.
fn parameters() -> BTreeMap<String, Vec<usize>> {
    let mut shapes = BTreeMap::new();
    let mut add = |name: String, shape: &[usize]| shapes.insert(name, shape.to_vec());
    for (part, n) in [("word", TOKENS), ("position", POSITIONS), ("token_type", TYPES)] {
        add(format!("embeddings.{part}_embeddings.weight"), &[n, D_MODEL]);
    }
    for part in ["weight", "bias"] {
        add(format!("embeddings.LayerNorm.{part}"), &[D_MODEL]);
    }
    for layer in 0..2 {
        for (part, d_output, d_input) in [
            ("attention.self.query", D_MODEL, D_MODEL),
            ("attention.self.key", D_MODEL, D_MODEL),
            ("attention.self.value", D_MODEL, D_MODEL),
            ("attention.output.dense", D_MODEL, D_MODEL),
            ("intermediate.dense", D_HIDDEN, D_MODEL),
            ("output.dense", D_MODEL, D_HIDDEN),
        ] {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[d_output, d_input]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[d_output]);
        }
        for part in ["attention.output", "output"] {
            add(format!("encoder.layer.{layer}.{part}.LayerNorm.weight"), &[D_MODEL]);
            add(format!("encoder.layer.{layer}.{part}.LayerNorm.bias"), &[D_MODEL]);
        }
    }
    shapes
}

/// Numbers from -1/2 to 1/2 in steps of 1/1024, around 1 for what norms multiply with.
fn drawn_array(seed: u64, name: &str, shape: Vec<usize>) -> Array {
    let mut random = SplitMix64::new(seed);
    let middle = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
    let number = |_| (random.below(1024) as f32 - 512.0) / 1024.0 + middle;
    let bytes = (0..shape.iter().product()).map(number).flat_map(f32::to_le_bytes).collect();
    Array::new(Dtype::F32, shape, bytes).unwrap()
}
