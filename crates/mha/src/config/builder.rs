//! The setters of a configuration, by name.

use super::{MultiHeadAttentionConfig, ProjectionBias};
use crate::{Gate, Masking, MhaInitializer, Path, Position, QkNorm, Sink};

impl MultiHeadAttentionConfig {
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

    /// Gives a bias to all projections, or to none.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias =
            ProjectionBias { query: bias, key: bias, value: bias, output: bias, gate: bias };
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

    /// Gives the gate a bias, or none.
    pub fn with_gate_bias(mut self, bias: bool) -> Self {
        self.bias.gate = bias;
        self
    }

    /// Sets how the parameters start: a preset, or one of Burn's initializers for all of them.
    pub fn with_initializer(mut self, initializer: impl Into<MhaInitializer>) -> Self {
        self.initializer = initializer.into();
        self
    }

    /// Sets how positions are told apart.
    pub fn with_position(mut self, position: impl Into<Position>) -> Self {
        self.position = position.into();
        self
    }

    /// Normalizes queries and keys.
    pub fn with_qk_norm(mut self, norm: QkNorm) -> Self {
        self.qk_norm = Some(norm);
        self
    }

    /// Sets the number of learned keys and values; see [`bias_kv`](Self::bias_kv).
    pub fn with_bias_kv(mut self, bias_kv: usize) -> Self {
        self.bias_kv = bias_kv;
        self
    }

    /// Sets what joins the denominator of every softmax.
    pub fn with_sink(mut self, sink: Sink) -> Self {
        self.sink = sink;
        self
    }

    /// Sets the sink to [`Sink::Quiet`] or [`Sink::None`], under the name that `burn::nn` has.
    pub fn with_quiet_softmax(self, quiet_softmax: bool) -> Self {
        self.with_sink(if quiet_softmax { Sink::Quiet } else { Sink::None })
    }

    /// Sets the gate that follows each head.
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Sets what a hidden pair of query and key means.
    pub fn with_masking(mut self, masking: Masking) -> Self {
        self.masking = masking;
        self
    }

    /// Sets which path calls take; [`MhaInput::path`](crate::MhaInput::path) sets that of one.
    pub fn with_path(mut self, path: Path) -> Self {
        self.path = path;
        self
    }

    /// Gives the outputs of `burn::nn` 0.21 bit for bit, without dropout: hidden scores are
    /// overwritten with -1e4, and a query that sees no key averages all values. With dropout the
    /// two differ: `burn::nn` 0.21 drops scores before the softmax, this module drops weights.
    pub fn burn_nn_compat(self) -> Self {
        self.with_masking(Masking::Overwrite { min_float: -1.0e4 })
    }
}
