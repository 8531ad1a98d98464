//! The masks that numbers on the host describe.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::offset::Offset;

/// A rule that says which keys a query sees: host numbers, cheap to clone and to serialize.
///
/// Lists hold one item per batch entry, or a single one for all. Causal, window, prefix and chunked
/// speak of key positions, which go on counting when a cache drops old keys; lengths, left padding
/// and segments speak of the keys as they come. Neither reaches beyond the keys that there are.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::{Mask, Offset, Rule};
///
/// let offset = Offset::BottomRight;
/// let window = Rule::Window { left: Some(3), right: Some(0), sinks: 4, offset };
/// assert_eq!(
///     window.to_string(),
///     "window: 3 keys before and 0 after its own position, and the first 4 keys"
/// );
/// let mask = Mask::<NdArray>::from(window.clone()).and(Mask::lengths(vec![5, 7]));
/// assert_eq!(mask.rules(), [window, Rule::Lengths { lengths: vec![5, 7] }]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Rule {
    /// A query sees the keys up to its own position.
    Causal {
        /// Where the queries stand.
        #[serde(default)]
        offset: Offset,
    },
    /// A query sees the key at its own position and those near it. [`Mask::window`] says what other
    /// libraries' sizes are here.
    ///
    /// [`Mask::window`]: super::Mask::window
    Window {
        /// How many keys before its own position, in keys besides that one; `None` for all.
        #[serde(default)]
        left: Option<usize>,
        /// How many keys after it; `None` for all.
        #[serde(default)]
        right: Option<usize>,
        /// How many of the first keys stay visible when they are farther to the left than `left`
        /// (attention sinks, Xiao et al. 2023: <https://arxiv.org/abs/2309.17453>). `right` holds
        /// for them as for all.
        #[serde(default)]
        sinks: usize,
        /// Where the queries stand.
        #[serde(default)]
        offset: Offset,
    },
    /// The queries of an entry see its first keys: padding on the right.
    Lengths {
        /// How many keys, at most `seq_k`; those that a rolling cache has forgotten count.
        lengths: Vec<usize>,
    },
    /// The queries of an entry see all but its first keys: padding on the left.
    LeftPadding {
        /// How many keys are hidden, at most `seq_k`; those that a rolling cache has forgotten count.
        padding: Vec<usize>,
    },
    /// A query sees the keys that have its id: documents packed into one sequence.
    Segments {
        /// The id of each of `seq_q` queries.
        query: Vec<Vec<u32>>,
        /// The id of each of `seq_k` keys.
        key: Vec<Vec<u32>>,
    },
    /// Causal, but every query sees the first keys (prefix LM, Raffel et al. 2020, section 3.2.1:
    /// <https://arxiv.org/abs/1910.10683>).
    Prefix {
        /// How many key positions make the prefix; it may be longer than the keys so far.
        lengths: Vec<usize>,
        /// Where the queries stand.
        #[serde(default)]
        offset: Offset,
    },
    /// A query sees the keys in its own chunk of positions; with causal this is the local attention
    /// of Llama 4. Key position 0 starts a chunk.
    Chunked {
        /// Positions in a chunk, at least 1.
        size: usize,
        /// Where the queries stand.
        #[serde(default)]
        offset: Offset,
    },
}

/// The rule in plain words, on one line.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Causal { offset } => {
                write!(f, "causal: a query sees keys up to its own position{offset}")
            }
            Self::Window { left, right, sinks, offset } => {
                let words = |keys: &Option<usize>| keys.map_or("all".into(), |n| n.to_string());
                let (left, right) = (words(left), words(right));
                write!(f, "window: {left} keys before and {right} after its own position")?;
                if *sinks > 0 {
                    write!(f, ", and the first {sinks} keys")?;
                }
                write!(f, "{offset}")
            }
            Self::Lengths { lengths } => {
                write!(f, "lengths: the first {} keys of an entry are seen", Listed(lengths))
            }
            Self::LeftPadding { padding } => {
                write!(f, "left padding: the first {} keys of an entry are hidden", Listed(padding))
            }
            Self::Segments { .. } => write!(f, "segments: a query sees the keys that have its id"),
            Self::Prefix { lengths, offset } => {
                let prefix = Listed(lengths);
                write!(f, "prefix: causal, but the first {prefix} keys are seen by all{offset}")
            }
            Self::Chunked { size, offset } => {
                write!(f, "chunked: a query sees keys in its own chunk of {size} positions{offset}")
            }
        }
    }
}

/// A list of one number per entry, in words that do not grow with the batch.
pub(crate) struct Listed<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if let [one] = self.0 {
            return write!(f, "{one}");
        }
        let shown = self.0.iter().take(SHOWN).map(T::to_string).collect::<Vec<_>>().join(", ");
        if self.0.len() <= SHOWN {
            write!(f, "[{shown}]")
        } else {
            write!(f, "[{shown}, ..; {} in all]", self.0.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<(Rule, &'static str)> {
        let offset = Offset::BottomRight;
        let window = |left, right| Rule::Window { left, right, sinks: 0, offset: Offset::At(-2) };
        vec![
            (
                Rule::Causal { offset: Offset::At(3) },
                "causal: a query sees keys up to its own position; query i stands at key i + 3",
            ),
            (
                window(None, Some(2)),
                "window: all keys before and 2 after its own position; \
                 query i stands at key i - 2",
            ),
            (
                Rule::Lengths { lengths: (0..10).collect() },
                "lengths: the first [0, 1, 2, 3, 4, 5, 6, 7, ..; 10 in all] keys of an entry \
                 are seen",
            ),
            (
                Rule::LeftPadding { padding: vec![1, 2] },
                "left padding: the first [1, 2] keys of an entry are hidden",
            ),
            (
                Rule::Segments { query: vec![vec![0]], key: vec![vec![0, 1]] },
                "segments: a query sees the keys that have its id",
            ),
            (
                Rule::Prefix { lengths: vec![4], offset: offset.clone() },
                "prefix: causal, but the first 4 keys are seen by all",
            ),
            (
                Rule::Chunked { size: 8, offset: vec![1, 2].into() },
                "chunked: a query sees keys in its own chunk of 8 positions; \
                 query i stands at key i + [1, 2] by entry",
            ),
        ]
    }

    #[test]
    fn plain_words() {
        for (rule, words) in rules() {
            assert_eq!(rule.to_string(), words);
        }
    }

    #[test]
    fn survives_serde() {
        for (rule, _) in rules() {
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule, "{json}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default_and_unknown_fields_are_refused() {
        let read = serde_json::from_str::<Rule>;
        assert_eq!(
            read(r#"{"Window":{"left":3}}"#).unwrap(),
            Rule::Window { left: Some(3), right: None, sinks: 0, offset: Offset::BottomRight }
        );
        assert!(read(r#"{"Lengths":{}}"#).is_err(), "lengths have no default");
        for unknown in [r#"{"Window":{"left":3,"size":4}}"#, r#"{"Causal":{"top_left":true}}"#] {
            let error = read(unknown).unwrap_err().to_string();
            assert!(error.starts_with("unknown field"), "{error}");
        }
    }
}
