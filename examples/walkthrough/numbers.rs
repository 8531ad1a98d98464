//! The tokens and the weights: the article's when the fixture has them, drawn here otherwise.

use crate::draw::Normal;
use crate::fixture::{Fixture, HeadCount};

/// A matrix row by row.
pub(crate) type Matrix = Vec<Vec<f64>>;

/// What the layer is computed from, in double precision.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// One row per token, `[seq, d_model]`.
    pub(crate) x: Matrix,
    pub(crate) w_q: Matrix,
    pub(crate) w_k: Matrix,
    pub(crate) w_v: Matrix,
    pub(crate) w_o: Matrix,
    /// NumPy's results, when the numbers are the fixture's.
    pub(crate) numpy: Option<Vec<HeadCount>>,
}

impl Numbers {
    pub(crate) fn choose(sentence: &str, d_model: usize) -> Self {
        let fixture = Fixture::read();
        if sentence == fixture.sentence && d_model == fixture.w_q.len() {
            let Fixture { x, w_q, w_k, w_v, w_o, head_counts, .. } = fixture;
            return Self { x, w_q, w_k, w_v, w_o, numpy: Some(head_counts) };
        }
        Self::draw(sentence, d_model)
    }

    /// As an embedding would do it, a character has the same row wherever it stands.
    fn draw(sentence: &str, d_model: usize) -> Self {
        let x = sentence.chars().map(|c| Normal::new(c.into()).row(d_model)).collect();
        // Seeds above every character's; the scale keeps the scores near 1 for any d_model.
        let first_seed = u64::from(char::MAX) + 1;
        let scale = (d_model as f64).sqrt().recip();
        let [w_q, w_k, w_v, w_o] =
            [0, 1, 2, 3].map(|i| Normal::new(first_seed + i).matrix(d_model, d_model, scale));
        Self { x, w_q, w_k, w_v, w_o, numpy: None }
    }

    /// Where the numbers come from, in two lines for the reader.
    pub(crate) fn origin(&self) -> [&'static str; 2] {
        if self.numpy.is_some() {
            ["NumPy's RandomState(42).randn, drawn in the order", "X, W_Q, W_K, W_V, W_O"]
        } else {
            [
                "a fixed-seed generator: X by the character, the same character",
                "the same row; W_Q, W_K, W_V, W_O divided by √d_model",
            ]
        }
    }
}
