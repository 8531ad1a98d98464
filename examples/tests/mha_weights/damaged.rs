//! Files that are not what they should be: a sentence and a status, whatever the bytes.

use std::{fs, path::Path, process::Command};

use crate::support::{
    convert, empty_dir, fixture, inspect, model, sentence, succeed, verify, write_header,
};

#[test]
fn files_that_cannot_be_read_are_sentences() {
    let dir = empty_dir("unreadable");
    let file = dir.join("model.safetensors");
    let out = dir.join("out.safetensors");
    let case = fixture("llama").join("case.safetensors");
    let good = fs::read(model("llama")).unwrap();
    let all_say = |said: &str| {
        for command in
            [inspect(&file, &[]), convert(&file, "mha", &out, &[]), verify(&file, &case, &[])]
        {
            let sentence = sentence(command);
            assert!(sentence.contains("model.safetensors: "), "{sentence}");
            assert!(sentence.contains(said), "{said}: {sentence}");
            assert!(!out.exists());
        }
    };
    all_say("No such file");
    for (bytes, said) in [
        (&b""[..], "expected"),
        (&good[..7], "expected"),
        (&good[..100], "expected"),
        (&good[..good.len() - 1], "expected"),
        (&[&good[..], b"x"].concat(), "expected"),
        (b"PK\x03\x04 is no archive", "expected"),
        (&[&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "expected a header of at most"),
    ] {
        fs::write(&file, bytes).unwrap();
        all_say(said);
    }
    write_header(&file, r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4);
    all_say("tensor `a`");
    fs::remove_file(&file).unwrap();
    let said = sentence(inspect(&dir, &[]));
    assert!(said.contains("unreadable"), "{said}");
}

/// A run with one byte changed may work or be refused; it never panics, and says one sentence at most.
fn assert_calm(mut command: Command, what: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{what}: {output:?}");
    assert!(!stderr.contains("panic"), "{what}: {stderr}");
    assert!(stderr.is_empty() || stderr.starts_with("error: "), "{what}: {stderr}");
    assert!(stderr.lines().count() <= 1, "{what}: {stderr}");
}

/// The bytes with one changed, at about `count` places.
fn mutants(bytes: &[u8], count: usize) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..bytes.len()).step_by((bytes.len() / count).max(1)).map(|at| {
        let mut mutant = bytes.to_vec();
        mutant[at] = mutant[at].wrapping_add(1 + (at % 7) as u8);
        (at, mutant)
    })
}

/// Mutants of the file `name` beside the others of a golden folder, through `runs`.
fn try_mutants(family: &str, name: &str, count: usize, runs: impl Fn(&Path) -> Vec<Command>) {
    let dir = empty_dir(&format!("mutants_{family}_{name}"));
    for other in crate::support::names(&fixture(family)) {
        fs::copy(fixture(family).join(&other), dir.join(&other)).unwrap();
    }
    let good = fs::read(fixture(family).join(name)).unwrap();
    for (at, mutant) in mutants(&good, count) {
        fs::write(dir.join(name), mutant).unwrap();
        for command in runs(&dir) {
            assert_calm(command, &format!("{family}/{name}, byte {at}"));
        }
    }
}

#[test]
fn one_wrong_byte_of_the_weights() {
    for (family, name) in [("qwen3_next", "model.safetensors"), ("pytorch_pt", "model.pt")] {
        try_mutants(family, name, 60, |dir| {
            let (file, case) = (dir.join(name), dir.join("case.safetensors"));
            vec![
                inspect(&file, &["--tensors"]),
                convert(&file, "mha", &dir.join("out.st"), &["--force", "--heads", "4"]),
                verify(&file, &case, &[]),
            ]
        });
    }
}

#[test]
fn one_wrong_byte_of_the_config() {
    for family in ["phi3_longrope_short", "t5_encoder_no_table"] {
        try_mutants(family, "config.json", 100, |dir| {
            vec![inspect(dir, &["--tensors"]), verify(dir, &dir.join("case.safetensors"), &[])]
        });
    }
}

#[test]
fn one_wrong_byte_of_the_fixture() {
    for family in ["keras_self", "t5_encoder_no_table"] {
        try_mutants(family, "case.safetensors", 100, |dir| {
            vec![verify(&dir.join("model.safetensors"), &dir.join("case.safetensors"), &[])]
        });
    }
}

#[test]
fn one_wrong_byte_of_a_configuration_of_ours() {
    let dir = empty_dir("mutants_ours");
    let (good, file) = (dir.join("good.safetensors"), dir.join("model.safetensors"));
    succeed(convert(
        &model("gpt_oss_full"),
        "mha",
        &good,
        &["--config", fixture("gpt_oss_full").join("config.json").to_str().unwrap()],
    ));
    let case = fixture("gpt_oss_full").join("case.safetensors");
    succeed(verify(&good, &case, &[]));
    let good = fs::read(good).unwrap();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for (at, mut mutant) in mutants(&good[..header], 150) {
        mutant.extend(&good[header..]);
        fs::write(&file, mutant).unwrap();
        for command in [inspect(&file, &[]), verify(&file, &case, &[])] {
            assert_calm(command, &format!("byte {at}"));
        }
    }
}

/// Names of a file's own reach the terminal without what a terminal would obey.
#[test]
fn control_characters_of_a_file_are_escaped() {
    let dir = empty_dir("escapes");
    let file = dir.join("model.safetensors");
    let tensor = |name: &str, from: usize| {
        format!(r#""{name}":{{"dtype":"F32","shape":[2,2],"data_offsets":[{from},{}]}}"#, from + 16)
    };
    let prefix = r"a\u001b[31m\nb\r";
    let names =
        ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("{prefix}.{name}.weight"));
    let names = [&names[..], &[format!("{prefix}.other"), format!("{prefix}other")]].concat();
    let tensors: Vec<_> = names.iter().enumerate().map(|(n, name)| tensor(name, 16 * n)).collect();
    write_header(&file, &format!("{{{}}}", tensors.join(",")), 16 * names.len());
    let config = r#"{"model_type": "llama", "num_attention_heads": 1}"#;
    for config in [config, &config.replace("llama", r"\u001b[31m\n"), &config.replace('1', "7")] {
        fs::write(dir.join("config.json"), config).unwrap();
        let output = succeed(inspect(&file, &["--tensors"]));
        let controls = output.chars().filter(|char| char.is_control() && *char != '\n');
        assert_eq!(controls.count(), 0, "{output:?}");
        assert!(output.contains(r"a\u{1b}[31m\nb\r"), "{output}");
    }
    let stderr = sentence(convert(&file, "mha", &dir.join("out.safetensors"), &[]));
    assert!(!stderr.trim_end().contains(char::is_control), "{stderr:?}");
}

#[test]
fn numbers_that_are_none_are_refused() {
    let dir = empty_dir("nan");
    fs::copy(fixture("llama").join("config.json"), dir.join("config.json")).unwrap();
    let mut bytes = fs::read(model("llama")).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[header..].chunks_exact_mut(4).for_each(|x| x.copy_from_slice(&f32::NAN.to_le_bytes()));
    let file = dir.join("model.safetensors");
    fs::write(&file, bytes).unwrap();
    succeed(inspect(&file, &[])); // which reads no tensor
    let out = dir.join("out.safetensors");
    let said = sentence(convert(&file, "mha", &out, &[]));
    assert!(said.contains("expected finite elements") && !out.exists(), "{said}");
    let case = fixture("llama").join("case.safetensors");
    assert!(sentence(verify(&file, &case, &[])).contains("expected finite elements"));

    // In a fixture too: NaN must not pass for what was computed.
    let mut bytes = fs::read(&case).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let case = dir.join("case.safetensors");
    fs::write(&case, bytes).unwrap();
    let said = sentence(verify(&model("llama"), &case, &[]));
    assert!(said.contains("case.safetensors: ") && said.contains("is inf"), "{said}");
}
