//! Every step of a module's call, from plain numbers and from an explanation.

use burn::tensor::backend::Backend;
use mha::oracle::{Attention, Sizes};
use mha::{Explanation, Gate, Position, Step};
use num_traits::Float;

use super::{Layer, Named, Pass};
use crate::Case;
use crate::case::at;

impl<T: Float + From<f32>> Layer<T> {
    /// The results of all steps by the names and in the order that
    /// [`explain`](mha::MultiHeadAttention::explain) has, biases over all pairs. NaN stands where
    /// nothing is asked: at hidden pairs, at keys and values that no query sees, and at the zero key,
    /// which has a column of its own only where weights are asked for.
    pub fn steps(&self) -> Named<T> {
        let Pass { split, attention, output, gate_logits } = self.pass();
        let case = &self.case;
        let Sizes { head_dim, value_dim, .. } = case.sizes;
        let seen = seen_keys(case, &attention);
        let keys = |key: &[T]| only(key, head_dim, &seen);
        let value = only(&case.of_call(&attention.value), value_dim, &seen);

        let mut steps: Vec<(&str, Vec<T>)> = Vec::new();
        for [query, key, of_value] in
            [["project Q", "project K", "project V"], ["split Q", "split K", "split V"]]
        {
            steps.push((query, split[0].clone()));
            steps.push((key, keys(&split[1])));
            steps.push((of_value, value.clone()));
        }
        if case.qk_norm.is_some() {
            steps.push(("normalize Q", self.normed(0, &split[0])));
            steps.push(("normalize K", keys(&self.normed(1, &split[1]))));
        }
        if matches!(case.position, Position::Rotary(_)) {
            steps.push(("rotate Q", attention.query.clone()));
            steps.push(("rotate K", keys(&case.of_call(&attention.key))));
        }
        steps.extend(self.scores(&attention));
        steps.push(("weights P", self.at_pairs(&output.weights, |_| true)));
        if case.dropout.is_some() {
            steps.push(("dropout P", self.at_pairs(&output.dropped_weights, |_| true)));
        }
        let gated = self.gated(&output.context, &gate_logits);
        steps.push(("attend C", output.context));
        if case.gate != Gate::None {
            steps.push(("gate C", gated.clone()));
        }
        steps.push(("merge C", gated.clone()));
        steps.push(("project out Y", self.project(3, &gated)));
        steps.into_iter().map(|(name, numbers)| (name.to_string(), numbers)).collect()
    }

    /// The steps between queries and keys and the softmax.
    fn scores(&self, attention: &Attention<T>) -> Vec<(&'static str, Vec<T>)> {
        let visible = |scores: &[T]| self.at_pairs(scores, |pair| !attention.hidden[pair]);
        let mut scores = products(attention);
        let mut steps = vec![("scores S", visible(&scores))];
        scores.iter_mut().for_each(|score| *score = *score * attention.scale);
        steps.push(("scale S", visible(&scores)));
        if let Some(cap) = attention.softcap {
            scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
            steps.push(("softcap S", visible(&scores)));
        }
        let biases = self.case.biases::<T>();
        for (name, bias) in &biases {
            let step = match *name {
                "ALiBi" => "ALiBi B",
                "T5" => "T5 B",
                _ => "bias B",
            };
            steps.push((step, visible(bias)));
        }
        if !biases.is_empty() {
            scores
                .iter_mut()
                .zip(&attention.bias)
                .for_each(|(score, &bias)| *score = *score + bias);
            steps.push(("biased S", visible(&scores)));
        }
        steps
    }

    /// The numbers of the pairs that are asked for, and NaN at the others and at the zero key.
    fn at_pairs(&self, numbers: &[T], asked: impl Fn(usize) -> bool) -> Vec<T> {
        let n_keys = self.case.sizes.seq_k + self.case.extra_keys();
        let of_key = |pair: usize| pair % n_keys < self.case.sizes.seq_k + self.case.bias_kv;
        let number = |(pair, &x): (usize, &T)| {
            if of_key(pair) && asked(pair) { x } else { T::nan() }
        };
        numbers.iter().enumerate().map(number).collect()
    }
}

/// Q Kᵀ of every pair: `[batch, n_heads, seq_q, seq_k]`.
fn products<T: Float>(attention: &Attention<T>) -> Vec<T> {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, .. } = attention.sizes;
    let product = |pair: usize| {
        let (row, j) = (pair / seq_k, pair % seq_k);
        let [b, h, i] = [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q];
        let query = ((b * seq_q + i) * n_heads + h) * head_dim;
        let key = ((b * seq_k + j) * n_kv_heads + h / (n_heads / n_kv_heads)) * head_dim;
        let features = attention.query[query..][..head_dim].iter().zip(&attention.key[key..]);
        features.fold(T::zero(), |sum, (&q, &k)| sum + q * k)
    };
    (0..batch * n_heads * seq_q * seq_k).map(product).collect()
}

/// Whether some query sees a key of the call: `[batch, seq_k, n_kv_heads]`.
fn seen_keys<T: Float>(case: &Case, attention: &Attention<T>) -> Vec<bool> {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, .. } = case.sizes;
    let mut seen = vec![false; batch * seq_k * n_kv_heads];
    for (pair, hidden) in attention.hidden.iter().enumerate() {
        let (row, j) = (pair / attention.sizes.seq_k, pair % attention.sizes.seq_k);
        if j < seq_k && !hidden {
            let (b, h) = (row / seq_q / n_heads, row / seq_q % n_heads);
            seen[(b * seq_k + j) * n_kv_heads + h / (n_heads / n_kv_heads)] = true;
        }
    }
    seen
}

/// The features of the keys that are seen, and NaN in place of the others.
fn only<T: Float>(keys: &[T], width: usize, seen: &[bool]) -> Vec<T> {
    let of_key = |(key, &seen): (&[T], &bool)| {
        if seen { key.to_vec() } else { vec![T::nan(); width] }
    };
    keys.chunks(width).zip(seen).flat_map(of_key).collect()
}

/// The steps of an explanation of the case's call, as [`Layer::steps`] names them.
pub fn explained_steps<B: Backend>(case: &Case, explanation: &Explanation<B>) -> Named<f32> {
    let named = |step: &Step| {
        let numbers: Vec<f32> = step.values().into_iter().map(|x| x as f32).collect();
        let of_pairs = ["S", "B", "P"].contains(&step.symbol);
        let numbers = if of_pairs { over_pairs(case, step, &numbers) } else { numbers };
        (format!("{} {}", step.name, step.symbol), numbers)
    };
    explanation.steps.iter().map(named).collect()
}

/// Scores, weights or a bias, whose axes may be 1, at every pair; 0 at a zero key without a column.
fn over_pairs(case: &Case, step: &Step, numbers: &[f32]) -> Vec<f32> {
    let Sizes { batch, n_heads, seq_q, seq_k, .. } = case.sizes;
    let seq = seq_k + case.extra_keys();
    let dims: [usize; 4] = std::array::from_fn(|axis| step.shape[axis]);
    let number = |pair: usize| {
        let (row, j) = (pair / seq, pair % seq);
        let place = [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q, j];
        if dims[3] > 1 && j >= dims[3] { 0.0 } else { numbers[at(dims, place)] }
    };
    (0..batch * n_heads * seq_q * seq).map(number).collect()
}
