//! The oracle of a whole module: projections, norms, rotations, attention, gate, output projection.

mod call;
mod module;
mod steps;

use mha::oracle::{
    Attention, Gradients, Norm, Output, Sizes, gate, gate_backward, linear, linear_backward,
    rotate, rotate_backward,
};
use mha::{Gate, Position, QkNorm, RotaryLayout, Sink};
use num_traits::Float;

use crate::Case;
use crate::cancel::terms_of;
use crate::case::convert;
pub use call::Call;
pub use module::module_gradients;
pub use steps::explained_steps;

/// The inputs and parameters of one call of a module, in plain numbers.
#[derive(Debug, Clone)]
pub struct Layer<T> {
    case: Case,
    /// `[d_input, d_output]` of query, key, value, output and gate.
    shapes: Vec<[usize; 2]>,
    /// Query `[batch, seq_q, d_model]`, key `[batch, seq_k, d_key]`, value `[batch, seq_k, d_value]`.
    pub inputs: [Vec<T>; 3],
    /// Weights of query, key, value, output and, if there is one, gate, each `[d_input, d_output]`.
    pub weights: Vec<Vec<T>>,
    /// Their biases, each `[d_output]`; empty for a projection without one.
    pub biases: Vec<Vec<T>>,
    /// Factors and shifts of the query's and the key's norm, each `[head_dim]`.
    norms: [[Vec<T>; 2]; 2],
}

/// What a call computes on its way, kept for the way back.
struct Pass<T> {
    /// Query and key as split.
    split: [Vec<T>; 2],
    attention: Attention<T>,
    output: Output<T>,
    gate_logits: Option<Vec<T>>,
}

/// Gradients by name, in the order of [`Layer::backward`].
pub type Named<T> = Vec<(String, Vec<T>)>;

const LINEARS: [&str; 5] = ["query", "key", "value", "output", "gate"];

impl<T: Float + From<f32>> Layer<T> {
    /// The layer of a case.
    pub fn new(case: &Case) -> Self {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = case.sizes;
        let [d_model, d_key, d_value, d_output] = case.module_widths();
        let mut shapes = vec![
            [d_model, n_heads * head_dim],
            [d_key, n_kv_heads * head_dim],
            [d_value, n_kv_heads * value_dim],
            [n_heads * value_dim, d_output],
        ];
        match case.gate {
            Gate::None => {}
            Gate::PerHead => shapes.push([d_model, n_heads]),
            Gate::Elementwise => shapes.push([d_model, n_heads * value_dim]),
            other => panic!("the tests do not know {other:?}"),
        }
        let draw = |which: usize, count| convert::<T>(&case.numbers(which as u64, count));
        // Weights of ±1.5/√d_input keep every product of the size of its input; shrunk in f32, so
        // that both precisions start from the same numbers.
        let weight = |index: usize| {
            let [d_input, d_output] = shapes[index];
            let shrink = 1.0 / (d_input as f32).sqrt();
            let all = case.numbers(31 + index as u64, d_input * d_output).into_iter();
            all.map(|x| (x * shrink).into()).collect()
        };
        let has = &case.projection_bias;
        let has_bias = [has.query, has.key, has.value, has.output, has.gate];
        let bias = |index: usize| {
            if has_bias[index] { draw(41 + index, shapes[index][1]) } else { Vec::new() }
        };
        let rows = [batch * seq_q, batch * seq_k, batch * seq_k];
        Self {
            case: case.clone(),
            inputs: [0, 1, 2].map(|index| draw(21 + index, rows[index] * shapes[index][0])),
            weights: (0..shapes.len()).map(weight).collect(),
            biases: (0..shapes.len()).map(bias).collect(),
            norms: [51, 53].map(|which| [draw(which, head_dim), draw(which + 1, head_dim)]),
            shapes,
        }
    }

    /// The output `[batch, seq_q, d_output]` as context, and all else of the attention.
    pub fn forward(&self) -> Output<T> {
        let Pass { output, gate_logits, .. } = self.pass();
        let context = self.gated(&output.context, &gate_logits);
        Output { context: self.project(3, &context), ..output }
    }

    fn pass(&self) -> Pass<T> {
        let split = [0, 1].map(|index| self.project(index, &self.inputs[index]));
        let value = self.project(2, &self.inputs[2]);
        let [query, key] =
            [0, 1].map(|which| self.rotated(which, &self.normed(which, &split[which])));
        let attention = self.case.oracle_of(query, key, value);
        let output = attention.forward();
        let gate_logits = (self.case.gate != Gate::None).then(|| {
            let logits = self.project(4, &self.inputs[0]);
            match self.case.gate {
                Gate::PerHead => {
                    let repeat = |&x: &T| vec![x; self.case.sizes.value_dim];
                    logits.iter().flat_map(repeat).collect()
                }
                _ => logits,
            }
        });
        Pass { split, attention, output, gate_logits }
    }

    /// All gradients, given that of the output.
    pub fn backward(&self, d_output: &[T]) -> Named<T> {
        self.gradients(d_output, |x| x, Attention::backward)
    }

    /// For each gradient the sum of the absolute values of the terms that it is summed from: what
    /// a rounding error is relative to. A key's bias, for one, has the gradient 0 in exact
    /// arithmetic, as a sum of terms that are not.
    pub fn backward_magnitudes(&self, d_output: &[T]) -> Named<T> {
        self.gradients(d_output, T::abs, Attention::backward)
    }

    /// The same where what a query or a key has as a difference of terms is their sum.
    pub fn backward_terms(&self, d_output: &[T]) -> Named<T> {
        self.gradients(d_output, T::abs, terms_of)
    }

    fn gradients(
        &self,
        d_output: &[T],
        term: fn(T) -> T,
        backward: fn(&Attention<T>, &[T]) -> Gradients<T>,
    ) -> Named<T> {
        let Pass { split, attention, output, gate_logits } = self.pass();
        let terms = |x: &[T]| x.iter().copied().map(term).collect::<Vec<T>>();
        let mut named: Named<T> = Vec::new();
        let mut back = |index: usize, input: &[T], d_output: &[T]| {
            let [input, weight, d_output] = [input, &self.weights[index], d_output].map(&terms);
            let [x, w, b] = linear_backward(&input, &weight, &d_output, self.shapes[index][1]);
            named.push((format!("{}.weight", LINEARS[index]), w));
            if !self.biases[index].is_empty() {
                named.push((format!("{}.bias", LINEARS[index]), b));
            }
            x
        };
        let gated = self.gated(&output.context, &gate_logits);
        back(3, &gated, d_output);
        let [d_gated, ..] = linear_backward(&gated, &self.weights[3], d_output, self.shapes[3][1]);
        let (d_context, d_logits) = match &gate_logits {
            Some(logits) => {
                let [context, logits] = gate_backward(&output.context, logits, &d_gated);
                (context, Some(logits))
            }
            None => (d_gated, None),
        };
        let mut d_query_input = d_logits.map(|d_logits| {
            let d_logits = match self.case.gate {
                Gate::PerHead => {
                    let sum = |x: &[T]| x.iter().copied().map(term).fold(T::zero(), |a, b| a + b);
                    d_logits.chunks(self.case.sizes.value_dim).map(sum).collect()
                }
                _ => d_logits,
            };
            back(4, &self.inputs[0], &d_logits)
        });
        let inner = backward(&attention, &d_context);
        let d_key = self.case.of_call(&inner.key);
        let d_value = self.case.of_call(&inner.value);
        let [(d_query, query_norm), (d_key, key_norm)] = [(0, &inner.query), (1, &d_key)]
            .map(|(which, d_placed)| self.placed_backward(which, &split[which], d_placed, term));
        let mut inputs = vec![
            back(0, &self.inputs[0], &d_query),
            back(1, &self.inputs[1], &d_key),
            back(2, &self.inputs[2], &d_value),
        ];
        if let Some(more) = d_query_input.take() {
            inputs[0].iter_mut().zip(more).for_each(|(x, more)| *x = *x + more);
        }
        let names = ["the input query", "the input key", "the input value"];
        named.extend(names.map(String::from).into_iter().zip(inputs));
        named.extend(self.name_norm("query_norm", query_norm));
        named.extend(self.name_norm("key_norm", key_norm));

        let case = &self.case;
        if case.bias.is_some() {
            named.push(("the input bias".into(), case.bias_gradient(&terms(&inner.bias))));
        }
        if case.bias_kv > 0 {
            named.push(("bias_k".into(), case.memory_gradient(&terms(&inner.key))));
            named.push(("bias_v".into(), case.memory_gradient(&terms(&inner.value))));
        }
        if matches!(case.position, Position::T5(_)) {
            named.push(("relative_bias".into(), case.table_gradient(&terms(&inner.bias))));
        }
        if case.sink == Sink::Learned {
            // A row's term is minus the sum of its pairs'.
            let Sizes { batch, n_heads, .. } = case.sizes;
            let pairs = terms(&inner.bias);
            let of_head = |h: usize| {
                let size = pairs.len() / batch / n_heads;
                let rows = (0..batch).flat_map(|b| &pairs[(b * n_heads + h) * size..][..size]);
                -rows.fold(T::zero(), |sum, &x| sum + x)
            };
            let exact = inner.sink.clone();
            let sums: Vec<T> = (0..n_heads).map(of_head).collect();
            named.push(("sinks".into(), if term(-T::one()) > T::zero() { sums } else { exact }));
        }
        if case.head_scale {
            named.push(("the input head_scale".into(), inner.head_scale.clone()));
        }
        named
    }

    /// The gradient of a query (0) or key (1) as split, and those of its norm's factors and shifts.
    fn placed_backward(
        &self,
        which: usize,
        split: &[T],
        d_placed: &[T],
        term: fn(T) -> T,
    ) -> (Vec<T>, Option<[Vec<T>; 2]>) {
        let d_normed = match self.turn(which) {
            Some(turn) => rotate_backward(
                d_placed,
                turn.dims,
                turn.width,
                turn.interleaved,
                turn.magnitude,
                |b, i, pair| turn.angle(b, i, pair),
            ),
            None => d_placed.to_vec(),
        };
        let Some((norm, epsilon)) = self.norm() else { return (d_normed, None) };
        let [gamma, _] = &self.norms[which];
        let [d_split, d_gamma, d_beta] = norm.backward(split, gamma, &d_normed, epsilon);
        if term(-T::one()) < T::zero() {
            return (d_split, Some([d_gamma, d_beta]));
        }
        // The terms of the sums over all rows, without their signs.
        let ones = vec![T::one(); gamma.len()];
        let unit = norm.forward(split, &ones, None, epsilon);
        let zeros = || vec![T::zero(); gamma.len()];
        let (mut d_gamma, mut d_beta) = (zeros(), zeros());
        for (index, (&d, &unit)) in d_normed.iter().zip(&unit).enumerate() {
            let feature = index % gamma.len();
            d_gamma[feature] = d_gamma[feature] + (d * unit).abs();
            d_beta[feature] = d_beta[feature] + d.abs();
        }
        (d_split, Some([d_gamma, d_beta]))
    }

    fn project(&self, index: usize, input: &[T]) -> Vec<T> {
        let bias = Some(self.biases[index].as_slice()).filter(|bias| !bias.is_empty());
        linear(input, &self.weights[index], bias, self.shapes[index][0])
    }

    fn gated(&self, context: &[T], logits: &Option<Vec<T>>) -> Vec<T> {
        logits.as_ref().map_or(context.to_vec(), |logits| gate(context, logits))
    }

    fn norm(&self) -> Option<(Norm, T)> {
        let number = |x: f64| <T as num_traits::NumCast>::from(x).expect("a small number");
        Some(match self.case.qk_norm? {
            QkNorm::Rms { epsilon } => (Norm::Rms, number(epsilon)),
            QkNorm::Layer { epsilon } => (Norm::Layer, number(epsilon)),
            QkNorm::L2 { epsilon } => (Norm::L2, number(epsilon)),
            other => panic!("the tests do not know {other:?}"),
        })
    }

    fn has_shift(&self) -> bool {
        matches!(self.case.qk_norm, Some(QkNorm::Layer { .. }))
    }

    fn name_norm(&self, name: &str, gradients: Option<[Vec<T>; 2]>) -> Named<T> {
        let Some([gamma, beta]) = gradients else { return Vec::new() };
        let shift = self.has_shift().then(|| (format!("{name}.beta"), beta));
        [(format!("{name}.gamma"), gamma)].into_iter().chain(shift).collect()
    }

    fn normed(&self, which: usize, split: &[T]) -> Vec<T> {
        let Some((norm, epsilon)) = self.norm() else { return split.to_vec() };
        let [gamma, beta] = &self.norms[which];
        norm.forward(split, gamma, self.has_shift().then_some(beta), epsilon)
    }

    fn rotated(&self, which: usize, normed: &[T]) -> Vec<T> {
        match self.turn(which) {
            Some(turn) => rotate(
                normed,
                turn.dims,
                turn.width,
                turn.interleaved,
                turn.magnitude,
                |b, i, pair| turn.angle(b, i, pair),
            ),
            None => normed.to_vec(),
        }
    }

    /// The rotation of a query (0) or key (1).
    fn turn(&self, which: usize) -> Option<Turn<T>> {
        let Position::Rotary(rotary) = &self.case.position else { return None };
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, .. } = self.case.sizes;
        let number = |x: f64| <T as num_traits::NumCast>::from(x).expect("a number");
        // The last position and one; the last query stands at the last key.
        let length = seq_k;
        Some(Turn {
            dims: [[batch, seq_q, n_heads, head_dim], [batch, seq_k, n_kv_heads, head_dim]][which],
            width: rotary.width.unwrap_or(head_dim),
            interleaved: rotary.layout == RotaryLayout::Interleaved,
            magnitude: number(rotary.magnitude()),
            frequencies: rotary.frequencies(head_dim, length).into_iter().map(number).collect(),
            first: if which == 0 { seq_k as i64 - seq_q as i64 } else { 0 },
        })
    }
}

/// The rotation of all queries, or of all keys.
struct Turn<T> {
    dims: [usize; 4],
    width: usize,
    interleaved: bool,
    magnitude: T,
    frequencies: Vec<T>,
    /// The position of the first token.
    first: i64,
}

impl<T: Float> Turn<T> {
    fn angle(&self, _batch: usize, token: usize, pair: usize) -> T {
        let position = <T as num_traits::NumCast>::from(self.first + token as i64);
        position.expect("a number") * self.frequencies[pair]
    }
}
