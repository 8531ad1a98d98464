//! What a layer is, in the cells of a table.

use mha::weights::Layer;
use mha::{
    Gate, MultiHeadAttentionConfig, Position, ProjectionBias, QkNorm, Rotary, RotaryLayout,
    RotaryScaling, Rule, Sink,
};
use mha_tests::AnyBackend;

/// The names of [`cells`].
pub(crate) const HEAD: [&str; 8] =
    ["family", "d_model", "heads", "head_dim", "positions", "scale", "mask", "besides"];

/// The cells of a layer; `-` where there is nothing, or nothing known.
pub(crate) fn cells(layer: &Layer) -> [String; 8] {
    let config = layer.config();
    let n_kv_heads = config.n_kv_heads.unwrap_or(config.n_heads);
    let heads = if n_kv_heads == config.n_heads {
        config.n_heads.to_string()
    } else {
        format!("{}/{n_kv_heads}", config.n_heads)
    };
    let head_dim = head_dim(config);
    let scale = config.scale.map_or(format!("1/√{head_dim}"), rounded);
    [
        layer.family().to_string(),
        config.d_model.to_string(),
        heads,
        head_dim.to_string(),
        positions(layer),
        scale,
        or_dash(mask(layer)),
        or_dash(besides(config)),
    ]
}

/// A scale to six places, where it has no more than that before it.
fn rounded(scale: f64) -> String {
    match scale.abs() {
        1e-3..1e6 => format!("{}", (scale * 1e6).round() / 1e6),
        _ => format!("{scale:e}"),
    }
}

fn or_dash(texts: Vec<String>) -> String {
    if texts.is_empty() { "-".to_string() } else { texts.join(", ") }
}

fn head_dim(config: &MultiHeadAttentionConfig) -> usize {
    config.head_dim.unwrap_or(config.d_model / config.n_heads.max(1))
}

fn positions(layer: &Layer) -> String {
    match &layer.config().position {
        Position::Rotary(rotary) => rotary_in_words(rotary),
        Position::Alibi => "ALiBi".to_string(),
        Position::T5(buckets) => format!("T5, {} buckets", buckets.n_buckets),
        _ if layer.shared_table().is_some() => "T5, a shared table".to_string(),
        _ => "-".to_string(),
    }
}

fn rotary_in_words(rotary: &Rotary) -> String {
    let layout = match rotary.layout {
        RotaryLayout::Half => "half",
        RotaryLayout::Interleaved => "interleaved",
        _ => "other",
    };
    let width = rotary.width.map_or(String::new(), |width| format!(" of {width} channels"));
    let scaling = match &rotary.scaling {
        RotaryScaling::None => String::new(),
        RotaryScaling::Linear { factor } => format!(", linear ×{factor}"),
        RotaryScaling::Ntk { factor } => format!(", NTK ×{factor}"),
        RotaryScaling::DynamicNtk { factor, .. } => format!(", dynamic NTK ×{factor}"),
        RotaryScaling::Yarn(yarn) => format!(", YaRN ×{}", yarn.factor),
        RotaryScaling::Llama3 { factor, .. } => format!(", Llama 3 ×{factor}"),
        RotaryScaling::LongRope { original_length, max_length, .. } => {
            format!(", LongRoPE {original_length} to {max_length}")
        }
        RotaryScaling::Proportional { share, .. } => format!(", proportional, share {share}"),
        _ => ", scaled".to_string(),
    };
    format!("rotary {layout}{width}, theta {}{scaling}", rotary.theta)
}

/// What the model's own calls hide.
fn mask(layer: &Layer) -> Vec<String> {
    let mask = layer.mask::<AnyBackend>();
    let rules = mask.rules().iter().map(|rule| match rule {
        Rule::Causal { .. } => "causal".to_string(),
        Rule::Window { left: Some(left), right: Some(0), .. } => {
            format!("causal, window {}", left.saturating_add(1))
        }
        rule => rule.to_string(),
    });
    rules.collect()
}

/// Whatever is not the same for all.
fn besides(config: &MultiHeadAttentionConfig) -> Vec<String> {
    let widths = [
        ("value_dim", config.value_dim),
        ("d_key", config.d_key),
        ("d_value", config.d_value),
        ("d_output", config.d_output),
    ];
    let widths = widths.into_iter().filter_map(|(name, width)| Some(format!("{name} {}", width?)));
    let norm = config.qk_norm.map(|norm| {
        let kind = match norm {
            QkNorm::Rms { .. } => "RMS",
            QkNorm::Layer { .. } => "layer",
            QkNorm::L2 { .. } => "L2",
            _ => "other",
        };
        format!("{kind} norm of query and key")
    });
    let gate = match config.gate {
        Gate::None => None,
        Gate::PerHead => Some("a gate per head".to_string()),
        Gate::Elementwise => Some("an elementwise gate".to_string()),
        _ => Some("a gate".to_string()),
    };
    let sink = match config.sink {
        Sink::None => None,
        Sink::Quiet => Some("quiet softmax".to_string()),
        Sink::ZeroKey => Some("a zero key".to_string()),
        Sink::Learned => Some("learned sinks".to_string()),
        _ => Some("a sink".to_string()),
    };
    let others = [
        biases(config.bias),
        norm,
        config.softcap.map(|cap| format!("softcap {cap}")),
        sink,
        gate,
        (config.bias_kv > 0).then(|| format!("bias_kv {}", config.bias_kv)),
    ];
    widths.chain(others.into_iter().flatten()).collect()
}

fn biases(bias: ProjectionBias) -> Option<String> {
    let all =
        [("query", bias.query), ("key", bias.key), ("value", bias.value), ("output", bias.output)];
    let there: Vec<&str> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    match there.len() {
        0 => None,
        4 => Some("biases".to_string()),
        _ => Some(format!("biases of {}", there.join(", "))),
    }
}
