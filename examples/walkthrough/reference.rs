//! What the layer's results are held against: NumPy's values, or the library's f64 oracle.

use std::io::{self, Write};

use burn::tensor::backend::Backend;
use mha::oracle::{self, Sizes};
use mha_examples::columns::pad_right;

use crate::numbers::{Matrix, Numbers};
use crate::steps::Outcome;
use crate::tensors::{largest, values};

/// Results in double precision from code that shares nothing with the layer's.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Whose numbers they are, for the last line: `NumPy values`.
    pub(crate) name: &'static str,
    /// `[n_heads, seq, seq]`
    weights: Vec<f64>,
    /// `[seq, d_model]`
    output: Vec<f64>,
}

impl Reference {
    /// NumPy's values for this number of heads when there are any.
    pub(crate) fn choose(numbers: &Numbers, n_heads: usize) -> Self {
        let numpy = numbers.numpy.iter().flatten().find(|count| count.n_heads == n_heads);
        match numpy {
            Some(numpy) => Self {
                name: "NumPy values",
                weights: numpy.weights.iter().flatten().flatten().copied().collect(),
                output: numpy.output.concat(),
            },
            None => Self::oracle(numbers, n_heads),
        }
    }

    fn oracle(numbers: &Numbers, n_heads: usize) -> Self {
        let (seq, d_model) = (numbers.x.len(), numbers.w_q.len());
        let head_dim = d_model / n_heads;
        let linear = |x: &[f64], w: &Matrix| oracle::linear(x, &w.concat(), None, d_model);
        let x = numbers.x.concat();
        let [q, k, v] = [&numbers.w_q, &numbers.w_k, &numbers.w_v].map(|w| linear(&x, w));
        // `[seq, d_model]` and `[seq, n_heads, head_dim]` lie in memory alike.
        let sizes = Sizes {
            n_heads,
            n_kv_heads: n_heads,
            seq_q: seq,
            seq_k: seq,
            head_dim,
            value_dim: head_dim,
            ..Sizes::ONE
        };
        let oracle::Output { context, weights, .. } =
            oracle::Attention::new(sizes, q, k, v).forward();
        Self { name: "f64 oracle", weights, output: linear(&context, &numbers.w_o) }
    }

    /// Prints the beginning of the first token's output and the sum of all, ours and theirs.
    pub(crate) fn compare<B: Backend>(
        &self,
        out: &mut impl Write,
        outcome: &Outcome<B>,
        first: &str,
    ) -> io::Result<()> {
        let title = pad_right(&format!("Y of {first}, first values"), 39);
        writeln!(out, "\n                  {title}sum of all of Y")?;
        for (name, output) in [("this layer", &values(&outcome.output)), (self.name, &self.output)]
        {
            let begin: String = output.iter().take(3).map(|y| format!("{y:<13.8}")).collect();
            let sum: f64 = output.iter().sum();
            writeln!(out, "  {name:<16}{begin:<39}{sum:.8}")?;
        }
        Ok(())
    }

    /// The largest difference of a weight or an output from the reference.
    pub(crate) fn largest_difference<B: Backend>(&self, outcome: &Outcome<B>) -> f64 {
        let ours = [values(&outcome.weights), values(&outcome.output)].concat();
        let theirs = [self.weights.as_slice(), &self.output].concat();
        assert_eq!(ours.len(), theirs.len()); // `zip` would hide a missing value
        largest(ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs))
    }
}
