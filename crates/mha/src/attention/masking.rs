//! What it means for a pair of query and key to be hidden.

use serde::{Deserialize, Serialize};

use crate::Error;

/// What happens to the score of a hidden pair of query and key.
///
/// # Example
///
/// ```
/// use mha::{Masking, MultiHeadAttentionConfig};
///
/// let config = MultiHeadAttentionConfig::new(8, 2).burn_nn_compat();
/// assert_eq!(config.masking, Masking::Overwrite { min_float: -1.0e4 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Masking {
    /// It leaves the softmax: the weight is exactly 0 whatever the scores, and a query that sees
    /// no key gets zeros, with zero gradients.
    #[default]
    Exclude,
    /// It is overwritten with a finite number, as `burn::nn` 0.21 does: a query that sees no key
    /// gets the plain average of all values, padding included, and a true score below
    /// `min_float` loses to a hidden one.
    Overwrite {
        /// The score of a hidden pair; finite. `burn::nn` has -1e4.
        min_float: f64,
    },
}

impl Masking {
    pub(crate) fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Overwrite { min_float } if !(min_float as f32).is_finite() => {
                Err(Error::number("min_float", "be finite in f32", min_float))
            }
            _ => Ok(()),
        }
    }
}
