//! Where the queries stand among the keys.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rule::Listed;

/// Where the queries stand among the keys: query `i` stands at key position `i + offset`.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::oracle::Sizes;
/// use mha::{Mask, Offset};
///
/// // Two queries over five keys, standing at the last two or at the first two.
/// let sizes = Sizes { seq_q: 2, seq_k: 5, ..Sizes::ONE };
/// let pairs = |offset| Mask::<NdArray>::causal_at(offset).visible_pairs(&sizes).unwrap();
/// assert_eq!(pairs(Offset::BottomRight), 4 + 5);
/// assert_eq!(pairs(Offset::At(0)), 1 + 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offset {
    /// The last query stands at the last key, as in FlashAttention since 2.1: the offset is
    /// `seq_k - seq_q`. With a cache it is what the cache says: the number of cached tokens.
    #[default]
    BottomRight,
    /// This offset, in keys; negative where the first queries stand before the first key. 0 is the
    /// top-left alignment of PyTorch's `scaled_dot_product_attention` and of Flax.
    At(i64),
    /// One offset per batch entry, or a single one for all.
    PerEntry(Vec<i64>),
}

impl Offset {
    /// The offset of one batch entry, if it is given in numbers.
    pub(crate) fn of_entry(&self, entry: usize) -> Option<i64> {
        match self {
            Self::BottomRight => None,
            Self::At(offset) => Some(*offset),
            Self::PerEntry(offsets) => Some(*of_entry(offsets, entry)),
        }
    }

    /// The same places, for the queries behind the first `n`.
    pub(crate) fn skip(self, n: usize) -> Self {
        let n = n as i64;
        match self {
            Self::BottomRight => Self::BottomRight,
            Self::At(offset) => Self::At(offset.saturating_add(n)),
            Self::PerEntry(offsets) => {
                Self::PerEntry(offsets.iter().map(|offset| offset.saturating_add(n)).collect())
            }
        }
    }

    /// Whether entries may differ.
    pub(crate) fn per_entry(&self) -> bool {
        matches!(self, Self::PerEntry(offsets) if offsets.len() != 1)
    }
}

/// The item of one batch entry in a list of one per entry, or of one for all.
pub(crate) fn of_entry<T>(items: &[T], entry: usize) -> &T {
    if items.len() == 1 { &items[0] } else { &items[entry] }
}

impl From<i64> for Offset {
    fn from(offset: i64) -> Self {
        Self::At(offset)
    }
}

impl From<Vec<i64>> for Offset {
    fn from(offsets: Vec<i64>) -> Self {
        Self::PerEntry(offsets)
    }
}

/// What follows the words of a rule: nothing for the bottom right.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BottomRight => Ok(()),
            Self::At(0) => write!(f, "; query i stands at key i"),
            Self::At(offset) => {
                let sign = if *offset < 0 { '-' } else { '+' };
                write!(f, "; query i stands at key i {sign} {}", offset.unsigned_abs())
            }
            Self::PerEntry(offsets) => {
                write!(f, "; query i stands at key i + {} by entry", Listed(offsets))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_serde() {
        for (offset, json) in [
            (Offset::BottomRight, r#""BottomRight""#),
            (Offset::from(-3), r#"{"At":-3}"#),
            (Offset::from(vec![1, 2]), r#"{"PerEntry":[1,2]}"#),
        ] {
            assert_eq!(serde_json::to_string(&offset).unwrap(), json);
            assert_eq!(serde_json::from_str::<Offset>(json).unwrap(), offset);
        }
    }

    #[test]
    fn one_offset_serves_every_entry() {
        assert_eq!(Offset::from(vec![4]).of_entry(7), Some(4));
        assert_eq!(Offset::from(vec![4, 5]).of_entry(1), Some(5));
        assert_eq!(Offset::BottomRight.of_entry(1), None);
    }
}
