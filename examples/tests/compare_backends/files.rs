//! Configurations of the user's own.

use std::{fs, path::Path};

use burn::config::Config;
use mha::{Gate, MultiHeadAttentionConfig, Position, QkNorm, Rotary, Sink};

use crate::outcome::{fail, stdout, succeed};
use crate::support::{command, empty_dir, last_line, read_json};

/// Writes a file that `--config` takes, and returns its path.
fn write(dir: &Path, name: &str, json: &str) -> String {
    let file = dir.join(name);
    fs::write(&file, json).unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn a_saved_configuration_with_every_option_is_compared() {
    let dir = empty_dir("every_option");
    let config = MultiHeadAttentionConfig::new(24, 6)
        .with_n_kv_heads(2)
        .with_head_dim(8)
        .with_value_dim(5)
        .with_d_key(7)
        .with_d_value(11)
        .with_d_output(13)
        .with_scale(0.3)
        .with_softcap(3.0)
        .with_key_bias(false)
        .with_gate_bias(false)
        .with_position(Rotary::half(100.0))
        .with_qk_norm(QkNorm::Layer { epsilon: 1e-5 })
        .with_bias_kv(2)
        .with_sink(Sink::Learned)
        .with_gate(Gate::PerHead); // with the dropout of 0.1 that it begins with
    config.save(dir.join("saved.json")).unwrap();
    let module = fs::read_to_string(dir.join("saved.json")).unwrap();
    let rules = r#"[{"Causal": {}}, {"Lengths": {"lengths": [19, 4]}}]"#;
    let file = format!(
        r#"{{"module": {module}, "batch": 2, "seq_q": 17, "seq_k": 19, "rules": {rules}}}"#
    );
    let file = write(&dir, "mine.json", &file);
    let json = dir.join("out.json");
    let stdout = succeed(command(&["--config", &file, "--json", json.to_str().unwrap()]));
    assert_eq!(last_line(&stdout)[2..], [2.0, 1.0]);
    let json = read_json(&json);
    let one = &json["comparisons"][1];
    assert_eq!((&one["configuration"], &one["path"]), (&"mine".into(), &"fused".into()));
    assert_eq!((&one["n_kv_heads"], &one["seq_k"]), (&2.into(), &19.into()));
    let names: Vec<_> =
        one["measures"].as_array().unwrap().iter().map(|measure| &measure["name"]).collect();
    assert!(names.contains(&&"gradient of bias_k".into()), "{names:?}");
    assert!(!names.contains(&&"gradient of key.bias".into()), "{names:?}");
}

#[test]
fn a_configuration_of_burn_nn_is_compared_where_the_reference_knows_it() {
    let dir = empty_dir("burn_nn");
    let file = |rules: &str| {
        let config = MultiHeadAttentionConfig::new(8, 2).with_position(Position::None);
        let module = serde_json::to_string(&config.burn_nn_compat()).unwrap();
        let json = format!(r#"{{"module": {module}, "batch": 2, "seq_q": 5, "rules": [{rules}]}}"#);
        write(&dir, "burn_nn.json", &json)
    };
    // Without kernels, which it says.
    let stdout = succeed(command(&["--config", &file(r#"{"Causal": {}}"#)]));
    assert_eq!(last_line(&stdout)[2..], [1.0, 1.0]);
    assert!(stdout.contains("not compared: burn_nn on ndarray: path must be"), "{stdout}");

    let empty_rows = file(r#"{"Lengths": {"lengths": [5, 0]}}"#);
    let stderr = fail(command(&["--config", &empty_rows]), 2);
    assert!(stderr.contains("every query sees a key"), "{stderr}");
}

#[test]
fn a_file_that_cannot_be_used_is_a_sentence() {
    let dir = empty_dir("bad");
    let call = |module: &str, call: &str| format!(r#"{{"module": {module}, {call}}}"#);
    let good = r#"{"d_model": 8, "n_heads": 2}"#;
    for (json, said) in [
        ("{".to_string(), "EOF"),
        ("[]".to_string(), "--help shows"),
        (good.to_string(), "unknown field `d_model`"),
        (call(good, r#""batch": 2"#), "missing field `seq_q`"),
        (call(r#"{"d_model": 8}"#, r#""batch": 2, "seq_q": 3"#), "missing field `n_heads`"),
        (call(good, r#""batch": -2, "seq_q": 3"#), "-2"),
        (call(good, r#""batch": 0, "seq_q": 3"#), "batch must be at least 1, got 0"),
        (call(good, r#""batch": 2, "seq_q": 3, "seq_k": 0"#), "seq_k must be at least 1"),
        (call(good, r#""batch": 2, "seq_q": 3, "causal": true"#), "unknown field `causal`"),
        (
            call(r#"{"d_model": 9, "n_heads": 2}"#, r#""batch": 2, "seq_q": 3"#),
            "n_heads must divide d_model",
        ),
        (call(r#"{"d_model": 8, "n_heads": 0}"#, r#""batch": 2, "seq_q": 3"#), "n_heads must"),
        (
            call(r#"{"d_model": 8, "n_heads": 2, "n_kv_heads": 0}"#, r#""batch": 2, "seq_q": 3"#),
            "n_kv_heads must",
        ),
        (
            call(good, r#""batch": 2, "seq_q": 3, "rules": [{"Lengths": {"lengths": [1, 2, 3]}}]"#),
            "lengths",
        ),
        (call(good, r#""batch": 2, "seq_q": 1000000"#), "pairs of query and key"),
        (call(good, r#""batch": 18446744073709551615, "seq_q": 18446744073709551615"#), "at most"),
        (call(r#"{"d_model": 60000, "n_heads": 2}"#, r#""batch": 1, "seq_q": 1"#), "weights"),
        (
            call(r#"{"d_model": 8, "n_heads": 2, "scale": 1e39}"#, r#""batch": 1, "seq_q": 9"#),
            "scale must be finite in f32",
        ),
    ] {
        let file = write(&dir, "bad.json", &json);
        let output = command(&["--config", &file]).output().unwrap();
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{json}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(said), "{json}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{json}: {stderr}");
        assert!(!stderr.contains("panic") && stdout(&output).is_empty(), "{json}: {stderr}");
    }
    let stderr = fail(command(&["--config", "no/such/file.json"]), 2);
    assert!(stderr.starts_with("error: no/such/file.json: "), "{stderr}");
}

#[test]
fn flags_that_cannot_be_honoured_are_sentences() {
    let dir = empty_dir("flags");
    for flag in ["--backend=abacus", "--no-such-flag", "--json"] {
        assert!(fail(command(&[flag]), 2).starts_with("error: "), "{flag}");
    }
    let small = write(
        &dir,
        "small.json",
        r#"{"module": {"d_model": 2, "n_heads": 1}, "batch": 1, "seq_q": 1}"#,
    );
    let nowhere = dir.join("no/such/dir.json");
    let stderr = fail(command(&["--config", &small, "--json", nowhere.to_str().unwrap()]), 2);
    assert!(stderr.starts_with("error: cannot write "), "{stderr}");
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn without_an_adapter_nothing_is_compared_and_a_sentence_says_what_to_do() {
    let mut command = command(&["--backend=wgpu"]);
    for loader_reads in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(loader_reads, "/nonexistent");
    }
    let stderr = fail(command, 2);
    assert!(stderr.contains("Vulkan driver") && stderr.lines().count() == 1, "{stderr}");
}

/// Rules whose numbers are as large as they can be mean what they mean for large numbers.
#[test]
fn extreme_rules_are_compared() {
    let dir = empty_dir("extreme");
    for rule in [
        r#"{"Causal": {"offset": {"At": 9223372036854775807}}}"#,
        r#"{"Causal": {"offset": {"At": -9223372036854775808}}}"#,
        r#"{"Window": {"left": 18446744073709551615, "right": 18446744073709551615}}"#,
        r#"{"Chunked": {"size": 18446744073709551615}}"#,
    ] {
        let json = format!(
            r#"{{"module": {{"d_model": 4, "n_heads": 2}}, "batch": 1, "seq_q": 3, "rules": [{rule}]}}"#
        );
        let file = write(&dir, "extreme.json", &json);
        let output = command(&["--config", &file]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panic"), "{rule}: {stderr}");
        let refused = output.status.code() == Some(2) && stderr.lines().count() == 1;
        assert!(output.status.success() || refused, "{rule}: {output:?}");
    }
}
