//! A model's folder that is not whole is a sentence.

use std::{fs, path::Path};

use mha::weights::{Array, Dtype};

use crate::support::{command, edit, fail, fresh_dir};
use crate::tiny;

/// The one line that a run with the model in `dir` ends in.
fn sentence(dir: &Path) -> String {
    let stderr = fail(command(dir, &["The dog barks."]), 1);
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
    stderr
}

#[test]
fn a_folder_that_is_missing_or_a_file() {
    assert!(sentence(&fresh_dir("missing")).contains("there is no folder "));
    let file = tiny::model("a_file").join("config.json");
    assert!(sentence(&file).contains("there is no folder "));
}

#[test]
fn files_that_are_missing() {
    let dir = tiny::model("missing_files");
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        fs::remove_file(dir.join(file)).unwrap();
        let said = sentence(&dir);
        assert!(said.contains(file) || said.contains("safetensors"), "{file}: {said}");
    }
}

#[test]
fn a_config_that_describes_another_model() {
    let dir = tiny::model("config");
    let file = dir.join("config.json");
    let good = fs::read_to_string(&file).unwrap();
    for (old, new, said) in [
        ("\"bert\"", "\"gpt2\"", "model_type must be \"bert\", got \"gpt2\""),
        ("\"gelu\"", "\"relu\"", "hidden_act must be \"gelu\", got \"relu\""),
        ("\"hidden_size\"", "\"hidden\"", "missing field `hidden_size`"),
        ("1e-12", "-1e-12", "layer_norm_eps must be above 0, got -0.000000000001"),
        ("\"hidden_dropout_prob\": 0.1", "\"hidden_dropout_prob\": 1", "must be in 0..1, got 1"),
        ("\"pad_token_id\": 0", "\"pad_token_id\": 26", "pad_token_id 26 is not below vocab_size"),
        ("\"type_vocab_size\": 2", "\"type_vocab_size\": 0", "type_vocab_size must be at least 1"),
        ("\"vocab_size\": 26", "\"vocab_size\": 25", "has a word piece 25"),
        ("{", "[", "describes no BERT"),
        // What only the tensors can tell.
        ("\"vocab_size\": 26", "\"vocab_size\": 27", "embeddings.word_embeddings.weight"),
        ("\"intermediate_size\": 20", "\"intermediate_size\": 21", "intermediate.dense.weight"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "encoder.layer.2.attention"),
        ("\"num_attention_heads\": 3", "\"num_attention_heads\": 5", "5"),
    ] {
        edit(&file, old, new);
        let stderr = sentence(&dir);
        assert!(stderr.contains(said), "{new}: {stderr}");
        fs::write(&file, &good).unwrap();
    }
}

#[test]
fn a_tokenizer_that_is_none() {
    let dir = tiny::model("tokenizer");
    fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    assert!(sentence(&dir).contains("tokenizer.json describes no tokenizer: "));
    // A sentence cannot be cut to less than what stands around it.
    let dir = tiny::model("tokenizer_cut");
    fs::write(dir.join("sentence_bert_config.json"), "{\"max_seq_length\": 1}").unwrap();
    assert!(sentence(&dir).contains("puts 2 word pieces around a sentence, of which"));
    fs::write(dir.join("sentence_bert_config.json"), "{}").unwrap();
    assert!(sentence(&dir).contains("does not say where sentences are cut"));
}

#[test]
fn tensors_that_are_damaged() {
    let dir = tiny::model("tensors");
    let file = dir.join("model.safetensors");
    let whole = fs::read(&file).unwrap();
    for length in [0, 7, 8, 100, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        assert!(sentence(&dir).contains("model.safetensors"), "{length}");
    }
    let mut changed = whole.clone();
    changed[7] = 255; // the length of the header
    fs::write(&file, &changed).unwrap();
    assert!(sentence(&dir).contains("model.safetensors"));
}

#[test]
fn tensors_that_are_missing_or_of_another_shape() {
    let dir = tiny::model("shapes");
    for name in [
        "embeddings.LayerNorm.bias",
        "encoder.layer.0.attention.self.key.weight",
        "encoder.layer.1.attention.output.dense.bias",
        "encoder.layer.1.output.dense.weight",
    ] {
        let mut tensors = tiny::tensors();
        let whole = tensors.remove(name).unwrap();
        tiny::write_tensors(&dir, tensors.clone());
        let stderr = sentence(&dir);
        assert!(stderr.contains(name.rsplit_once('.').unwrap().0), "{name}: {stderr}");

        let mut shape = whole.shape().to_vec();
        shape[0] += 1;
        let zeros = vec![0; shape.iter().product::<usize>() * 4];
        tensors.insert(name.to_string(), Array::new(Dtype::F32, shape, zeros).unwrap());
        tiny::write_tensors(&dir, tensors);
        let stderr = sentence(&dir);
        assert!(stderr.contains(name) && stderr.contains("13"), "{name}: {stderr}");
    }
}

#[test]
fn fixtures_that_are_none() {
    let dir = tiny::model("fixtures");
    let file = dir.join("fixture.json");
    let check = || fail(command(&dir, &["--check", file.to_str().unwrap()]), 1);
    assert!(check().contains("cannot read "));
    fs::write(&file, "{}").unwrap();
    assert!(check().contains("is not of fixture.py: missing field"));
    for batches in ["[]", "[[1]]", "[[0, 0]]", "[[]]"] {
        let json = format!(
            r#"{{"sentences": ["a"], "tokens": [[2, 5, 3]], "batches": {batches}, "embeddings": [[[1]]]}}"#
        );
        fs::write(&file, json).unwrap();
        let stderr = check();
        assert!(stderr.contains("lists of lengths that differ"), "{batches}: {stderr}");
    }
    let json =
        r#"{"sentences": ["a"], "tokens": [[2, 5, 3]], "batches": [[0]], "embeddings": [[[1]]]}"#;
    fs::write(&file, json).unwrap();
    assert!(check().contains("vectors have 1 numbers, ours 12"));
}
