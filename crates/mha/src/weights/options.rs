//! Which of a module's options a family has at all: those that are no parameter would be lost without a
//! word.

use super::form::Form;
use super::{Error, Family};
use crate::error::short;
use crate::position::Position;
use crate::{MultiHeadAttentionConfig, RotaryScaling, Sink};

impl Family {
    /// Whether it has fewer heads of keys and values than of queries.
    pub(super) fn has_groups(self) -> bool {
        use Family::{FlashAttention, Flax, Llama, MetaLlama, Mha, Phi3};
        matches!(self, Mha | Llama | Phi3 | MetaLlama | FlashAttention | Flax)
    }

    fn has_position(self, position: &Position) -> bool {
        use Family::{Bloom, FlashAttention, GptNeox, Llama, MetaLlama, Mha, Phi3, T5, Whisper};
        match position {
            Position::None => !matches!(self, Bloom),
            Position::Rotary(rotary) => match self {
                Mha | Llama | Phi3 | GptNeox | FlashAttention => true,
                MetaLlama => {
                    matches!(rotary.scaling, RotaryScaling::None | RotaryScaling::Llama3 { .. })
                }
                Whisper => matches!(rotary.scaling, RotaryScaling::None), // GPT-J
                _ => false,
            },
            Position::Alibi => matches!(self, Mha | Bloom | FlashAttention),
            Position::T5(_) => matches!(self, Mha | T5),
        }
    }

    fn has_scale(self, scale: Option<f64>) -> bool {
        use Family::{FlashAttention, Gpt2, Llama, Mha, T5, Whisper};
        match (self, scale) {
            (T5, scale) => scale == Some(1.0),
            (_, None) => true,
            (Whisper, scale) => scale == Some(1.0), // GPT-Neo
            _ => matches!(self, Mha | Gpt2 | Llama | FlashAttention),
        }
    }

    fn has_sink(self, sink: Sink) -> bool {
        match sink {
            Sink::None | Sink::Learned => true, // whether it has the parameter is another question
            Sink::Quiet => matches!(self, Self::Mha | Self::BurnNn),
            Sink::ZeroKey => matches!(self, Self::Mha | Self::PyTorch),
        }
    }
}

/// Whether modules of a form have these options.
pub(super) fn check(form: &Form, config: &MultiHeadAttentionConfig) -> Result<(), Error> {
    let family = form.family;
    let refused = |what: String| Err(Error::NoPlace { family, what });
    let n_kv_heads = config.n_kv_heads.unwrap_or(config.n_heads);
    if n_kv_heads != config.n_heads && !family.has_groups() {
        return refused(format!("{n_kv_heads} key heads for {} query heads", config.n_heads));
    }
    if !family.has_position(&config.position) {
        return refused(match &config.position {
            Position::None => "a module without positions".to_string(),
            Position::Rotary(_) => "these rotary positions".to_string(),
            Position::Alibi => "ALiBi".to_string(),
            Position::T5(_) => "relative_bias".to_string(),
        });
    }
    if !family.has_scale(config.scale) {
        return refused(match config.scale {
            Some(scale) => format!("a scale of {}", short(scale)),
            None => "a scale that is not 1".to_string(),
        });
    }
    if config.softcap.is_some() && !matches!(family, Family::Mha | Family::Llama) {
        return refused("a softcap".to_string());
    }
    if !family.has_sink(config.sink) {
        return refused(format!("a {:?} sink", config.sink));
    }
    let bias = config.bias;
    let biases = [bias.query, bias.key, bias.value, bias.output];
    if !form.bias_sets.is_empty() && !form.bias_sets.contains(&biases) && family != Family::Mha {
        let names = ["query", "key", "value", "output"].into_iter().zip(biases);
        let names: Vec<&str> = names.filter(|(_, there)| *there).map(|(name, _)| name).collect();
        return refused(match names.len() {
            0 => "a module without biases".to_string(),
            _ => format!("biases of {} and no other", names.join(", ")),
        });
    }
    Ok(())
}
