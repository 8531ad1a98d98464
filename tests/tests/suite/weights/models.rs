//! What config.json says of layers that no golden file has.

use burn::tensor::Device;
use mha::weights::{Checkpoint, Family, Layer, Model, export};
use mha::{MultiHeadAttention, Position, Rotary, RotaryLayout};
use mha_tests::AnyBackend;

use super::refused::{Stored, f32s, store};

fn layer(prefix: &str, output: &str, model: Model) -> (Checkpoint, Layer) {
    let name = |part: &str| format!("{prefix}.{part}.weight");
    let names = ["q_proj", "k_proj", "v_proj", output];
    let tensors: Vec<Stored> = names.map(|part| f32s(&name(part), &[8, 8])).to_vec();
    let checkpoint = Checkpoint::new(store(&tensors), model);
    let layer = checkpoint.layer(prefix).expect("a layer");
    (checkpoint, layer)
}

fn mask(prefix: &str, output: &str, json: &str) -> String {
    let model = Model::from_json(json).expect("JSON");
    layer(prefix, output, model).1.mask::<AnyBackend>().to_string()
}

/// What the model is said to compute with is how its rows lie: nothing moves, whatever the family's
/// other models do.
#[test]
fn a_layout_that_is_said_is_the_stored_one() {
    let load = |rotary: Rotary| -> MultiHeadAttention<AnyBackend> {
        let model = Model::default().with_heads(2).with_position(rotary);
        let (checkpoint, layer) = layer("layers.0.self_attn", "o_proj", model);
        checkpoint.load(&layer, &Device::<AnyBackend>::default()).expect("loads").attention
    };
    let [pairs, halves] = [load(Rotary::interleaved(1e4)), load(Rotary::half(1e4))];
    let numbers = |module: &MultiHeadAttention<AnyBackend>| module.query.weight.val().into_data();
    assert_eq!(numbers(&pairs), numbers(&halves));
    // Written for Llama, pairs become halves.
    let written = export(&pairs, Family::Llama, "x").expect("fits").remove(0).1;
    let stored = f32s("", &[8, 8]).bytes;
    let row = |bytes: &[u8], n: usize| bytes[n * 32..][..32].to_vec();
    for (ours, theirs) in [0, 2, 1, 3, 4, 6, 5, 7].into_iter().enumerate() {
        assert_eq!(row(written.bytes(), ours), row(&stored, theirs));
    }
    assert_eq!(export(&halves, Family::Llama, "x").expect("fits").remove(0).1.bytes(), stored);
}

#[test]
fn windows_by_layer() {
    let window = |layers: &str, layer: usize| {
        let json = format!(
            r#"{{"model_type": "qwen2", "num_attention_heads": 2, "sliding_window": 3{layers}}}"#
        );
        let text = mask(&format!("model.layers.{layer}.self_attn"), "o_proj", &json);
        text.contains("window")
    };
    assert!(window("", 0));
    let later = r#", "use_sliding_window": true, "max_window_layers": 2"#;
    assert_eq!([0, 1, 2, 3].map(|layer| window(later, layer)), [false, false, true, true]);
    let none = r#", "use_sliding_window": false, "max_window_layers": 2"#;
    assert!(!window(none, 3));
    let listed = r#", "layer_types": ["full_attention", "sliding_attention"]"#;
    assert_eq!([0, 1].map(|layer| window(listed, layer)), [false, true]);

    let neo = |layer: usize| {
        let json = r#"{"model_type": "gpt_neo", "num_heads": 2, "window_size": 3,
            "attention_types": [[["global", "local"], 1], [["local"], 2]]}"#;
        mask(&format!("h.{layer}.attn.attention"), "out_proj", json).contains("window")
    };
    assert_eq!([0, 1, 2, 3, 4].map(neo), [false, true, true, true, false]);
}

#[test]
fn who_is_causal() {
    let of = |prefix: &str, json: &str| mask(prefix, "out_proj", json).contains("causal");
    let clip = r#"{"model_type": "clip",
        "text_config": {"model_type": "clip_text_model", "num_attention_heads": 2},
        "vision_config": {"model_type": "clip_vision_model", "num_attention_heads": 4}}"#;
    assert!(of("text_model.encoder.layers.0.self_attn", clip));
    assert!(!of("vision_model.encoder.layers.0.self_attn", clip));
    let model = Model::from_json(clip).expect("JSON");
    let heads = |prefix| layer(prefix, "out_proj", model.clone()).1.config().n_heads;
    assert_eq!(heads("text_model.encoder.layers.0.self_attn"), 2);
    assert_eq!(heads("vision_model.encoder.layers.0.self_attn"), 4);

    let bart =
        r#"{"model_type": "bart", "encoder_attention_heads": 4, "decoder_attention_heads": 2}"#;
    assert!(!of("model.encoder.layers.0.self_attn", bart));
    assert!(of("model.decoder.layers.0.self_attn", bart));
    assert!(!of("model.decoder.layers.0.encoder_attn", bart));
    let model = Model::from_json(bart).expect("JSON");
    let heads = |prefix| layer(prefix, "out_proj", model.clone()).1.config().n_heads;
    assert_eq!(heads("model.encoder.layers.0.self_attn"), 4);
    assert_eq!(heads("model.decoder.layers.0.encoder_attn"), 2);
}

/// Layers whose positions or scale differ from their neighbours'.
#[test]
fn scales_and_positions() {
    let config = |prefix: &str, output: &str, json: &str| {
        layer(prefix, output, Model::from_json(json).expect("JSON")).1.config().clone()
    };
    let neo =
        config("h.0.attn.attention", "out_proj", r#"{"model_type": "gpt_neo", "num_heads": 2}"#);
    assert_eq!((neo.scale, neo.position), (Some(1.0), Position::None));
    let gptj = r#"{"model_type": "gptj", "n_head": 2, "rotary_dim": 2}"#;
    let Position::Rotary(rotary) = config("h.0.attn", "out_proj", gptj).position else { panic!() };
    assert_eq!((rotary.layout, rotary.width), (RotaryLayout::Interleaved, Some(2)));
    let granite =
        r#"{"model_type": "granite", "num_attention_heads": 2, "attention_multiplier": 0.25}"#;
    assert_eq!(config("model.layers.0.self_attn", "o_proj", granite).scale, Some(0.25));
    let smol = r#"{"model_type": "smollm3", "num_attention_heads": 2, "no_rope_layers": [1, 0]}"#;
    let turns = |n| {
        let prefix = format!("model.layers.{n}.self_attn");
        matches!(config(&prefix, "o_proj", smol).position, Position::Rotary(_))
    };
    assert_eq!([0, 1].map(turns), [true, false]);
    let gemma = r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
        "num_attention_heads": 2, "query_pre_attn_scalar": 16, "sliding_window": 3,
        "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}}}"#;
    let theta = |n| {
        let prefix = format!("language_model.model.layers.{n}.self_attn");
        let config = config(&prefix, "o_proj", gemma);
        assert_eq!(config.scale, Some(0.25));
        let Position::Rotary(rotary) = config.position else { panic!() };
        rotary.theta
    };
    assert_eq!([0, 1].map(theta), [1e4, 1e6]);
}
