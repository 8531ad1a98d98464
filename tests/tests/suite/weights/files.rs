//! What comes in goes out bit for bit, under the same names and under others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use mha::weights::{Array, Checkpoint, Error, Family, Layer, Model, Store, export, save};
use mha::{
    Gate, MultiHeadAttention, MultiHeadAttentionConfig, Position, QkNorm, Rotary, RotaryLayout,
    Sink, T5Buckets,
};
use mha_tests::AnyBackend;

use super::golden::{Golden, folders};

type Attention = MultiHeadAttention<AnyBackend>;

/// A file in a folder of its own that goes when this does.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mha-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("model.safetensors")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // there is no one left to tell
    }
}

fn device() -> Device<AnyBackend> {
    Default::default()
}

fn load(checkpoint: &Checkpoint, layer: &Layer) -> Attention {
    checkpoint.load(layer, &device()).expect("loads").attention
}

/// Every tensor of a file.
fn all(store: &Store) -> BTreeMap<String, Array> {
    let names = store.entries().map(|(name, _)| name.to_string());
    names.map(|name| (name.clone(), store.read(&name).expect("readable"))).collect()
}

fn fixture(name: &str) -> Golden {
    let folders = folders();
    let found = folders.iter().find(|folder| folder.ends_with(name));
    Golden::open(found.expect("the fixture"))
}

#[test]
fn every_golden_file_comes_back_bit_for_bit() {
    let temporary = Temporary::new("back");
    for folder in folders() {
        let Golden { checkpoint, layer, .. } = Golden::open(&folder);
        let attention = load(&checkpoint, &layer);
        checkpoint.save(temporary.file(), &[(&layer, &attention)]).expect("saves");
        let back = Store::open(temporary.file()).expect("opens");
        assert_eq!(all(&back), all(checkpoint.store()), "{}", folder.display());
        assert_eq!(back.metadata(), checkpoint.store().metadata());
    }
}

/// A trained number changes, and none beside it, in the file's own type.
#[test]
fn only_what_changed_changes() {
    let temporary = Temporary::new("changed");
    for name in ["llama_f16", "llama_bf16", "qwen3_next", "gpt2", "keras_self"] {
        let Golden { checkpoint, layer, .. } = fixture(name);
        let mut attention = load(&checkpoint, &layer);
        attention.query.weight = attention.query.weight.map(|weight| {
            let [rows, columns] = weight.dims();
            let at = burn::tensor::Tensor::<AnyBackend, 2>::ones([1, 1], &device());
            weight.slice_assign([rows - 1..rows, columns - 1..columns], at * 3.0)
        });
        checkpoint.save(temporary.file(), &[(&layer, &attention)]).expect("saves");
        let (before, after) =
            (all(checkpoint.store()), all(&Store::open(temporary.file()).expect("opens")));
        let differing: Vec<&String> = before.keys().filter(|n| before[*n] != after[*n]).collect();
        assert_eq!(differing.len(), 1, "{name}: {differing:?}");
        let [before, after] = [&before, &after].map(|all| all[differing[0]].to_f64().unwrap());
        let changed: Vec<f64> =
            before.iter().zip(&after).filter(|(a, b)| a != b).map(|(_, b)| *b).collect();
        assert_eq!(changed, [3.0], "{name}");
    }
}

/// To this crate's names, which bring the configuration, and back.
#[test]
fn converts_there_and_back() {
    let (there, back) = (Temporary::new("there"), Temporary::new("and-back"));
    // Cross-attention of equal widths is written packed.
    let others = ["gpt2_cross", "flash_attn_cross"];
    for folder in folders() {
        if others.iter().any(|other| folder.ends_with(other)) {
            continue;
        }
        if folder.ends_with("qwen3_next") {
            continue; // of its norms, stored less 1, a file in these names knows nothing
        }
        let Golden { checkpoint, layer, .. } = Golden::open(&folder);
        checkpoint.convert(there.file(), Family::Mha, |_, _| {}).expect("converts");
        let ours = Checkpoint::open(there.file()).expect("opens");
        let found = ours.layer(layer.prefix()).expect("a layer");
        let dropout = found.config().dropout;
        assert_eq!(found.config(), &layer.config().clone().with_dropout(dropout), "{folder:?}");

        let mut written = Vec::new();
        ours.convert(back.file(), layer.family(), |name, _| written.push(name.to_string()))
            .expect("converts back");
        let store = Store::open(back.file()).expect("opens");
        let expected: BTreeMap<String, Array> =
            all(checkpoint.store()).into_iter().map(|(n, a)| (dotted(&n, &layer), a)).collect();
        assert_eq!(all(&store), expected, "{}", folder.display());
        assert_eq!(store.metadata(), checkpoint.store().metadata());
        written.sort();
        assert_eq!(written, expected.into_keys().collect::<Vec<_>>());
    }
}

/// Norms that are stored less 1 stay so in the same family.
#[test]
fn the_same_family_is_the_same() {
    let temporary = Temporary::new("same");
    for name in ["qwen3_next", "llama", "gemma2_full"] {
        let Golden { checkpoint, layer, .. } = fixture(name);
        checkpoint.convert(temporary.file(), layer.family(), |_, _| {}).expect("converts");
        let expected = load(&checkpoint, &layer);
        let back = Checkpoint::open(temporary.file()).expect("opens");
        let back = back.with_model(checkpoint.model().clone());
        let found = load(&back, &back.layer(layer.prefix()).expect("a layer"));
        let [found, expected] =
            [&found, &expected].map(|module| export(module, Family::Mha, "x").expect("fits"));
        assert_eq!(found, expected, "{name}");
    }
}

/// A layer's names with dots in them, as they are written.
fn dotted(name: &str, layer: &Layer) -> String {
    let dots = name.replace('/', ".");
    let of_layer = dots.strip_prefix(layer.prefix()).is_some_and(|rest| rest.starts_with('.'));
    if of_layer && !name.contains("query_norm") { dots } else { name.to_string() }
}

/// The same weights in both orders of rotary pairs.
#[test]
fn rotary_pairs_move() {
    let (meta, half) = (fixture("meta_llama"), fixture("llama_sharded"));
    let Position::Rotary(mut rotary) = meta.layer.config().position.clone() else { panic!() };
    assert_eq!(rotary.layout, RotaryLayout::Interleaved);
    rotary.layout = RotaryLayout::Half;
    let config = meta.layer.config().clone().with_position(rotary);
    let permuted = load(&meta.checkpoint, &meta.layer.clone().with_config(config));
    let expected = load(&half.checkpoint, &half.layer);
    let prefix = "layer";
    let [permuted, expected] =
        [&permuted, &expected].map(|module| export(module, Family::Mha, prefix).expect("fits"));
    assert_eq!(permuted, expected);
    // And back into Meta's order when written under Meta's names.
    let written = export(&load(&half.checkpoint, &half.layer), Family::MetaLlama, "m").unwrap();
    let stored = meta.checkpoint.store().read("layers.0.attention.wq.weight").expect("there");
    assert_eq!(written[0].1, stored);
}

/// The config.json of older releases of transformers says the same.
#[test]
fn older_configs() {
    let mut found = 0;
    for folder in folders() {
        let path = folder.join("config-transformers-4.json");
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        found += 1;
        let golden = Golden::open(&folder);
        let newer = golden.checkpoint.layer(golden.layer.prefix()).expect("a layer");
        let checkpoint = golden.checkpoint.with_model(Model::from_json(&text).expect("JSON"));
        let older = checkpoint.layer(golden.layer.prefix()).expect("a layer");
        assert_eq!(older.config(), newer.config(), "{}", folder.display());
        let [older, newer] = [older, newer].map(|layer| layer.mask::<AnyBackend>().to_string());
        assert_eq!(older, newer, "{}", folder.display());
    }
    assert!(found >= 10, "{found}");
}

#[test]
fn what_is_ignored_is_named() {
    let Golden { checkpoint, layer, .. } = fixture("bert");
    let report = checkpoint.load::<AnyBackend>(&layer, &device()).expect("loads").report;
    assert_eq!(report.used.len(), 8);
    assert_eq!(
        report.ignored,
        ["bias", "weight"].map(|n| format!("encoder.layer.1.attention.output.LayerNorm.{n}"))
    );
    let text = report.to_string();
    for part in ["self.key.weight", "-> key.weight", "F32", "[12, 12]", "LayerNorm.bias"] {
        assert!(text.contains(part), "{text}");
    }

    let Golden { checkpoint, layer, .. } = fixture("gpt2");
    let report = checkpoint.load::<AnyBackend>(&layer, &device()).expect("loads").report;
    assert_eq!(report.ignored, ["h.0.attn.bias", "h.0.attn.masked_bias"]);
    assert_eq!(report.used[1].parameters, ["output.weight"]);

    let inspection = checkpoint.inspect();
    assert!(inspection.others.iter().any(|name| name == "wte.weight"), "{inspection:?}");
    let text = inspection.to_string();
    assert!(
        text.contains("\"h.0.attn\": gpt2, d_model 12, n_heads 3, head_dim 4, causal"),
        "{text}"
    );
}

/// Every layer of every golden file is found, and what cannot be loaded is named with its reason.
#[test]
fn inspects_every_file() {
    for folder in folders() {
        let Golden { checkpoint, layer, .. } = Golden::open(&folder);
        let inspection = checkpoint.inspect();
        let found = inspection.layers.iter().find(|found| found.prefix == layer.prefix());
        let found = found.and_then(|found| found.layer.as_ref().ok()).expect("the layer");
        assert_eq!(found.family(), layer.family());
        for found in &inspection.layers {
            assert!(found.layer.is_ok(), "{}: {:?}", folder.display(), found.layer);
            let report = checkpoint.load::<AnyBackend>(found.layer.as_ref().unwrap(), &device());
            assert_eq!(report.expect("loads").report, found.report);
        }
    }
    let latent = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/weights/deepseek_v3");
    let inspection = Checkpoint::open(latent).expect("opens").inspect();
    assert!(!inspection.layers.is_empty());
    for found in &inspection.layers {
        assert!(matches!(found.layer, Err(Error::OtherKind { .. })), "{:?}", found.layer);
    }
}

/// A module of each family's own kind is written and read again, bit for bit.
#[test]
fn every_family_is_written_and_read() {
    let plain = MultiHeadAttentionConfig::new(12, 3);
    let free = plain.clone().with_bias(false);
    let rotary = |layout| {
        let rotary = match layout {
            RotaryLayout::Interleaved => Rotary::interleaved(1e4),
            _ => Rotary::half(1e4),
        };
        free.clone().with_position(rotary)
    };
    let temporary = Temporary::new("written");
    for family in Family::all() {
        let config = match family {
            Family::Mha => rotary(RotaryLayout::Half)
                .with_n_kv_heads(1)
                .with_gate(Gate::PerHead)
                .with_bias_kv(2)
                .with_sink(Sink::Learned)
                .with_value_dim(5)
                .with_qk_norm(QkNorm::Layer { epsilon: 1e-5 }),
            Family::Llama => rotary(RotaryLayout::Half)
                .with_n_kv_heads(1)
                .with_gate(Gate::Elementwise)
                .with_qk_norm(QkNorm::Rms { epsilon: 1e-6 }),
            Family::Phi3 => rotary(RotaryLayout::Half).with_n_kv_heads(1),
            Family::MetaLlama => rotary(RotaryLayout::Interleaved).with_n_kv_heads(1),
            Family::GptNeox => plain.clone().with_position(Rotary::half(1e4).with_width(2)),
            Family::Bloom => plain.clone().with_position(Position::Alibi),
            Family::T5 => free.clone().with_position(T5Buckets::bidirectional()).with_scale(1.0),
            Family::Whisper => plain.clone().with_key_bias(false),
            Family::PyTorch => plain.clone().with_d_key(7).with_bias_kv(1),
            Family::Equinox => plain.clone().with_d_value(5).with_d_output(7).with_key_bias(false),
            _ => plain.clone(),
        };
        let mut config = config.with_dropout(0.0);
        config.bias.gate = config.bias.query;
        let attention: Attention = config.init(&device());
        save(temporary.file(), family, &[("block.attention", &attention)]).expect("writes");

        let model = Model::default().with_heads(3).with_position(config.position.clone());
        let model = match family {
            Family::Bloom => Model::from_json(r#"{"model_type": "bloom", "n_head": 3}"#).unwrap(),
            _ => model,
        };
        let checkpoint = Checkpoint::open(temporary.file()).expect("opens").with_model(model);
        let layer = checkpoint.layer("block.attention").expect("a layer");
        assert_eq!(layer.family(), family);
        assert_eq!(layer.config(), &config, "{family}");
        let loaded = load(&checkpoint, &layer);
        let [before, after] =
            [&attention, &loaded].map(|module| export(module, Family::Mha, "x").expect("fits"));
        assert_eq!(before, after, "{family}");
    }
}

/// A family is not given what it has no place for.
#[test]
fn no_place() {
    let plain = MultiHeadAttentionConfig::new(12, 3);
    let message = |config: &MultiHeadAttentionConfig, family| {
        let attention: Attention = config.init(&device());
        export(&attention, family, "x").unwrap_err().to_string()
    };
    let sinks = plain.clone().with_sink(Sink::Learned);
    assert_eq!(message(&sinks, Family::Bert), "bert has no place for sinks");
    let ones = plain.clone().with_scale(1.0);
    assert_eq!(
        message(&ones, Family::T5),
        "t5 has no place for biases of query, key, value, output and no other"
    );
    let wide = plain.clone().with_bias_kv(1).with_d_value(5);
    assert_eq!(
        message(&wide, Family::FlashAttention),
        "flash-attn has no place for projections that do not fit together in Wkv.weight"
    );
    let gated = plain.clone().with_gate(Gate::Elementwise);
    assert_eq!(message(&gated, Family::BurnNn), "burn-nn has no place for gate.weight");
    let no_key = plain.clone().with_key_bias(false);
    assert_eq!(
        message(&no_key, Family::Gpt2),
        "gpt2 has no place for biases of query, value, output and no other"
    );
    assert_eq!(
        message(&no_key, Family::Llama),
        "llama has no place for biases of query, value, output and no other"
    );
    let grouped = plain.clone().with_n_kv_heads(1);
    assert_eq!(
        message(&grouped, Family::PyTorch),
        "pytorch has no place for 1 key heads for 3 query heads"
    );
    let rotary = plain.clone().with_position(Rotary::half(1e4));
    assert_eq!(message(&rotary, Family::Bert), "bert has no place for these rotary positions");
    let without = plain.clone().with_bias(false);
    assert_eq!(message(&without, Family::Bert), "bert has no place for a module without biases");
    assert_eq!(message(&without, Family::T5), "t5 has no place for a scale that is not 1");
    let capped = plain.clone().with_softcap(5.0);
    assert_eq!(message(&capped, Family::PyTorch), "pytorch has no place for a softcap");
    let zero = plain.clone().with_sink(Sink::ZeroKey);
    assert_eq!(message(&zero, Family::Keras), "keras has no place for a ZeroKey sink");
    assert!(export(&zero.init::<AnyBackend>(&device()), Family::PyTorch, "x").is_ok());
    let two = plain.with_bias_kv(2);
    assert_eq!(
        message(&two, Family::PyTorch),
        "pytorch has no place for 2 learned keys, one alone"
    );
}
