//! One attention problem: sizes, options, and everything that a call brings.

mod call;
mod gradients;
mod oracle;

use burn::tensor::{Bool, Tensor, backend::Backend};
use mha::oracle::Sizes;
use mha::{Gate, Position, ProjectionBias, QkNorm, Rule, Sink};

use crate::{bools, coins, numbers};

/// A dense mask with a share of hidden pairs, given in this shape (axes of 1 are broadcast).
#[derive(Debug, Clone, Copy)]
pub struct Dense<const D: usize> {
    /// Its shape.
    pub dims: [usize; D],
    /// How many of a hundred are hidden.
    pub percent: u64,
}

/// One attention problem: sizes and what the call brings.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the case is about.
    pub name: String,
    /// Which of the reproducible numbers it has.
    pub seed: u32,
    /// Which of its neighbours it is, 0 for itself: problems whose numbers differ a little.
    pub neighbour: u32,
    /// The sizes of the problem.
    pub sizes: Sizes,
    /// For a module: `d_model`, `d_key`, `d_value` and `d_output`; all heads together if not given.
    pub widths: Option<[usize; 4]>,
    /// For a module: which projections add a bias.
    pub projection_bias: ProjectionBias,
    /// In place of 1/√head_dim.
    pub scale: Option<f64>,
    /// The cap of the scaled scores.
    pub softcap: Option<f64>,
    /// Key padding: `[batch, seq_k]`.
    pub pad: Option<Dense<2>>,
    /// Pairs: `[batch, seq_q, seq_k]`.
    pub attn: Option<Dense<3>>,
    /// Pairs of each head: `[batch, n_heads, seq_q, seq_k]`.
    pub heads: Option<Dense<4>>,
    /// Mask rules.
    pub rules: Vec<Rule>,
    /// The shape of an additive bias.
    pub bias: Option<[usize; 4]>,
    /// How positions are told apart; rotary ones in modules only.
    pub position: Position,
    /// For a module: the normalization of queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Learned keys and values.
    pub bias_kv: usize,
    /// What joins the denominator of every softmax.
    pub sink: Sink,
    /// For a module: the gate.
    pub gate: Gate,
    /// A factor for each head.
    pub head_scale: bool,
    /// Seed and probability of dropout.
    pub dropout: Option<(u64, f64)>,
}

/// The tensors of a function's call that gradients are asked of, where the case has them.
#[derive(Debug)]
pub struct Leaves<B: Backend> {
    /// The additive bias, in its own shape.
    pub bias: Option<Tensor<B, 4>>,
    /// T5's table: `[n_buckets, n_heads]`.
    pub table: Option<Tensor<B, 2>>,
    /// Memory keys and values: `[bias_kv, n_kv_heads, width]`.
    pub memory: Option<[Tensor<B, 3>; 2]>,
    /// Learned sinks: `[n_heads]`.
    pub sinks: Option<Tensor<B, 1>>,
    /// Head scales: `[n_heads]`.
    pub head_scale: Option<Tensor<B, 1>>,
}

impl Case {
    /// A case without options. `all`: batch, heads, queries, keys, head and value width.
    pub fn new(name: impl Into<String>, all: [usize; 6]) -> Self {
        let [batch, n_heads, seq_q, seq_k, head_dim, value_dim] = all;
        let n_kv_heads = n_heads;
        Self {
            name: name.into(),
            seed: 0,
            neighbour: 0,
            sizes: Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim },
            widths: None,
            projection_bias: ProjectionBias::default(),
            scale: None,
            softcap: None,
            pad: None,
            attn: None,
            heads: None,
            rules: Vec::new(),
            bias: None,
            position: Position::None,
            qk_norm: None,
            bias_kv: 0,
            sink: Sink::None,
            gate: Gate::None,
            head_scale: false,
            dropout: None,
        }
    }

    /// Whether only a module has what the case asks for.
    pub fn is_for_modules(&self) -> bool {
        self.qk_norm.is_some()
            || self.gate != Gate::None
            || matches!(self.position, Position::Rotary(_))
    }

    /// Keys besides those of the call, where weights are returned: memory, and the zero key.
    pub fn extra_keys(&self) -> usize {
        self.bias_kv + usize::from(self.sink == Sink::ZeroKey)
    }

    /// Whether some query has a key, of the call or of the memory. Without one nothing but a bias
    /// reaches the output, and Burn refuses to sum what has no elements.
    pub fn has_pairs(&self) -> bool {
        self.sizes.batch * self.sizes.seq_q * (self.sizes.seq_k + self.extra_keys()) > 0
    }

    /// A gradient of the output of the case's module: `[batch, seq_q, d_output]`.
    pub fn d_output(&self) -> Vec<f32> {
        let [.., d_output] = self.module_widths();
        self.numbers(9, self.sizes.batch * self.sizes.seq_q * d_output)
    }

    /// The values of query, key and value, and a gradient of the context.
    pub fn inputs(&self) -> [Vec<f32>; 4] {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = self.sizes;
        [
            self.numbers(1, batch * seq_q * n_heads * head_dim),
            self.numbers(2, batch * seq_k * n_kv_heads * head_dim),
            self.numbers(3, batch * seq_k * n_kv_heads * value_dim),
            self.numbers(4, batch * seq_q * n_heads * value_dim),
        ]
    }

    /// [`numbers`] of the case's own; `which` is below 256.
    pub(crate) fn numbers(&self, which: u64, count: usize) -> Vec<f32> {
        let all = numbers(self.stream(which), count);
        if self.neighbour == 0 {
            return all;
        }
        // Near and far ones: by up to a tenth, or by up to a thousandth.
        let distance = 1.0 / f32::from(16u16 << (self.neighbour % 8));
        let nudges = numbers(self.stream(which) ^ (u64::from(self.neighbour) << 40), count);
        all.iter().zip(nudges).map(|(x, nudge)| x * (1.0 + nudge * distance)).collect()
    }

    fn stream(&self, which: u64) -> u64 {
        (u64::from(self.seed) << 8) | which
    }

    /// What a dense mask hides.
    pub(crate) fn hidden<const D: usize>(&self, mask: Dense<D>) -> Vec<bool> {
        coins(self.stream(6 + D as u64), mask.dims.iter().product(), mask.percent)
    }

    fn dense<B: Backend, const D: usize>(&self, mask: Dense<D>) -> Tensor<B, D, Bool> {
        bools(&self.hidden(mask), mask.dims)
    }

    pub(crate) fn bias_values(&self, dims: [usize; 4]) -> Vec<f32> {
        self.numbers(5, dims.iter().product())
    }

    /// Numbers of T5's table; none for other cases.
    pub fn table_values(&self) -> Vec<f32> {
        match &self.position {
            Position::T5(buckets) => self.numbers(11, buckets.n_buckets * self.sizes.n_heads),
            _ => Vec::new(),
        }
    }

    /// Numbers of the memory's keys (0) or values (1).
    pub fn memory_values(&self, which: usize) -> Vec<f32> {
        let Sizes { n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        self.numbers(12 + which as u64, self.bias_kv * n_kv_heads * [head_dim, value_dim][which])
    }

    /// Numbers of the sinks.
    pub fn sink_values(&self) -> Vec<f32> {
        self.numbers(14, self.sizes.n_heads)
    }

    fn head_scale_values(&self) -> Vec<f32> {
        self.numbers(15, self.sizes.n_heads)
    }
}

/// Numbers in another precision.
pub(crate) fn convert<T: From<f32>>(numbers: &[f32]) -> Vec<T> {
    numbers.iter().map(|&x| x.into()).collect()
}

/// Where a place lies in a row-major tensor whose axes of 1 are broadcast.
pub(crate) fn at<const D: usize>(dims: [usize; D], place: [usize; D]) -> usize {
    dims.iter().zip(place).fold(0, |index, (&dim, x)| index * dim + if dim == 1 { 0 } else { x })
}
