//! A case as the oracle's problem.

use mha::oracle::{Attention, Sizes};
use mha::{Position, Sink};

use super::{Case, at, convert};
use crate::rules::{sees, slopes};

impl Case {
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
        for (_, bias) in self.biases::<T>() {
            attention.bias.iter_mut().zip(bias).for_each(|(sum, x)| *sum = *sum + x);
        }
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

    /// What is added to the scores, by the names of an explanation's steps and for every pair of query
    /// and key: `[batch, n_heads, seq_q, seq_k and extra keys]`. Extra keys have no bias.
    pub(crate) fn biases<T: From<f32> + num_traits::Float>(&self) -> Vec<(&'static str, Vec<T>)> {
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.sizes;
        let over_pairs = |of: &dyn Fn([usize; 4]) -> T| -> Vec<T> {
            let seq = seq_k + self.extra_keys();
            let pair = |index: usize| {
                let (row, j) = (index / seq, index % seq);
                let place = [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q, j];
                if j < seq_k { of(place) } else { T::zero() }
            };
            (0..batch * n_heads * seq_q * seq).map(pair).collect()
        };
        let distance = |i: usize, j: usize| j as i64 - (i as i64 + seq_k as i64 - seq_q as i64);
        let number = |x: f64| <T as num_traits::NumCast>::from(x).expect("a number");
        let mut biases = Vec::new();
        match &self.position {
            Position::Alibi => {
                let slopes: Vec<T> = slopes(n_heads).into_iter().map(number).collect();
                let bias = |[_, h, i, j]: [usize; 4]| {
                    -slopes[h] * number(distance(i, j).unsigned_abs() as f64)
                };
                biases.push(("ALiBi", over_pairs(&bias)));
            }
            Position::T5(buckets) => {
                let table = self.table_values();
                let bias = |[_, h, i, j]: [usize; 4]| {
                    table[buckets.bucket(distance(i, j)) * n_heads + h].into()
                };
                biases.push(("T5", over_pairs(&bias)));
            }
            _ => {}
        }
        if let Some(dims) = self.bias {
            let values = self.bias_values(dims);
            biases.push(("bias", over_pairs(&|place| values[at(dims, place)].into())));
        }
        biases
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
}
