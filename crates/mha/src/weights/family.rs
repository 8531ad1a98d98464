//! Whose names and layout a layer has.

use std::fmt;
use std::str::FromStr;

/// The library, or the line of models, whose names and layout an attention layer has in a file.
///
/// # Example
///
/// ```
/// use mha::weights::Family;
///
/// assert_eq!("gpt2".parse(), Ok(Family::Gpt2));
/// assert_eq!(Family::FlashAttention.to_string(), "flash-attn");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Family {
    /// This crate: the paths of [`MultiHeadAttention`](crate::MultiHeadAttention)'s own parameters,
    /// and its configuration in the file's metadata.
    Mha,
    /// `burn::nn::attention`: `query`, `key`, `value`, `output`.
    BurnNn,
    /// PyTorch's `nn.MultiheadAttention`: `in_proj_weight`, or `q_proj_weight` and its like where
    /// widths differ.
    PyTorch,
    /// BERT and its kin in `transformers`: `self.query`, ..., `output.dense`.
    Bert,
    /// GPT-2 in `transformers`, self- and cross-attention: `c_attn`, `q_attn`, `c_proj`, each
    /// `[in, out]`.
    Gpt2,
    /// nanoGPT: the names of GPT-2, each `[out, in]`.
    NanoGpt,
    /// Llama, Mistral, Qwen 2 and 3, Gemma, gpt-oss in `transformers`: `q_proj`, ..., `o_proj`.
    Llama,
    /// Phi-3 in `transformers`: `qkv_proj`, `o_proj`.
    Phi3,
    /// Llama as Meta publishes it: `wq`, `wk`, `wv`, `wo`, rotated in interleaved pairs.
    MetaLlama,
    /// GPT-NeoX in `transformers`: `query_key_value`, the rows of each head together.
    GptNeox,
    /// BLOOM: as GPT-NeoX, with ALiBi.
    Bloom,
    /// T5: `q`, `k`, `v`, `o`.
    T5,
    /// Whisper, OPT, BART, CLIP and GPT-J in `transformers`: `q_proj`, ..., `out_proj`.
    Whisper,
    /// `flash_attn.modules.mha.MHA`: `Wqkv`, or `Wq` and `Wkv`, and `out_proj`.
    FlashAttention,
    /// Flax: `query.kernel` `[in, heads, head_dim]`, ..., `out.kernel`.
    Flax,
    /// Keras: as Flax, with `attention_output`.
    Keras,
    /// Equinox: `query_proj`, ..., `output_proj`.
    Equinox,
    /// MLX: `query_proj`, ..., `out_proj`.
    Mlx,
}

const NAMES: [(Family, &str); 18] = [
    (Family::Mha, "mha"),
    (Family::BurnNn, "burn-nn"),
    (Family::PyTorch, "pytorch"),
    (Family::Bert, "bert"),
    (Family::Gpt2, "gpt2"),
    (Family::NanoGpt, "nanogpt"),
    (Family::Llama, "llama"),
    (Family::Phi3, "phi3"),
    (Family::MetaLlama, "meta-llama"),
    (Family::GptNeox, "gpt-neox"),
    (Family::Bloom, "bloom"),
    (Family::T5, "t5"),
    (Family::Whisper, "whisper"),
    (Family::FlashAttention, "flash-attn"),
    (Family::Flax, "flax"),
    (Family::Keras, "keras"),
    (Family::Equinox, "equinox"),
    (Family::Mlx, "mlx"),
];

impl Family {
    /// All families.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(family, _)| family)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(family, _)| family == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Family {
    type Err = String;

    /// Reads the name that `Display` writes, or says which there are.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(family, _)| *family).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("expected one of {}, got {text:?}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for family in Family::all() {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        let error = "gpt3".parse::<Family>().unwrap_err();
        assert!(error.starts_with("expected one of mha, burn-nn, "), "{error}");
        assert!(error.ends_with("got \"gpt3\""), "{error}");
    }
}
