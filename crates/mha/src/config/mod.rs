//! What a module is built from: plain data, checked when the module is built.

mod builder;

use burn::config::Config;
use burn::module::Initializer;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Deserializer, Serialize};

use crate::attention::{Masking, check};
use crate::choices::deserialize_sink;
use crate::init::{self, Role};
use crate::settings::Settings;
use crate::{Error, Gate, MhaInitializer, MultiHeadAttention, Path, Position, QkNorm, Sink};

/// Configuration of a [`MultiHeadAttention`] module.
///
/// It saves to and loads from JSON as every Burn [`Config`]. A file may leave out any field but
/// `d_model` and `n_heads`; a field that does not exist, a misspelt one say, is an error. A file
/// that `burn::nn` 0.21 saved loads too: its `min_float` becomes [`Masking::Overwrite`], since
/// that is what the model was trained with.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::{MultiHeadAttention, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention: MultiHeadAttention<NdArray> =
///     MultiHeadAttentionConfig::new(64, 4).with_dropout(0.0).init(&device);
/// assert_eq!(attention.head_dim(), 16);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MultiHeadAttentionConfig {
    /// Features of a token, in and out. Like every width here, also that of all heads together, at
    /// least 1 and below 65,536.
    pub d_model: usize,
    /// Heads that attend side by side.
    pub n_heads: usize,
    /// Heads of keys and values, a divisor of `n_heads`. Default: `n_heads`. Fewer are grouped-query
    /// attention, one is multi-query: query head `h` reads key head `h / (n_heads / n_kv_heads)`.
    /// Ainslie et al. 2023: <https://arxiv.org/abs/2305.13245>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_kv_heads: Option<usize>,
    /// Features of a query and a key in one head. Default: `d_model / n_heads`, without remainder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Features of a value in one head. Default: `head_dim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_dim: Option<usize>,
    /// Features of a token that keys are made of, PyTorch's `kdim`. Default: `d_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Features of a token that values are made of, PyTorch's `vdim`. Default: `d_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
    /// Features of a token that comes out. Default: `d_model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_output: Option<usize>,
    /// What the products of query and key are multiplied by. Default: 1/√head_dim. T5 has 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Keeps the scaled scores s within ±c as c · tanh(s / c), before bias and masks. Default: off.
    /// Gemma 2 has 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// Probability in `[0, 1)` that training drops a weight. Default: 0.1, as in `burn::nn`.
    #[serde(default = "default_dropout")]
    pub dropout: f64,
    /// Which projections add a bias. Default: all.
    #[serde(default)]
    pub bias: ProjectionBias,
    /// How the parameters start. Default: as in `burn::nn`.
    #[serde(default, deserialize_with = "init::deserialize")]
    pub initializer: MhaInitializer,
    /// How positions are told apart. Default: not at all.
    #[serde(default)]
    pub position: Position,
    /// How queries and keys are normalized. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qk_norm: Option<QkNorm>,
    /// Learned keys and values, the parameters `bias_k` and `bias_v`, that every query sees besides
    /// those of the call, without mask, bias or position. Default: 0. PyTorch's `add_bias_kv` is 1.
    #[serde(default)]
    pub bias_kv: usize,
    /// What joins the denominator of every softmax. Default: nothing.
    #[serde(default, alias = "quiet_softmax", deserialize_with = "deserialize_sink")]
    pub sink: Sink,
    /// Whether a gate follows each head. Default: none.
    #[serde(default)]
    pub gate: Gate,
    /// What a hidden pair of query and key means. Default: [`Masking::Exclude`].
    #[serde(default, alias = "min_float", deserialize_with = "deserialize_masking")]
    pub masking: Masking,
    /// Which path calls take, unless they name one themselves. Default: [`Path::Auto`].
    #[serde(default)]
    pub path: Path,
}

impl Config for MultiHeadAttentionConfig {}

/// Which of the projections add a bias.
///
/// # Example
///
/// ```
/// use mha::MultiHeadAttentionConfig;
///
/// // Whisper has a bias everywhere but on the keys.
/// let config = MultiHeadAttentionConfig::new(384, 6).with_key_bias(false);
/// assert!(config.bias.query && !config.bias.key);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ProjectionBias {
    /// A bias on the query projection.
    pub query: bool,
    /// A bias on the key projection.
    pub key: bool,
    /// A bias on the value projection.
    pub value: bool,
    /// A bias on the output projection.
    pub output: bool,
    /// A bias on the gate, where there is one.
    pub gate: bool,
}

impl Default for ProjectionBias {
    fn default() -> Self {
        Self { query: true, key: true, value: true, output: true, gate: true }
    }
}

impl MultiHeadAttentionConfig {
    /// A configuration with the defaults of `burn::nn`: dropout 0.1, biases on all projections.
    pub fn new(d_model: usize, n_heads: usize) -> Self {
        Self {
            d_model,
            n_heads,
            n_kv_heads: None,
            head_dim: None,
            value_dim: None,
            d_key: None,
            d_value: None,
            d_output: None,
            scale: None,
            softcap: None,
            dropout: default_dropout(),
            bias: ProjectionBias::default(),
            initializer: MhaInitializer::default(),
            position: Position::default(),
            qk_norm: None,
            bias_kv: 0,
            sink: Sink::default(),
            gate: Gate::default(),
            masking: Masking::default(),
            path: Path::default(),
        }
    }

    /// Builds the module, or says which field is wrong and the value it has.
    ///
    /// # Errors
    ///
    /// - a width or a number of heads is 0, or a width is 65,536 or more
    /// - `n_kv_heads` does not divide `n_heads`, or `n_heads` does not divide `d_model` and there is
    ///   no `head_dim`
    /// - `dropout` is outside `[0, 1)`, `softcap` outside `[1e-30, 1e30]`, or `scale` not finite
    /// - `initializer` has a number that nothing can be drawn from, or `min_float` is not finite
    /// - `position` or `qk_norm` has a number that makes no sense, or a rotary width that is odd or
    ///   wider than a head
    /// - `masking` overwrites, as `burn::nn` does, and there is what `burn::nn` has not: a sink other
    ///   than the quiet one
    pub fn try_init<B: Backend>(&self, device: &B::Device) -> Result<MultiHeadAttention<B>, Error> {
        let widths = self.widths()?;
        self.check(widths.head_dim)?;
        let [query, key, value, output] = widths.projections();
        // PyTorch stacks the three matrices where they take the same tokens.
        let same_tokens = query[0] == key[0] && query[0] == value[0];
        let stacked = query[1] + key[1] + value[1];
        let linear = |shape: [usize; 2], bias| {
            let role = Role::Input { stacked: if same_tokens { stacked } else { shape[1] } };
            self.initializer.linear(role, shape, bias, device)
        };
        let n_heads = widths.n_heads;
        let gate = self.gate.width(&widths).map(|width| {
            let (role, shape) = (Role::Input { stacked: width }, [widths.d_model, width]);
            self.initializer.linear(role, shape, self.bias.gate, device)
        });
        let norm = || self.qk_norm.map(|norm| norm.init(widths.head_dim, device));
        let slots = |width| {
            (self.bias_kv > 0).then(|| self.initializer.slots([self.bias_kv, width], device))
        };
        let relative_bias = match &self.position {
            Position::T5(buckets) => {
                Some(self.initializer.slots([buckets.n_buckets, n_heads], device))
            }
            _ => None,
        };
        let sinks =
            (self.sink == Sink::Learned).then(|| Initializer::Zeros.init([n_heads], device));
        Ok(MultiHeadAttention {
            query: linear(query, self.bias.query),
            key: linear(key, self.bias.key),
            value: linear(value, self.bias.value),
            output: self.initializer.linear(Role::Output, output, self.bias.output, device),
            gate,
            query_norm: norm(),
            key_norm: norm(),
            bias_k: slots(key[1]),
            bias_v: slots(value[1]),
            relative_bias,
            sinks,
            settings: Settings {
                widths,
                scale: self.scale,
                softcap: self.softcap,
                dropout: self.dropout,
                sink: self.sink,
                position: self.position.clone(),
                gate: self.gate,
                qk_norm: self.qk_norm.is_some(),
                bias_kv: self.bias_kv,
                masking: self.masking,
                path: self.path,
            },
        })
    }

    /// Builds the module.
    ///
    /// # Panics
    ///
    /// When a field is wrong, with the text of [`try_init`](Self::try_init)'s error.
    #[track_caller]
    pub fn init<B: Backend>(&self, device: &B::Device) -> MultiHeadAttention<B> {
        self.try_init(device).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether every field but the widths makes sense.
    pub(crate) fn check(&self, head_dim: usize) -> Result<(), Error> {
        check::dropout(self.dropout)?;
        check::scale(self.scale)?;
        check::softcap(self.softcap)?;
        self.initializer.check()?;
        self.position.check(head_dim)?;
        if let Some(norm) = &self.qk_norm {
            norm.check()?;
        }
        if self.bias_kv >= 65_536 {
            return Err(Error::value("bias_kv", "be below 65536", self.bias_kv));
        }
        self.masking.check()?;
        check::masking(self.masking, self.sink)
    }
}

fn default_dropout() -> f64 {
    0.1
}

/// Reads ours, or the bare number that a `burn::nn` file has under `min_float`.
fn deserialize_masking<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Masking, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected \"Exclude\", {\"Overwrite\": {\"min_float\": x}} or a number"
    )]
    enum Either {
        Ours(Masking),
        MinFloat(f64),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Ours(masking) => masking,
        Either::MinFloat(min_float) => Masking::Overwrite { min_float },
    })
}
