//! The oracle's gradients in the shapes of what they belong to.

use mha::oracle::{Gradients, Sizes};
use mha::{Position, Sink};

use super::{Case, at};
use crate::layer::Named;

impl Case {
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
}
