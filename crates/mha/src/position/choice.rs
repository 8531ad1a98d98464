//! Which position encoding a module has.

use serde::{Deserialize, Serialize};

use super::{Rotary, T5Buckets};
use crate::Error;

/// How a module tells positions apart; at most one way.
///
/// # Example
///
/// ```
/// use mha::{MultiHeadAttentionConfig, Position, Rotary};
///
/// let config = MultiHeadAttentionConfig::new(64, 4).with_position(Rotary::half(10_000.0));
/// assert_eq!(config.position, Position::Rotary(Rotary::half(10_000.0)));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Position {
    /// Not at all: the tokens bring it along, or order has no meaning.
    #[default]
    None,
    /// Queries and keys are rotated by their positions (Su et al. 2021:
    /// <https://arxiv.org/abs/2104.09864>).
    Rotary(Rotary),
    /// Scores lose slope · |distance|, with the slopes of [`alibi_slopes`](crate::alibi_slopes)
    /// (Press et al. 2021: <https://arxiv.org/abs/2108.12409>).
    Alibi,
    /// Scores gain a learned number for each head and bucket of distances, the parameter
    /// `relative_bias` (Raffel et al. 2020: <https://arxiv.org/abs/1910.10683>). T5 itself has the
    /// table in the first layer alone; see [`MhaInput::t5`](crate::MhaInput::t5) for the others.
    T5(T5Buckets),
}

impl Position {
    pub(crate) fn check(&self, head_dim: usize) -> Result<(), Error> {
        match self {
            Self::None | Self::Alibi => Ok(()),
            Self::Rotary(rotary) => rotary.check(head_dim),
            Self::T5(buckets) => buckets.check(),
        }
    }
}

impl From<Rotary> for Position {
    fn from(rotary: Rotary) -> Self {
        Self::Rotary(rotary)
    }
}

impl From<T5Buckets> for Position {
    fn from(buckets: T5Buckets) -> Self {
        Self::T5(buckets)
    }
}
