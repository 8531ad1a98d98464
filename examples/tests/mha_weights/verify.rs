//! Layers against what their own libraries computed.

use std::fs;

use mha::weights::Store;

use crate::support::{empty_dir, fail, fixture, model, names, sentence, succeed, verify};

/// The folders that have a case.
fn cases() -> Vec<String> {
    let has_case = |name: &String| fixture(name).join("case.safetensors").exists();
    names(&fixture("")).into_iter().filter(has_case).collect()
}

#[test]
fn every_golden_layer_is_verified() {
    let cases = cases();
    assert!(cases.len() >= 46, "{cases:?}");
    for name in cases {
        let folder = fixture(&name);
        let pt = folder.join("model.pt");
        let case = folder.join("case.safetensors");
        let file = if pt.exists() { &pt } else { &folder };
        let output = succeed(verify(file, &case, &[]));
        let last = output.lines().last().unwrap();
        assert!(last.starts_with("verified: "), "{name}: {output}");
        assert!(
            !output.contains("differs") && !output.contains("not compared"),
            "{name}: {output}"
        );
        // A line for each result that is stored.
        let results = Store::open(&case).unwrap();
        let results = results.entries().filter(|(name, _)| {
            name.starts_with("d.")
                || ["output", "weights", "d_query", "d_key", "d_value"].contains(name)
        });
        let results = results.count();
        assert_eq!(last, format!("verified: {results} results"), "{name}: {output}");
    }
}

#[test]
fn the_fixture_of_another_layer_differs() {
    let case = fixture("gpt_oss_full").join("case.safetensors");
    // The same sizes, another layer of the same model.
    let mut command =
        verify(&fixture("gpt_oss_window"), &case, &["--layer", "model.layers.0.self_attn"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stdout = crate::outcome::stdout(&output);
    assert!(output.stderr.is_empty(), "{output:?}");
    let line = stdout.lines().find(|line| line.starts_with("output ")).unwrap();
    assert!(line.ends_with("  differs"), "{stdout}");
    assert!(stdout.lines().last().unwrap().starts_with("differs: "), "{stdout}");
    assert!(stdout.contains("are not compared"), "{stdout}");

    // Other sizes are a sentence.
    let said = sentence(verify(&model("llama"), &fixture("bert").join("case.safetensors"), &[]));
    assert!(said.contains("no attention layer of this name"), "{said}");
    let prefix = Store::open(fixture("bert").join("case.safetensors")).unwrap();
    let flags = ["--layer", &prefix.metadata()["layer"]];
    let said =
        sentence(verify(&fixture("bert"), &fixture("llama").join("case.safetensors"), &flags));
    assert!(said.contains("expected shape"), "{said}");
}

/// One bit of one weight, and the output is no longer theirs.
#[test]
fn a_changed_weight_differs() {
    let dir = empty_dir("changed");
    for name in ["model.safetensors", "config.json"] {
        fs::copy(fixture("llama").join(name), dir.join(name)).unwrap();
    }
    let case = fixture("llama").join("case.safetensors");
    succeed(verify(&dir, &case, &[]));
    let mut bytes = fs::read(dir.join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let mut entries = json.as_object().unwrap().iter();
    let (_, value) = entries.find(|(name, _)| name.ends_with("v_proj.weight")).unwrap();
    let start = 8 + header + value["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[start + 3] ^= 0x80; // the sign
    fs::write(dir.join("model.safetensors"), bytes).unwrap();
    let stderr = fail(verify(&dir, &case, &[]), 1);
    assert!(stderr.is_empty(), "{stderr}");
}

#[test]
fn a_file_that_is_no_fixture_is_a_sentence() {
    let file = model("llama");
    let said = sentence(verify(&file, &file, &[]));
    assert!(said.contains("is no fixture: it has no tensor `query`"), "{said}");
    let said = sentence(verify(&file, &fixture("llama").join("none.safetensors"), &[]));
    assert!(said.contains("none.safetensors: "), "{said}");
    let case = fixture("llama").join("case.safetensors");
    let said = sentence(verify(&file, &case, &["--layer", "model.layers.7.self_attn"]));
    assert!(said.contains("the checkpoint has model.layers."), "{said}");
}
