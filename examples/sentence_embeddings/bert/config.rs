//! Sizes and constants of a model, from the `config.json` beside its weights.

use std::{fs, path::Path};

use serde::Deserialize;

/// What the encoder needs of a BERT's `config.json`, whose names are transformers'.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    model_type: String,
    /// Features of a token.
    #[serde(rename = "hidden_size")]
    pub(crate) d_model: usize,
    #[serde(rename = "num_hidden_layers")]
    pub(crate) n_layers: usize,
    /// Features between the two layers of a feed-forward network.
    #[serde(rename = "intermediate_size")]
    pub(crate) d_hidden: usize,
    hidden_act: String,
    /// Word pieces of the vocabulary.
    #[serde(rename = "vocab_size")]
    pub(crate) n_tokens: usize,
    /// Positions that the model knows: the longest sentence.
    #[serde(rename = "max_position_embeddings")]
    pub(crate) n_positions: usize,
    #[serde(rename = "type_vocab_size")]
    pub(crate) n_types: usize,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    /// What layer norms add to a variance.
    #[serde(rename = "layer_norm_eps")]
    pub(crate) epsilon: f64,
    /// The share of features that training drops from what is added to a token.
    #[serde(rename = "hidden_dropout_prob")]
    pub(crate) dropout: f64,
    /// The id that pads a sentence.
    #[serde(rename = "pad_token_id", default)]
    pub(crate) padding: u32,
}

fn absolute() -> String {
    "absolute".to_string()
}

impl Config {
    /// Reads `DIR/config.json`, or says why it describes no model that this encoder is.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join("config.json");
        let shown = file.display();
        let text =
            fs::read_to_string(&file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let config: Self = serde_json::from_str(&text)
            .map_err(|error| format!("{shown} describes no BERT: {error}"))?;
        config.check().map_err(|error| format!("{shown}: {error}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        for (field, expected, actual) in [
            ("model_type", "bert", &self.model_type),
            ("hidden_act", "gelu", &self.hidden_act),
            ("position_embedding_type", "absolute", &self.position_embedding_type),
        ] {
            if actual != expected {
                return Err(format!("{field} must be {expected:?}, got {actual:?}"));
            }
        }
        for (field, size) in [
            ("hidden_size", self.d_model),
            ("max_position_embeddings", self.n_positions),
            ("type_vocab_size", self.n_types),
        ] {
            if size == 0 {
                return Err(format!("{field} must be at least 1, got 0"));
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(format!("hidden_dropout_prob must be in 0..1, got {}", self.dropout));
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return Err(format!("layer_norm_eps must be above 0, got {}", self.epsilon));
        }
        if self.padding as usize >= self.n_tokens {
            let (padding, n_tokens) = (self.padding, self.n_tokens);
            return Err(format!("pad_token_id {padding} is not below vocab_size {n_tokens}"));
        }
        Ok(())
    }
}
