//! Why one pair of query and key weighs what it does.

use std::fmt;

/// One pair's way from the product of query and key to its weight; see
/// [`Explanation::why`](crate::Explanation::why). It prints a line for each stage.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MhaInput, MultiHeadAttentionConfig, Position, Why};
///
/// let device = Default::default();
/// let config = MultiHeadAttentionConfig::new(8, 2).with_position(Position::Alibi);
/// let attention = config.init::<NdArray>(&device);
/// let input = MhaInput::self_attn(Tensor::zeros([1, 4, 8], &device));
/// let Why { biases, .. } = attention.explain(&input).unwrap().why(0, 0, 3, 1).unwrap();
/// assert_eq!(biases, [("ALiBi", -2.0 / 16.0)]); // slope 1/16, distance 2
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Why {
    /// Batch entry, head, query and key.
    pub pair: [usize; 4],
    /// The product of query and key.
    pub raw: f64,
    /// Times the scale.
    pub scaled: f64,
    /// Within ±cap, if there is one.
    pub capped: Option<f64>,
    /// What each bias adds.
    pub biases: Vec<(&'static str, f64)>,
    /// With all biases: what the softmax takes, unless the pair is hidden.
    pub score: f64,
    /// The rule or tensor that hides the pair, if one does.
    pub hidden_by: Option<String>,
    /// The log-sum-exp of the query's scores.
    pub lse: f64,
    /// The weight, before dropout: e^(score - lse), or 0 where hidden.
    pub weight: f64,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [b, h, i, j] = self.pair;
        writeln!(f, "entry {b}, head {h}, query {i}, key {j}")?;
        writeln!(f, "  q · k           {:.6}", self.raw)?;
        writeln!(f, "  scaled          {:.6}", self.scaled)?;
        if let Some(capped) = self.capped {
            writeln!(f, "  capped          {capped:.6}")?;
        }
        for (name, bias) in &self.biases {
            writeln!(f, "  + {name:<13} {bias:.6}")?;
        }
        writeln!(f, "  score           {:.6}", self.score)?;
        if let Some(rule) = &self.hidden_by {
            writeln!(f, "  hidden by       {rule}")?;
        }
        writeln!(f, "  log-sum-exp     {:.6}", self.lse)?;
        write!(f, "  weight          {:.6}", self.weight)
    }
}
