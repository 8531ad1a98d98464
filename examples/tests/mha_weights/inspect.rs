//! What `inspect` says of files.

use std::fs;

use crate::support::{
    command, empty_dir, fail, fixture, inspect, model, sentence, succeed, write_header,
};

/// The line that starts with a word.
fn line<'a>(output: &'a str, start: &str) -> &'a str {
    output.lines().find(|line| line.trim_start().starts_with(start)).expect(output)
}

#[test]
fn llama_is_a_row_and_its_tensors() {
    let output = succeed(inspect(&model("llama"), &[]));
    assert!(output.lines().next().unwrap().ends_with("; model_type llama"), "{output}");
    let row = line(&output, "model.layers.");
    for said in ["llama", "4/2", "rotary half", "Llama 3 ×", "causal"] {
        assert!(row.contains(said), "{said}: {row}");
    }
    let query = line(&output, "self_attn.q_proj.weight".trim_start_matches("self_attn."));
    assert!(query.contains("F32 [") && query.ends_with("-> query.weight"), "{query}");
    assert!(line(&output, "rotary_emb.inv_freq").ends_with("  ignored"), "{output}");
    let last = output.lines().last().unwrap();
    assert!(last.starts_with("1 attention layer, 1 of them can be loaded; "), "{last}");
}

#[test]
fn each_family_says_what_it_is() {
    for (name, flags, said) in [
        ("bert", &[][..], &["bert", "biases"][..]),
        ("bloom", &[], &["bloom", "ALiBi", "causal"]),
        ("gemma2_window", &[], &["softcap", "causal, window"]),
        ("gpt_oss_full", &[], &["learned sinks", "YaRN"]),
        ("meta_llama", &[], &["meta-llama", "rotary interleaved"]),
        ("phi3_longrope_long", &[], &["phi3", "LongRoPE"]),
        ("qwen3_next", &[], &["RMS norm of query and key", "elementwise gate", "channels"]),
        ("t5_encoder_no_table", &[], &["T5, 8 buckets", "T5, a shared table"]),
        ("whisper_encoder", &[], &["biases of query, value, output"]),
        ("keras_cross", &["--heads", "2"], &["keras", "value_dim", "d_key"]),
        ("pytorch_bias_kv", &["--heads", "2"], &["(no prefix)", "bias_kv 1", "in_proj_weight"]),
        ("flax_slash", &[], &["flax", "query/kernel"]),
    ] {
        let output = succeed(inspect(&fixture(name), flags));
        for said in said {
            assert!(output.contains(said), "{name}: {said}: {output}");
        }
        assert!(!output.contains("cannot be loaded"), "{name}: {output}");
    }
}

#[test]
fn what_cannot_be_loaded_has_a_reason_in_words_of_the_command_line() {
    let output = succeed(inspect(&model("pytorch"), &[]));
    assert!(output.contains("cannot be loaded"), "{output}");
    assert!(output.contains("the number of heads is not in the file"), "{output}");
    assert!(output.contains("or --heads N, says so"), "{output}");
    assert!(output.contains(", 0 of them can be loaded; "), "{output}");
    let output = succeed(inspect(&model("pytorch"), &["--heads", "3"]));
    assert!(!output.contains(" 0 of them"), "{output}");

    let latent = succeed(inspect(&fixture("deepseek_v3"), &[]));
    assert!(latent.contains("multi-head latent attention"), "{latent}");
}

#[test]
fn a_config_of_another_name_counts() {
    let dir = empty_dir("config");
    let file = dir.join("weights.safetensors");
    fs::copy(model("llama"), &file).unwrap();
    let output = succeed(inspect(&file, &["--heads", "4"]));
    assert!(output.contains("a --config with a model_type that is known"), "{output}");
    for config in ["config.json", "config-transformers-4.json"] {
        let config = fixture("llama").join(config);
        let output = succeed(inspect(&file, &["--config", config.to_str().unwrap()]));
        assert!(output.contains("rotary half"), "{output}");
    }
    let bad = dir.join("bad.json");
    for (text, said) in
        [("[]", "a JSON object"), ("{", "a JSON object"), ("{\"a\": \u{1}}", "JSON")]
    {
        fs::write(&bad, text).unwrap();
        let said_of = sentence(inspect(&file, &["--config", bad.to_str().unwrap()]));
        assert!(said_of.contains("bad.json: expected ") && said_of.contains(said), "{said_of}");
    }
    // What lies beside the file is read unless something else is named.
    fs::rename(&bad, dir.join("config.json")).unwrap();
    sentence(inspect(&file, &[]));
    let config = fixture("llama").join("config.json");
    succeed(inspect(&file, &["--config", config.to_str().unwrap()]));
    let missing = sentence(inspect(&file, &["--config", "no/such.json"]));
    assert!(missing.starts_with("error: no/such.json: "), "{missing}");
}

/// A model of 12 layers in two kinds, of which every third has a bias; small, but with the names of a
/// large one.
#[test]
fn equal_layers_are_one_row() {
    let mut tensors = Vec::new();
    let mut end = 0;
    let mut add = |name: String, shape: &[usize]| {
        let start = end;
        end += 4 * shape.iter().product::<usize>();
        tensors.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    };
    for layer in 0..12 {
        let part = |part: &str| format!("model.layers.{layer}.self_attn.{part}");
        for (name, shape) in [("q", [8, 8]), ("k", [4, 8]), ("v", [4, 8]), ("o", [8, 8])] {
            add(part(&format!("{name}_proj.weight")), &shape);
        }
        if layer % 3 == 0 {
            for (name, width) in [("q", 8), ("k", 4), ("v", 4)] {
                add(part(&format!("{name}_proj.bias")), &[width]);
            }
        }
        add(format!("model.layers.{layer}.mlp.weight"), &[1]);
    }
    let file = empty_dir("many").join("model.safetensors");
    write_header(&file, &format!("{{{}}}", tensors.join(",")), end);
    fs::write(
        file.with_file_name("config.json"),
        r#"{"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2}"#,
    )
    .unwrap();

    let output = succeed(inspect(&file, &[]));
    let rows = output.lines().filter(|line| line.contains("rotary")).collect::<Vec<_>>();
    assert_eq!(rows.len(), 2, "{output}");
    assert!(rows[0].starts_with("model.layers.{0,3..9}.self_attn "), "{output}");
    assert!(rows[0].contains("biases of query, key, value"), "{output}");
    assert!(rows[1].starts_with("model.layers.{1-2,4-5,7-8,10-11}.self_attn "), "{output}");
    assert_eq!(output.matches("-> query.weight").count(), 2, "{output}");
    assert!(output.ends_with("12 attention layers, 12 of them can be loaded; 12 other tensors\n"));
    assert!(!output.contains("mlp"), "{output}");
    let all = succeed(inspect(&file, &["--tensors"]));
    assert_eq!(all.matches("mlp.weight").count(), 12, "{all}");

    // Their reason is one too.
    let output = succeed(inspect(&file, &["--heads", "3"]));
    assert_eq!(output.matches("n_heads must").count(), 1, "{output}");
    assert!(output.contains("  model.layers.{0-11}.self_attn: n_heads must"), "{output}");
}

#[test]
fn wrong_usage_is_status_2() {
    let file = model("llama");
    let file = file.to_str().unwrap();
    for words in [
        &[][..],
        &["inspect"],
        &["inspect", file, "--heads", "0"],
        &["inspect", file, "--kv-heads", "70000"],
        &["inspect", file, "--no-such-flag"],
        &["convert", file, "out.safetensors"],
        &["convert", file, "--to", "llama"],
        &["convert", file, "out.safetensors", "--to", "gpt3"],
        &["verify", file],
        &["verify", file, "--against", file, "--backend", "abacus"],
    ] {
        fail(command(words), 2);
    }
    let stderr = fail(command(&["convert", file, "out.safetensors", "--to", "gpt3"]), 2);
    assert!(stderr.contains("expected one of mha, burn-nn, pytorch, "), "{stderr}");
}

/// BERT's `self` has a query, a key and a value: it is no layer of its own.
#[test]
fn a_part_of_a_layer_is_no_layer() {
    for (name, layers) in
        [("bert", "2 attention layers, 2 of"), ("bert_cross", "2 attention layers, 2 of")]
    {
        let output = succeed(inspect(&model(name), &[]));
        assert!(output.contains(layers) && !output.contains("missing"), "{name}: {output}");
    }
}
