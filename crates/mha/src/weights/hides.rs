//! What a model's own calls of a layer hide, as its config.json says.

use serde_json::Value;

use super::form::Form;
use super::model::{Model, Place};
use super::{Error, Family};
use crate::{Offset, Rule};

impl Model {
    /// What the model's own calls of a layer hide: later tokens in a decoder, those beyond a window.
    pub(super) fn rule(&self, form: &Form, at: Place<'_>) -> Result<Option<Rule>, Error> {
        if at.is_cross() {
            return Ok(None);
        }
        let decoder = match form.family {
            Family::Gpt2
            | Family::NanoGpt
            | Family::Llama
            | Family::Phi3
            | Family::MetaLlama
            | Family::GptNeox
            | Family::Bloom => true,
            Family::T5 => at.has("decoder"),
            Family::Whisper => {
                at.has("decoder") || matches!(self.kind(at), "gptj" | "gpt_neo" | "clip_text_model")
            }
            Family::Bert => self.flag(at, "is_decoder") == Some(true),
            _ => false,
        };
        if !decoder {
            return Ok(None);
        }
        let offset = Offset::BottomRight;
        Ok(Some(match self.window(at)? {
            Some(tokens) => {
                Rule::Window { left: Some(tokens - 1), right: Some(0), sinks: 0, offset }
            }
            None => Rule::Causal { offset },
        }))
    }

    /// The tokens that a query sees, itself among them, where a layer has a window.
    fn window(&self, at: Place<'_>) -> Result<Option<usize>, Error> {
        if self.kind(at) == "gpt_neo" {
            let size = self.get(at, &["window_size"]).filter(|_| self.is_local(at));
            return size.map(|field| field.count()).transpose();
        }
        if self.flag(at, "use_sliding_window") == Some(false) {
            return Ok(None);
        }
        let Some(tokens) = self.get(at, &["sliding_window"]) else { return Ok(None) };
        let slides = match self.layer_type(at) {
            Some(kind) => kind == "sliding_attention",
            // Files of older releases do not list them.
            None if self.kind(at) == "gemma2" => at.layer().is_some_and(|layer| layer % 2 == 0),
            None => match self.get(at, &["max_window_layers"]) {
                Some(first) => at.layer() >= first.value.as_u64().map(|first| first as usize),
                None => true,
            },
        };
        if slides { tokens.count().map(Some) } else { Ok(None) }
    }

    /// Whether a layer of GPT-Neo has its window: `[[["global", "local"], 6]]` are 12 layers.
    fn is_local(&self, at: Place<'_>) -> bool {
        let Some(mut layer) = at.layer() else { return false };
        let types = self.get(at, &["attention_types"]);
        for part in types.iter().filter_map(|field| field.value.as_array()).flatten() {
            let (Some(kinds), Some(times)) =
                (part.get(0).and_then(Value::as_array), part.get(1).and_then(Value::as_u64))
            else {
                return false;
            };
            let layers = kinds.len().saturating_mul(times as usize);
            if layer < layers {
                return kinds[layer % kinds.len()] == "local";
            }
            layer -= layers;
        }
        false
    }
}
