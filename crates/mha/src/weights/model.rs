//! What a model says besides its tensors, in its config.json: heads, positions, scale, masks.

use serde_json::Value;

use super::form::Form;
use super::rope;
use super::{Error, Family};
use crate::RotaryLayout;
use crate::position::{Position, T5Buckets};

/// What the tensors of a checkpoint do not say. It is read from the config.json beside them, or said
/// by the setters, which win.
///
/// # Example
///
/// ```
/// use mha::weights::Model;
///
/// let model = Model::from_json(r#"{"model_type": "bert", "num_attention_heads": 12}"#).unwrap();
/// assert_eq!(model.model_type(), Some("bert"));
/// // PyTorch's files have no config.json.
/// let model = Model::default().with_heads(8);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    json: Value,
    n_heads: Option<usize>,
    n_kv_heads: Option<usize>,
    position: Option<Position>,
}

/// Where in a model a layer is, as its prefix tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) prefix: &'a str,
}

impl Model {
    /// Reads a config.json, `transformers`' or Meta's params.json.
    ///
    /// # Errors
    ///
    /// When it is no JSON object. Fields are looked at when a layer asks for them.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        match serde_json::from_str(text) {
            Ok(json @ Value::Object(_)) => Ok(Self { json, ..Self::default() }),
            Ok(_) => Err(wrong("the file", "a JSON object", "another value")),
            Err(error) => Err(wrong("the file", "a JSON object", &error.to_string())),
        }
    }

    /// Says how many heads there are.
    pub fn with_heads(mut self, n_heads: usize) -> Self {
        self.n_heads = Some(n_heads);
        self
    }

    /// Says how many heads of keys and values there are.
    pub fn with_kv_heads(mut self, n_kv_heads: usize) -> Self {
        self.n_kv_heads = Some(n_kv_heads);
        self
    }

    /// Says how positions are told apart; [`Position::None`] if the model does that elsewhere.
    pub fn with_position(mut self, position: impl Into<Position>) -> Self {
        self.position = Some(position.into());
        self
    }

    /// The kind of model, `transformers`' `model_type`.
    pub fn model_type(&self) -> Option<&str> {
        self.json.get("model_type")?.as_str()
    }

    /// That of the part of the model that has the layer: a vision model has its own configuration
    /// inside, and so has the language model beside it.
    fn part(&self, at: Place<'_>) -> &Value {
        let name = if at.has("vision") { "vision_config" } else { "text_config" };
        match self.json.get(name) {
            Some(inner @ Value::Object(_)) => inner,
            _ => &self.json,
        }
    }

    /// The kind of model that has the layer.
    pub(super) fn kind(&self, at: Place<'_>) -> &str {
        let inner = self.part(at).get("model_type").and_then(Value::as_str);
        inner.or(self.model_type()).unwrap_or("")
    }

    /// Whether there is a config.json.
    pub(super) fn is_there(&self) -> bool {
        self.json.is_object()
    }

    /// The first of these fields that is there and not null.
    pub(super) fn get(&self, at: Place<'_>, fields: &[&'static str]) -> Option<Field<'_>> {
        fields.iter().find_map(|&name| {
            let value = self.part(at).get(name).filter(|value| !value.is_null())?;
            Some(Field { name, value })
        })
    }

    pub(super) fn heads(&self, at: Place<'_>) -> Result<Option<usize>, Error> {
        if self.n_heads.is_some() {
            return Ok(self.n_heads);
        }
        let common = ["num_attention_heads", "n_head", "n_heads", "num_heads"];
        let own =
            if at.has("decoder") { "decoder_attention_heads" } else { "encoder_attention_heads" };
        let [a, b, c, d] = common;
        self.get(at, &[own, a, b, c, d]).map(|field| field.count()).transpose()
    }

    pub(super) fn kv_heads(&self, at: Place<'_>) -> Result<Option<usize>, Error> {
        if self.n_kv_heads.is_some() {
            return Ok(self.n_kv_heads);
        }
        self.get(at, &["num_key_value_heads", "n_kv_heads"]).map(|field| field.count()).transpose()
    }

    pub(super) fn head_dim(&self, at: Place<'_>) -> Result<Option<usize>, Error> {
        self.get(at, &["head_dim", "d_kv"]).map(|field| field.count()).transpose()
    }

    pub(super) fn dropout(&self, at: Place<'_>) -> Result<f64, Error> {
        let fields =
            ["attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "dropout_rate"];
        self.get(at, &fields).map_or(Ok(0.0), |field| field.number())
    }

    pub(super) fn norm_epsilon(&self, at: Place<'_>) -> Result<f64, Error> {
        let fields = ["rms_norm_eps", "norm_eps", "layer_norm_eps"];
        self.get(at, &fields).map_or(Ok(1e-6), |field| field.number())
    }

    /// Whether factors of norms are stored less 1.
    pub(super) fn zero_centred(&self, at: Place<'_>) -> bool {
        let kind = self.kind(at);
        kind.starts_with("gemma3") || kind.starts_with("qwen3_next")
    }

    pub(super) fn softcap(&self, at: Place<'_>) -> Result<Option<f64>, Error> {
        self.get(at, &["attn_logit_softcapping"]).map(|field| field.number()).transpose()
    }

    /// What scores are multiplied by, where it is not 1/√head_dim.
    pub(super) fn scale(
        &self,
        form: &Form,
        at: Place<'_>,
        head_dim: usize,
    ) -> Result<Option<f64>, Error> {
        let kind = self.kind(at);
        if form.family == Family::T5 || kind == "gpt_neo" {
            return Ok(Some(1.0));
        }
        if let Some(field) = self.get(at, &["query_pre_attn_scalar"]) {
            return Ok(Some(1.0 / field.positive()?.sqrt()));
        }
        if let Some(field) = self.get(at, &["attention_multiplier"]) {
            return field.number().map(Some);
        }
        if form.family != Family::Gpt2 {
            return Ok(None);
        }
        let mut scale = 1.0 / (head_dim as f64).sqrt();
        if self.flag(at, "scale_attn_weights") == Some(false) {
            scale = 1.0;
        }
        if self.flag(at, "scale_attn_by_inverse_layer_idx") == Some(true) {
            scale /= (at.layer().unwrap_or(0) + 1) as f64;
        }
        Ok((scale != 1.0 / (head_dim as f64).sqrt()).then_some(scale))
    }

    pub(super) fn flag(&self, at: Place<'_>, name: &'static str) -> Option<bool> {
        self.get(at, &[name])?.value.as_bool()
    }

    /// How positions are told apart, or `None` when that cannot be known.
    pub(super) fn position(
        &self,
        form: &Form,
        at: Place<'_>,
        head_dim: usize,
        table: Option<usize>,
    ) -> Result<Option<Position>, Error> {
        if let Some(position) = &self.position {
            return Ok(Some(position.clone()));
        }
        let rotary =
            |layout| rope::rotary(self, at, layout, head_dim).map(Position::Rotary).map(Some);
        let kind = self.kind(at);
        match form.family {
            // Old files have a table in cross-attention too, which T5 never read.
            Family::T5 if at.is_cross() => Ok(Some(Position::None)),
            Family::T5 => table.map_or(Ok(Some(Position::None)), |n_buckets| {
                self.buckets(at, n_buckets).map(Position::T5).map(Some)
            }),
            Family::Bloom => Ok(Some(Position::Alibi)),
            Family::GptNeox if kind.starts_with("gpt_neox") => rotary(RotaryLayout::Half),
            Family::MetaLlama if self.is_there() => rotary(RotaryLayout::Interleaved),
            Family::Llama | Family::Phi3 if HALF.contains(&kind) => {
                if self.turns(at) {
                    rotary(RotaryLayout::Half)
                } else {
                    Ok(Some(Position::None))
                }
            }
            Family::GptNeox | Family::MetaLlama | Family::Llama | Family::Phi3 => Ok(None),
            Family::Whisper if kind == "gptj" => rotary(RotaryLayout::Interleaved),
            _ => Ok(Some(Position::None)),
        }
    }

    /// Whether a layer of a model with rotary positions has them: SmolLM 3 lists those that do.
    fn turns(&self, at: Place<'_>) -> bool {
        let listed = self.get(at, &["no_rope_layers"]);
        let listed = listed.and_then(|field| field.value.get(at.layer()?)?.as_u64());
        listed != Some(0)
    }

    pub(super) fn buckets(&self, at: Place<'_>, n_buckets: usize) -> Result<T5Buckets, Error> {
        let buckets =
            if at.has("decoder") { T5Buckets::causal() } else { T5Buckets::bidirectional() };
        let far = self.get(at, &["relative_attention_max_distance"]);
        let far = far.map(|field| field.count()).transpose()?;
        let far = far.unwrap_or(buckets.max_distance);
        Ok(buckets.with_n_buckets(n_buckets).with_max_distance(far))
    }

    /// What `layer_types` says of a layer.
    pub(super) fn layer_type(&self, at: Place<'_>) -> Option<&str> {
        self.get(at, &["layer_types"])?.value.get(at.layer()?)?.as_str()
    }
}

/// Models in `transformers` with the names of Llama or Phi-3 whose channels turn in halves. Others with
/// these names turn in pairs, or differ in more than positions: better to ask than to guess.
const HALF: [&str; 17] = [
    "llama",
    "mistral",
    "mixtral",
    "ministral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "phi3",
    "granite",
    "smollm3",
    "starcoder2",
];

impl Place<'_> {
    /// Whether one of the prefix's names starts with a word.
    pub(super) fn has(self, word: &str) -> bool {
        self.prefix.split('.').any(|name| name.starts_with(word))
    }

    pub(super) fn is_cross(self) -> bool {
        let cross = ["crossattention", "encoder_attn", "EncDecAttention", "cross_attn"];
        cross.iter().any(|name| self.has(name))
    }

    /// The layer's number in the model: the first in its prefix.
    pub(super) fn layer(self) -> Option<usize> {
        self.prefix.split('.').find_map(|name| name.parse().ok())
    }
}

/// A field of config.json.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) value: &'a Value,
}

impl Field<'_> {
    /// A whole number that sizes can have.
    pub(super) fn count(self) -> Result<usize, Error> {
        let count = self.value.as_u64().filter(|count| (1..1 << 31).contains(count));
        count.map(|count| count as usize).ok_or_else(|| self.wrong("a whole number of at least 1"))
    }

    pub(super) fn number(self) -> Result<f64, Error> {
        let number = self.value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong("a number"))
    }

    pub(super) fn positive(self) -> Result<f64, Error> {
        let number = self.number()?;
        if number > 0.0 { Ok(number) } else { Err(self.wrong("a number above 0")) }
    }

    pub(super) fn wrong(self, expected: &str) -> Error {
        wrong(self.name, expected, &self.value.to_string())
    }
}

fn wrong(field: &str, expected: &str, actual: &str) -> Error {
    let mut actual: String = actual.chars().take(80).collect();
    if actual.chars().count() == 80 {
        actual.push('…');
    }
    Error::Model { field: field.to_string(), expected: expected.to_string(), actual }
}
