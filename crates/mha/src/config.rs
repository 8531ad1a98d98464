//! What a module is built from: plain data, checked when the module is built.

use burn::config::Config;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Deserializer, Serialize};

use crate::attention::{Masking, check_dropout, check_scale, check_softcap};
use crate::init::{self, Role};
use crate::{Error, MhaInitializer, MultiHeadAttention};

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
    /// Which projections add a bias. Default: all four.
    #[serde(default)]
    pub bias: ProjectionBias,
    /// How the parameters start. Default: as in `burn::nn`.
    #[serde(default, deserialize_with = "init::deserialize")]
    pub initializer: MhaInitializer,
    /// Adds a key of score 0 and value 0 to every softmax, so that a head may attend to nothing:
    /// weights are e^s / (1 + Σ e^s). Default: false. "Quiet softmax", Miller 2023, "Attention is
    /// off by one": <https://www.evanmiller.org/attention-is-off-by-one.html>.
    #[serde(default)]
    pub quiet_softmax: bool,
    /// What a hidden pair of query and key means. Default: [`Masking::Exclude`].
    #[serde(default, alias = "min_float", deserialize_with = "deserialize_masking")]
    pub masking: Masking,
}

impl Config for MultiHeadAttentionConfig {}

/// Which of the four projections add a bias.
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
}

impl Default for ProjectionBias {
    fn default() -> Self {
        Self { query: true, key: true, value: true, output: true }
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
            quiet_softmax: false,
            masking: Masking::default(),
        }
    }

    /// Sets the heads of keys and values, a divisor of `n_heads`.
    pub fn with_n_kv_heads(mut self, n_kv_heads: usize) -> Self {
        self.n_kv_heads = Some(n_kv_heads);
        self
    }

    /// Sets the features of a query and a key in one head.
    pub fn with_head_dim(mut self, head_dim: usize) -> Self {
        self.head_dim = Some(head_dim);
        self
    }

    /// Sets the features of a value in one head.
    pub fn with_value_dim(mut self, value_dim: usize) -> Self {
        self.value_dim = Some(value_dim);
        self
    }

    /// Sets the features of a token that keys are made of, PyTorch's `kdim`.
    pub fn with_d_key(mut self, d_key: usize) -> Self {
        self.d_key = Some(d_key);
        self
    }

    /// Sets the features of a token that values are made of, PyTorch's `vdim`.
    pub fn with_d_value(mut self, d_value: usize) -> Self {
        self.d_value = Some(d_value);
        self
    }

    /// Sets the features of a token that comes out.
    pub fn with_d_output(mut self, d_output: usize) -> Self {
        self.d_output = Some(d_output);
        self
    }

    /// Sets what the products of query and key are multiplied by.
    pub fn with_scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Keeps the scaled scores within ±`cap`; see [`softcap`](Self::softcap).
    pub fn with_softcap(mut self, cap: f64) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// Sets the probability in `[0, 1)` that training drops a weight.
    pub fn with_dropout(mut self, dropout: f64) -> Self {
        self.dropout = dropout;
        self
    }

    /// Gives a bias to all four projections, or to none.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = ProjectionBias { query: bias, key: bias, value: bias, output: bias };
        self
    }

    /// Gives the query projection a bias, or none.
    pub fn with_query_bias(mut self, bias: bool) -> Self {
        self.bias.query = bias;
        self
    }

    /// Gives the key projection a bias, or none.
    pub fn with_key_bias(mut self, bias: bool) -> Self {
        self.bias.key = bias;
        self
    }

    /// Gives the value projection a bias, or none.
    pub fn with_value_bias(mut self, bias: bool) -> Self {
        self.bias.value = bias;
        self
    }

    /// Gives the output projection a bias, or none.
    pub fn with_output_bias(mut self, bias: bool) -> Self {
        self.bias.output = bias;
        self
    }

    /// Sets how the parameters start: a preset, or one of Burn's initializers for all of them.
    pub fn with_initializer(mut self, initializer: impl Into<MhaInitializer>) -> Self {
        self.initializer = initializer.into();
        self
    }

    /// Turns quiet softmax on or off; see [`quiet_softmax`](Self::quiet_softmax).
    pub fn with_quiet_softmax(mut self, quiet_softmax: bool) -> Self {
        self.quiet_softmax = quiet_softmax;
        self
    }

    /// Sets what a hidden pair of query and key means.
    pub fn with_masking(mut self, masking: Masking) -> Self {
        self.masking = masking;
        self
    }

    /// Gives the outputs of `burn::nn` 0.21 bit for bit, without dropout: hidden scores are
    /// overwritten with -1e4, and a query that sees no key averages all values. With dropout the
    /// two differ: `burn::nn` 0.21 drops scores before the softmax, this module drops weights.
    pub fn burn_nn_compat(self) -> Self {
        self.with_masking(Masking::Overwrite { min_float: -1.0e4 })
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
    pub fn try_init<B: Backend>(&self, device: &B::Device) -> Result<MultiHeadAttention<B>, Error> {
        let widths = self.widths()?;
        self.check_numbers()?;
        let [query, key, value, output] = widths.projections();
        // PyTorch stacks the three matrices where they take the same tokens.
        let same_tokens = query[0] == key[0] && query[0] == value[0];
        let stacked = query[1] + key[1] + value[1];
        let linear = |shape: [usize; 2], bias| {
            let role = Role::Input { stacked: if same_tokens { stacked } else { shape[1] } };
            self.initializer.linear(role, shape, bias, device)
        };
        Ok(MultiHeadAttention {
            query: linear(query, self.bias.query),
            key: linear(key, self.bias.key),
            value: linear(value, self.bias.value),
            output: self.initializer.linear(Role::Output, output, self.bias.output, device),
            widths,
            scale: self.scale,
            softcap: self.softcap,
            dropout: self.dropout,
            quiet_softmax: self.quiet_softmax,
            masking: self.masking,
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

    fn check_numbers(&self) -> Result<(), Error> {
        check_dropout(self.dropout)?;
        check_scale(self.scale)?;
        check_softcap(self.softcap)?;
        self.initializer.check()?;
        self.masking.check()
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
