//! Choices of a configuration that exclude one another.

use serde::{Deserialize, Deserializer, Serialize};

use crate::widths::Widths;

/// What joins the denominator of every softmax besides the keys, so that a head may attend to
/// nothing: weights are e^s / (e^sink + Σ e^s).
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::{MultiHeadAttentionConfig, Sink};
///
/// let config = MultiHeadAttentionConfig::new(8, 2).with_sink(Sink::Learned);
/// let attention = config.init::<NdArray>(&Default::default());
/// assert_eq!(attention.sinks.unwrap().dims(), [2]); // one for each head
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Sink {
    /// Nothing.
    #[default]
    None,
    /// A sink of 0: "quiet softmax", Miller 2023, "Attention is off by one":
    /// <https://www.evanmiller.org/attention-is-off-by-one.html>.
    Quiet,
    /// As [`Quiet`](Self::Quiet), and returned weights have one more column, the last: the weight of a
    /// key and value of zeros. PyTorch's `add_zero_attn`.
    ZeroKey,
    /// A learned sink for each head, the parameter `sinks`, which starts at 0. gpt-oss has it
    /// (OpenAI 2025: <https://arxiv.org/abs/2508.10925>).
    Learned,
}

/// Reads ours, or the `quiet_softmax` of a `burn::nn` file.
pub(crate) fn deserialize_sink<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Sink, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected \"None\", \"Quiet\", \"ZeroKey\", \"Learned\", true or false"
    )]
    enum Either {
        Ours(Sink),
        Quiet(bool),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Ours(sink) => sink,
        Either::Quiet(true) => Sink::Quiet,
        Either::Quiet(false) => Sink::None,
    })
}

/// Whether each head's context is multiplied by sigmoid(x W_gate), with x the query's token
/// (Qiu et al. 2025, "Gated attention for large language models": <https://arxiv.org/abs/2505.06708>).
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::{Gate, MultiHeadAttentionConfig};
///
/// let config = MultiHeadAttentionConfig::new(8, 2).with_gate(Gate::Elementwise);
/// let attention = config.init::<NdArray>(&Default::default());
/// assert_eq!(attention.gate.unwrap().weight.dims(), [8, 8]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Gate {
    /// It is not.
    #[default]
    None,
    /// With a number for each head.
    PerHead,
    /// With a number for each feature of each head. Qwen3-Next has it.
    Elementwise,
}

impl Gate {
    /// Numbers that the gate gives for a token, if there is one.
    pub(crate) fn width(self, widths: &Widths) -> Option<usize> {
        match self {
            Self::None => None,
            Self::PerHead => Some(widths.n_heads),
            Self::Elementwise => Some(widths.n_heads * widths.value_dim),
        }
    }
}
