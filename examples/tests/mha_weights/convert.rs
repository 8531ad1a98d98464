//! Files under other names.

use std::{fs, path::Path};

use mha::weights::{Dtype, Family, Store};

use crate::support::{
    command, convert, empty_dir, fixture, model, sentence, succeed, verify, write_header,
};

/// The same names with the same types, shapes and bytes.
fn assert_same_tensors(a: &Path, b: &Path) {
    let [a, b] = [a, b].map(|file| Store::open(file).unwrap());
    let entries = |store: &Store| {
        store.entries().map(|(name, entry)| (name.to_string(), entry.clone())).collect::<Vec<_>>()
    };
    assert_eq!(entries(&a), entries(&b));
    for (name, _) in a.entries() {
        assert!(a.read(name).unwrap().bytes() == b.read(name).unwrap().bytes(), "{name}");
    }
}

/// Converts there and back and returns the files' names.
fn round_trip(
    name: &str,
    through: &str,
    back: &str,
    flags: [&[&str]; 2],
) -> [std::path::PathBuf; 3] {
    let dir = empty_dir(&format!("{name}_{through}"));
    let file = model(name);
    let [there, again] =
        ["there", "again"].map(|name| dir.join(name).with_extension("safetensors"));
    let output = succeed(convert(&file, through, &there, flags[0]));
    let last = output.lines().last().unwrap();
    assert!(last.starts_with(&format!("written: {}, ", there.display())), "{output}");
    assert!(last.contains(&format!(" as {through}, ")), "{output}");
    succeed(convert(&there, back, &again, flags[1]));
    [file, there, again]
}

#[test]
fn llama_comes_back_from_meta_llama_bit_for_bit() {
    let config = fixture("llama").join("config.json");
    let config = ["--config", config.to_str().unwrap()];
    let [file, there, again] = round_trip("llama", "meta-llama", "llama", [&[], &config]);
    let names: Vec<String> =
        Store::open(&there).unwrap().entries().map(|(name, _)| name.to_string()).collect();
    assert!(names.iter().any(|name| name.ends_with(".wq.weight")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with("q_proj.weight")), "{names:?}");
    let query = |file: &Path, name: &str| {
        let store = Store::open(file).unwrap();
        let (name, _) = store.entries().find(|(other, _)| other.ends_with(name)).unwrap();
        store.read(name).unwrap()
    };
    let (ours, theirs) = (query(&file, "q_proj.weight"), query(&there, "wq.weight"));
    assert_eq!(ours.shape(), theirs.shape());
    assert!(ours.bytes() != theirs.bytes(), "rotary pairs lie otherwise");
    assert!(fs::read(&file).unwrap() == fs::read(&again).unwrap());
    // And it is the same layer under the other names.
    succeed(verify(&there, &fixture("llama").join("case.safetensors"), &config));
}

#[test]
fn pytorch_comes_back_from_mha() {
    let heads = Store::open(fixture("pytorch").join("case.safetensors")).unwrap();
    let heads = heads.metadata()["n_heads"].clone();
    let [file, there, again] = round_trip("pytorch", "mha", "pytorch", [&["--heads", &heads], &[]]);
    // A file of ours says how many heads there are.
    succeed(verify(&there, &fixture("pytorch").join("case.safetensors"), &[]));
    assert_same_tensors(&file, &again);
}

/// The same layer in another layout is verified, by its results and its inputs' gradients.
#[test]
fn a_converted_layer_computes_what_its_library_does() {
    for (name, to) in [("gpt2", "nanogpt"), ("phi3", "llama"), ("bert", "mha"), ("gpt_neox", "mha")]
    {
        let out = empty_dir(&format!("{name}_{to}")).join("out.safetensors");
        succeed(convert(&model(name), to, &out, &[]));
        let config = fixture(name).join("config.json");
        let flags = ["--config", config.to_str().unwrap()];
        let output = succeed(verify(&out, &fixture(name).join("case.safetensors"), &flags));
        assert!(output.contains("gradients of parameters are not compared"), "{name}: {output}");
        assert!(output.contains("\ngradient of query "), "{name}: {output}");
    }
}

#[test]
fn narrow_types_stay_narrow() {
    for (name, dtype) in [("llama_f16", Dtype::F16), ("llama_bf16", Dtype::BF16)] {
        let [file, there, again] = round_trip(name, "mha", "llama", [&[], &[]]);
        let store = Store::open(&there).unwrap();
        assert!(store.entries().all(|(_, entry)| entry.dtype == dtype), "{name}");
        assert_same_tensors(&file, &again);
    }
}

#[test]
fn shards_become_one_file() {
    let dir = empty_dir("shards");
    let out = dir.join("model.safetensors");
    let output = succeed(convert(&fixture("llama_sharded"), "mha", &out, &[]));
    assert!(output.lines().last().unwrap().contains(" 1 attention layer as mha, "), "{output}");
    succeed(verify(&out, &fixture("llama_sharded").join("case.safetensors"), &[]));
}

#[test]
fn what_cannot_be_written_is_a_sentence_and_leaves_nothing() {
    let dir = empty_dir("no_place");
    let out = dir.join("out.safetensors");
    // Grouped heads, which GPT-2 has not; heads that nobody said; nothing to convert.
    let said = sentence(convert(&model("qwen3"), "gpt2", &out, &[]));
    assert!(said.contains("gpt2 has no place for 2 key heads for 4 query heads"), "{said}");
    let said = sentence(convert(&model("pytorch"), "mha", &out, &[]));
    assert!(said.contains("--heads N"), "{said}");
    let folder = empty_dir("no_layer");
    let other = folder.join("other.safetensors");
    write_header(&other, r#"{"mlp.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
    let said = sentence(convert(&other, "mha", &out, &[]));
    assert!(said.contains("no attention layer to convert"), "{said}");
    let said = sentence(convert(&fixture("deepseek_v3"), "llama", &out, &[]));
    assert!(said.contains("latent"), "{said}");
    assert_eq!(crate::support::names(&dir), [""; 0]);
    let said = sentence(convert(&model("llama"), "mha", &dir.join("no/such/out.safetensors"), &[]));
    assert!(said.contains("No such file"), "{said}");
}

#[test]
fn help_names_every_family() {
    let help = succeed(command(&["convert", "--help"]));
    for family in Family::all() {
        let name = family.to_string();
        let words = help.split([' ', ',', '\n']);
        assert!(words.into_iter().any(|word| word == name), "{name}: {help}");
    }
}
