//! One attention problem: sizes, options, and everything that a call brings.

use burn::tensor::{Bool, Tensor, backend::Backend};
use mha::oracle::{Attention, Gradients, Sizes};
use mha::{
    AttentionOptions, Gate, Mask, MhaInput, MultiHeadAttentionConfig, Position, QkNorm, Rule, Sink,
};

use crate::layer::Named;
use crate::rules::{sees, slopes};
use crate::{bools, coins, numbers, tensor};

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

    /// The problem for the oracle, in f32 or f64.
    pub fn oracle<T: From<f32> + num_traits::Float>(&self) -> Attention<T> {
        let [query, key, value, _] = self.inputs().map(|x| convert(&x));
        self.oracle_of(query, key, value)
    }

    /// The problem for the oracle with this query, key and value. Memory and zero key are further
    /// keys of it.
    pub fn oracle_of<T: From<f32> + num_traits::Float>(
        &self,
        query: Vec<T>,
        key: Vec<T>,
        value: Vec<T>,
    ) -> Attention<T> {
        let Sizes { head_dim, value_dim, .. } = self.sizes;
        let (key, value) =
            (self.with_extra(key, 0, head_dim), self.with_extra(value, 1, value_dim));
        let sizes = Sizes { seq_k: self.sizes.seq_k + self.extra_keys(), ..self.sizes };
        let mut attention = Attention::new(sizes, query, key, value);
        let number = |x: f64| <T as num_traits::NumCast>::from(x).expect("a small number");
        if let Some(scale) = self.scale() {
            attention.scale = number(scale);
        }
        attention.softcap = self.softcap.map(number);
        let hides = self.hides();
        let seq_k = self.sizes.seq_k;
        attention.hide(|b, h, i, j| j < seq_k && hides([b, h, i, j]));
        self.add_biases(&mut attention);
        if let Some((seed, probability)) = self.dropout {
            attention.drop(seed, probability);
        }
        match self.sink {
            Sink::Quiet => attention.quiet(),
            Sink::Learned => attention.sink = Some(convert(&self.sink_values())),
            _ => {}
        }
        attention.head_scale = self.head_scale.then(|| convert(&self.head_scale_values()));
        attention
    }

    /// The scale, with what a position encoding adds to it.
    fn scale(&self) -> Option<f64> {
        let factor = match &self.position {
            Position::Rotary(rotary) => rotary.scale_factor(),
            _ => 1.0,
        };
        if factor == 1.0 {
            return self.scale;
        }
        Some(factor * self.scale.unwrap_or(1.0 / (self.sizes.head_dim as f64).sqrt()))
    }

    /// Whether some mask hides a pair of the call.
    pub fn hides(&self) -> impl Fn([usize; 4]) -> bool + use<'_> {
        let pad = self.pad.map(|mask| (mask.dims, self.hidden(mask)));
        let attn = self.attn.map(|mask| (mask.dims, self.hidden(mask)));
        let heads = self.heads.map(|mask| (mask.dims, self.hidden(mask)));
        move |[b, h, i, j]| {
            pad.as_ref().is_some_and(|(dims, hidden)| hidden[at(*dims, [b, j])])
                || attn.as_ref().is_some_and(|(dims, hidden)| hidden[at(*dims, [b, i, j])])
                || heads.as_ref().is_some_and(|(dims, hidden)| hidden[at(*dims, [b, h, i, j])])
                || self.rules.iter().any(|rule| !sees(rule, &self.sizes, [b, i, j]))
        }
    }

    fn add_biases<T: From<f32> + num_traits::Float>(&self, attention: &mut Attention<T>) {
        let Sizes { n_heads, seq_q, seq_k, .. } = self.sizes;
        let given = self.bias.map(|dims| (dims, self.bias_values(dims)));
        let slopes = slopes(n_heads);
        let table = self.table_values();
        let seq = attention.sizes.seq_k;
        for (index, slot) in attention.bias.iter_mut().enumerate() {
            let (row, j) = (index / seq, index % seq);
            let [b, h, i] = [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q];
            if j >= seq_k {
                continue;
            }
            let mut add = |x: T| *slot = *slot + x;
            if let Some((dims, values)) = &given {
                add(values[at(*dims, [b, h, i, j])].into());
            }
            let distance = j as i64 - (i as i64 + seq_k as i64 - seq_q as i64);
            match &self.position {
                Position::Alibi => {
                    let slope: T = num_traits::NumCast::from(slopes[h]).expect("a number");
                    add(-slope * num_traits::NumCast::from(distance.abs()).expect("a number"));
                }
                Position::T5(buckets) => {
                    add(table[buckets.bucket(distance) * n_heads + h].into());
                }
                _ => {}
            }
        }
    }

    /// Keys or values with memory (`which`: 0 for keys, 1 for values) and zero key behind each entry.
    fn with_extra<T: From<f32> + num_traits::Float>(
        &self,
        of_call: Vec<T>,
        which: usize,
        width: usize,
    ) -> Vec<T> {
        let Sizes { batch, n_kv_heads, seq_k, .. } = self.sizes;
        let features = n_kv_heads * width;
        let memory: Vec<T> = convert(&self.memory_values(which));
        let zeros = vec![T::zero(); (self.extra_keys() - self.bias_kv) * features];
        let entry = |b: usize| {
            let own = &of_call[b * seq_k * features..(b + 1) * seq_k * features];
            [own, &memory, &zeros].concat()
        };
        (0..batch).flat_map(entry).collect()
    }

    /// The options of the function's call, and what to ask gradients of.
    pub fn options<B: Backend>(&self) -> (AttentionOptions<B>, Leaves<B>) {
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        let mut options =
            AttentionOptions::default().return_weights().return_lse().mask(self.mask());
        let memory = |which: usize, width: usize| {
            tensor(&self.memory_values(which), [self.bias_kv, n_kv_heads, width]).require_grad()
        };
        let leaves = Leaves {
            bias: self.bias.map(|dims| tensor(&self.bias_values(dims), dims).require_grad()),
            table: match &self.position {
                Position::T5(buckets) => {
                    Some(tensor(&self.table_values(), [buckets.n_buckets, n_heads]).require_grad())
                }
                _ => None,
            },
            memory: (self.bias_kv > 0).then(|| [memory(0, head_dim), memory(1, value_dim)]),
            sinks: (self.sink == Sink::Learned)
                .then(|| tensor(&self.sink_values(), [n_heads]).require_grad()),
            head_scale: self.head_scale_tensor(),
        };
        if let Some(bias) = &leaves.bias {
            options = options.bias(bias.clone());
        }
        match (&self.position, &leaves.table) {
            (Position::Alibi, _) => options = options.alibi(mha::alibi_slopes(n_heads)),
            (Position::T5(buckets), Some(table)) => {
                options = options.t5(*buckets, table.clone());
            }
            _ => {}
        }
        if let Some([key, value]) = &leaves.memory {
            options = options.memory(key.clone(), value.clone());
        }
        options = match self.sink {
            Sink::Quiet => options.quiet_softmax(),
            Sink::ZeroKey => options.zero_attention(),
            _ => options,
        };
        if let Some(sinks) = &leaves.sinks {
            options = options.sink(sinks.clone());
        }
        if let Some(scale) = &leaves.head_scale {
            options = options.head_scale(scale.clone());
        }
        if let Some(scale) = self.scale {
            options = options.scale(scale);
        }
        if let Some(cap) = self.softcap {
            options = options.softcap(cap);
        }
        if let Some((seed, probability)) = self.dropout {
            options = options.dropout(probability).dropout_seed(seed);
        }
        (options, leaves)
    }

    /// All masks of the case as one.
    pub fn mask<B: Backend>(&self) -> Mask<B> {
        let mut mask: Mask<B> = self.rules.iter().cloned().collect();
        if let Some(dense) = self.pad {
            mask = mask.and(Mask::block_keys(self.dense(dense)));
        }
        if let Some(dense) = self.attn {
            mask = mask.and(Mask::block(self.dense::<B, _>(dense)));
        }
        if let Some(dense) = self.heads {
            mask = mask.and(Mask::block(self.dense::<B, _>(dense)));
        }
        mask
    }

    /// The configuration of the case's module.
    pub fn config(&self) -> MultiHeadAttentionConfig {
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        let [d_model, d_key, d_value, d_output] = self.module_widths();
        let mut config = MultiHeadAttentionConfig::new(d_model, n_heads)
            .with_n_kv_heads(n_kv_heads)
            .with_head_dim(head_dim)
            .with_value_dim(value_dim)
            .with_d_key(d_key)
            .with_d_value(d_value)
            .with_d_output(d_output)
            .with_position(self.position.clone())
            .with_bias_kv(self.bias_kv)
            .with_sink(self.sink)
            .with_gate(self.gate)
            .with_dropout(self.dropout.map_or(0.0, |(_, probability)| probability));
        (config.scale, config.softcap, config.qk_norm) = (self.scale, self.softcap, self.qk_norm);
        config
    }

    /// `d_model`, `d_key`, `d_value` and `d_output` of the case's module.
    pub fn module_widths(&self) -> [usize; 4] {
        self.widths.unwrap_or([self.sizes.n_heads * self.sizes.head_dim; 4])
    }

    /// Gives a module's input the masks, bias, head scale and seed of the case; masks by the setters
    /// of `burn::nn` where these say it.
    pub fn apply<B: Backend>(&self, mut input: MhaInput<B>) -> MhaInput<B> {
        if let Some(dense) = self.pad {
            input = input.mask_pad(self.dense(dense));
        }
        if let Some(dense) = self.attn {
            input = input.mask_attn(self.dense(dense));
        }
        if let Some(dense) = self.heads {
            input = input.mask(Mask::block(self.dense::<B, _>(dense)));
        }
        for rule in &self.rules {
            input = input.mask(rule.clone().into());
        }
        if let Some(dims) = self.bias {
            input = input.bias(tensor(&self.bias_values(dims), dims));
        }
        if let Some(scale) = self.head_scale_tensor() {
            input = input.head_scale(scale);
        }
        match self.dropout {
            Some((seed, _)) => input.dropout_seed(seed),
            None => input,
        }
    }

    /// The padding mask.
    pub fn pad_tensor<B: Backend>(&self) -> Tensor<B, 2, Bool> {
        self.dense(self.pad.expect("the case has padding"))
    }

    /// The head scales.
    pub fn head_scale_tensor<B: Backend>(&self) -> Option<Tensor<B, 1>> {
        let scale = || tensor(&self.head_scale_values(), [self.sizes.n_heads]).require_grad();
        self.head_scale.then(scale)
    }

    /// The gradient of the bias in its own shape, from that of each pair: sums over broadcast axes.
    pub fn bias_gradient<T: num_traits::Float>(&self, pairs: &[T]) -> Vec<T> {
        let dims = self.bias.expect("the case has a bias");
        let mut sums = vec![T::zero(); dims.iter().product()];
        for (place, gradient) in self.pairs(pairs) {
            let sum = &mut sums[at(dims, place)];
            *sum = *sum + gradient;
        }
        sums
    }

    /// The gradient of T5's table, from that of each pair.
    pub fn table_gradient<T: num_traits::Float>(&self, pairs: &[T]) -> Vec<T> {
        let Position::T5(buckets) = &self.position else { panic!("the case has no table") };
        let Sizes { n_heads, seq_q, seq_k, .. } = self.sizes;
        let mut sums = vec![T::zero(); buckets.n_buckets * n_heads];
        for ([_, h, i, j], gradient) in self.pairs(pairs) {
            let distance = (j + seq_q) as i64 - (i + seq_k) as i64;
            let sum = &mut sums[buckets.bucket(distance) * n_heads + h];
            *sum = *sum + gradient;
        }
        sums
    }

    /// What belongs to keys or values that every entry has, from what belongs to all of an entry's:
    /// sums over the batch, `[bias_kv, n_kv_heads, width]`.
    pub fn memory_gradient<T: num_traits::Float>(&self, all: &[T]) -> Vec<T> {
        let Sizes { batch, seq_k, .. } = self.sizes;
        let features = all.len() / batch / (seq_k + self.extra_keys());
        let memory = |b: usize| {
            let start = b * (seq_k + self.extra_keys()) + seq_k;
            &all[start * features..(start + self.bias_kv) * features]
        };
        let zeros = vec![T::zero(); self.bias_kv * features];
        (0..batch)
            .map(memory)
            .fold(zeros, |sums, entry| sums.iter().zip(entry).map(|(&sum, &x)| sum + x).collect())
    }

    /// What belongs to the call's own keys or values, from what belongs to all of an entry's.
    pub fn of_call<T: num_traits::Float>(&self, all: &[T]) -> Vec<T> {
        let Sizes { batch, seq_k, .. } = self.sizes;
        let features = all.len() / batch / (seq_k + self.extra_keys());
        let entries = all.chunks((seq_k + self.extra_keys()) * features);
        entries.flat_map(|entry| entry[..seq_k * features].to_vec()).collect()
    }

    /// The gradients of a function's call by name, each in the shape of what it belongs to.
    pub fn named<T: num_traits::Float>(&self, all: &Gradients<T>) -> Named<T> {
        let mut named = vec![
            ("query".to_string(), all.query.clone()),
            ("key".to_string(), self.of_call(&all.key)),
            ("value".to_string(), self.of_call(&all.value)),
        ];
        let mut add = |there: bool, name: &str, gradient: &dyn Fn() -> Vec<T>| {
            if there {
                named.push((name.to_string(), gradient()));
            }
        };
        let table = matches!(self.position, Position::T5(_));
        add(self.bias.is_some(), "bias", &|| self.bias_gradient(&all.bias));
        add(table, "table", &|| self.table_gradient(&all.bias));
        add(self.bias_kv > 0, "memory key", &|| self.memory_gradient(&all.key));
        add(self.bias_kv > 0, "memory value", &|| self.memory_gradient(&all.value));
        add(self.sink == Sink::Learned, "sinks", &|| all.sink.clone());
        add(self.head_scale, "head scale", &|| all.head_scale.clone());
        named
    }

    /// The pairs of the call, each with its number among those of all keys.
    fn pairs<'a, T: Copy>(
        &self,
        all: &'a [T],
    ) -> impl Iterator<Item = ([usize; 4], T)> + use<'a, T> {
        let Sizes { n_heads, seq_q, seq_k, .. } = self.sizes;
        let seq = seq_k + self.extra_keys();
        let place = move |(index, &x): (usize, &T)| {
            let (row, j) = (index / seq, index % seq);
            ([row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q, j], x)
        };
        all.iter().enumerate().map(place).filter(move |([.., j], _)| *j < seq_k)
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
fn at<const D: usize>(dims: [usize; D], place: [usize; D]) -> usize {
    dims.iter().zip(place).fold(0, |index, (&dim, x)| index * dim + if dim == 1 { 0 } else { x })
}
