//! One call as data: every step with its formula, shape and range, and why a pair weighs what it does.

mod recorder;
mod step;
mod why;

use std::fmt;

use burn::nn::Linear;
use burn::tensor::{Tensor, backend::Backend};

use crate::attention::{Attention, PathTaken, Problem, Sizes, Stage, plain};
use crate::{Error, MhaInput, MhaOutput, MultiHeadAttention, Position};
use recorder::Recorder;
pub use step::Step;
pub use why::Why;

/// What [`MultiHeadAttention::explain`] returns. It prints as a table.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MhaInput, MultiHeadAttentionConfig};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let input = MhaInput::self_attn(Tensor::ones([1, 4, 8], &device)).causal();
/// let explanation = attention.explain(&input).unwrap();
/// println!("{explanation}");
/// assert_eq!(explanation.masked_share, 6.0 / 16.0);
/// assert_eq!(explanation.steps.last().unwrap().shape, [1, 4, 8]);
///
/// // Query 1 of head 0 does not see key 3.
/// let why = explanation.why(0, 0, 1, 3).unwrap();
/// assert_eq!(why.weight, 0.0);
/// assert!(why.hidden_by.unwrap().starts_with("causal"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation<B: Backend> {
    /// The steps, in the order in which they were taken.
    pub steps: Vec<Step>,
    /// The share of pairs of query and key that masks hide, in `[0, 1]`.
    pub masked_share: f64,
    /// The path that [`forward`](MultiHeadAttention::forward) takes. The steps are those of the plain
    /// path whatever it is: kernels never have all weights.
    pub path: PathTaken,
    /// What the call gives, the same as [`forward`](MultiHeadAttention::forward) gives, up to rounding.
    pub output: MhaOutput<B>,
    problem: Problem<B>,
    recorder: Recorder<B>,
    lse: Tensor<B, 3>,
}

impl<B: Backend> MultiHeadAttention<B> {
    /// The same call as [`try_forward`](Self::try_forward), with every step returned as data. It keeps
    /// and reads all of them, so it is for looking, not for speed.
    ///
    /// # Errors
    ///
    /// As [`try_forward`](Self::try_forward).
    pub fn explain(&self, input: &MhaInput<B>) -> Result<Explanation<B>, Error> {
        let tokens = input.query.clone();
        let asks_lse = input.options.lse;
        let (mut call, [query, key, value]) = self.check(input.clone(), None)?;
        let path = self.attention_path(input)?;
        let asked = std::mem::take(&mut call.options.path);
        call.options.lse = true;
        let sizes = call.sizes;
        let mut steps = Vec::new();

        let [query, key, value] = self.project_on(asked, query, key, value);
        steps.extend(self.projected(&sizes, [&query, &key, &value]));
        let [query, key, value] = self.split_heads(query, key, value);
        for (symbol, heads) in [("Q", &query), ("K", &key), ("V", &value)] {
            steps.push(Step::of("split", symbol, "a slice for each head", heads));
        }
        let split = [query.clone(), key.clone()];
        let [query, key, value] = self.place(query, key, value, &call, None);
        steps.extend(self.placed(split, [&query, &key]));

        let problem = Problem::new(query, key, value, &call.options)?;
        let mut recorder = Recorder::default();
        let Attention { context, weights, lse } = plain::attention(problem.clone(), &mut recorder);
        let lse = lse.expect("it was asked for");
        steps.extend(recorder.steps(&problem));
        let pairs = (sizes.batch * sizes.n_heads * sizes.seq_q * problem.n_keys()) as u64;
        let step = Step::of("attend", "C", "P V, head by head", &context);
        steps.push(step.with_flops(2 * pairs * sizes.value_dim as u64));

        let context = self.gated(asked, context, tokens);
        if self.gate.is_some() {
            steps.push(Step::of("gate", "C", "C · sigmoid(X W_gate)", &context));
        }
        let merged = self.merge_heads(context);
        steps.push(Step::of("merge", "C", "heads side by side", &merged));
        let context = call.without_padding(self.layer(asked, &self.output, merged));
        let [d_input, d_output] = self.settings.widths.projections()[3];
        let formula = product("C W_O", &self.output);
        let step = Step::of("project out", "Y", formula, &context);
        let rows = (sizes.batch * sizes.seq_q) as u64;
        steps.push(step.with_flops(2 * rows * (d_input * d_output) as u64));

        let weights = weights.map(|weights| call.weights.over_heads(weights));
        let masked_share = masked_share(&problem);
        let output = MhaOutput { context, weights, lse: asks_lse.then(|| lse.clone()) };
        Ok(Explanation { steps, masked_share, path, output, problem, recorder, lse })
    }

    fn projected(&self, sizes: &Sizes, [query, key, value]: [&Tensor<B, 3>; 3]) -> [Step; 3] {
        let flops = |seq: usize, [d_input, d_output]: [usize; 2]| {
            2 * (sizes.batch * seq) as u64 * (d_input * d_output) as u64
        };
        let [q, k, v, _] = self.settings.widths.projections();
        [
            Step::of("project", "Q", product("X W_Q", &self.query), query)
                .with_flops(flops(sizes.seq_q, q)),
            Step::of("project", "K", product("X W_K", &self.key), key)
                .with_flops(flops(sizes.seq_k, k)),
            Step::of("project", "V", product("X W_V", &self.value), value)
                .with_flops(flops(sizes.seq_k, v)),
        ]
    }

    /// What changed queries and keys between split and attend.
    fn placed(&self, split: [Tensor<B, 4>; 2], placed: [&Tensor<B, 4>; 2]) -> Vec<Step> {
        let norms = [&self.query_norm, &self.key_norm];
        let turns = matches!(self.settings.position, Position::Rotary(_));
        let mut steps = Vec::new();
        for ((symbol, split), norm) in ["Q", "K"].into_iter().zip(split).zip(norms) {
            if let Some(norm) = norm {
                let normed = norm.forward(split);
                steps.push(Step::of("normalize", symbol, "each head to one size", &normed));
            }
        }
        for (symbol, placed) in ["Q", "K"].into_iter().zip(placed).filter(|_| turns) {
            steps.push(Step::of("rotate", symbol, "by position · frequency", placed));
        }
        steps
    }
}

/// The formula of a projection, with its bias if it has one.
fn product<B: Backend>(formula: &str, layer: &Linear<B>) -> String {
    if layer.bias.is_some() { format!("{formula} + b") } else { formula.to_string() }
}

fn masked_share<B: Backend>(problem: &Problem<B>) -> f64 {
    match problem.hidden_pairs().filter(|_| !problem.is_empty()) {
        Some(hidden) => {
            let hidden: Vec<bool> = hidden.into_data().iter::<bool>().collect();
            hidden.iter().filter(|&&hidden| hidden).count() as f64 / hidden.len() as f64
        }
        None => 0.0,
    }
}

impl<B: Backend> Explanation<B> {
    /// The first step of this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Floating-point operations of all products.
    pub fn flops(&self) -> u64 {
        self.steps.iter().map(|step| step.flops).sum()
    }

    /// Bytes of all results together.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).sum()
    }

    /// How the weight of one pair came about: query `i` and key `j` of batch entry `b` and head `h`.
    ///
    /// # Errors
    ///
    /// When there is no such pair.
    pub fn why(&self, b: usize, h: usize, i: usize, j: usize) -> Result<Why, Error> {
        use crate::attention::check::indices;
        let Sizes { batch, n_heads, seq_q, .. } = self.problem.sizes;
        indices("b", &[b], batch, "batch")?;
        indices("h", &[h], n_heads, "n_heads")?;
        indices("i", &[i], seq_q, "seq_q")?;
        indices("j", &[j], self.problem.n_keys(), "seq_k, bias_kv and zero key")?;
        let at = [b, h, i, j];
        let read = |stage: Stage| self.recorder.read(stage, at);
        let found = "every call has it";
        let hidden_by = (j < self.problem.sizes.seq_k)
            .then(|| self.problem.options.mask.hiding_rule(&self.problem.frame, b, h, i, j))
            .flatten();
        let lse = self.lse.clone().slice([b..b + 1, h..h + 1, i..i + 1]);
        Ok(Why {
            pair: at,
            raw: read(Stage::Raw).expect(found),
            scaled: read(Stage::Scaled).expect(found),
            capped: read(Stage::Capped),
            biases: self.recorder.biases(at),
            score: read(Stage::Biased).expect(found),
            hidden_by,
            lse: lse.into_data().iter::<f64>().next().expect("one number"),
            weight: read(Stage::Weights).expect(found),
        })
    }
}

impl<B: Backend> fmt::Display for Explanation<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        step::table(f, &self.steps)?;
        writeln!(f, "masked: {:.1} % of all pairs", 100.0 * self.masked_share)?;
        writeln!(f, "path: {}", self.path)?;
        if self.path == PathTaken::Fused {
            writeln!(f, "shown: the same in tensor operations, since kernels keep no weights")?;
        }
        let (flops, bytes) = (self.flops() as f64, self.bytes() as f64);
        write!(f, "in all: {:.3} MFLOP, {:.3} MB of results", flops / 1e6, bytes / 1e6)
    }
}
