//! Positions that a call gives, in place of counting from the first key.

use crate::Error;

/// The positions of a call's tokens, for rotary encodings.
///
/// # Example
///
/// ```
/// use mha::Positions;
///
/// // Two entries: the first begins at 0, the second after three tokens of padding on its left.
/// let positions = Positions::from(vec![0, -3]);
/// assert_eq!(positions, Positions::Starts(vec![0, -3]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Positions {
    /// That of the first token, one for all entries or one for each; the others follow.
    Starts(Vec<i64>),
    /// That of every token, one list for all entries or one for each.
    Ids(Vec<Vec<i64>>),
}

impl From<i64> for Positions {
    fn from(start: i64) -> Self {
        Self::Starts(vec![start])
    }
}

impl From<Vec<i64>> for Positions {
    fn from(starts: Vec<i64>) -> Self {
        Self::Starts(starts)
    }
}

impl From<Vec<Vec<i64>>> for Positions {
    fn from(ids: Vec<Vec<i64>>) -> Self {
        Self::Ids(ids)
    }
}

impl Positions {
    pub(crate) fn check(&self, name: &'static str, batch: usize, seq: usize) -> Result<(), Error> {
        let lists = match self {
            Self::Starts(starts) => starts.len(),
            Self::Ids(ids) => ids.len(),
        };
        if lists != 1 && lists != batch {
            let expected = format!("be given for 1 or {batch} (batch) entries");
            return Err(Error::value(name, expected, lists));
        }
        match self {
            Self::Ids(ids) => match ids.iter().find(|ids| ids.len() != seq) {
                Some(ids) => Err(Error::value(name, format!("be {seq} per entry"), ids.len())),
                None => Ok(()),
            },
            Self::Starts(_) => Ok(()),
        }
    }

    /// Every position: one list, or one per entry.
    pub(crate) fn lists(&self, seq: usize) -> Vec<Vec<i64>> {
        match self {
            Self::Starts(starts) => {
                let from = |start: &i64| (0..seq as i64).map(|i| start.saturating_add(i)).collect();
                starts.iter().map(from).collect()
            }
            Self::Ids(ids) => ids.clone(),
        }
    }
    /// The positions without the first `n` tokens of each list.
    pub(crate) fn skip(self, n: usize) -> Self {
        match self {
            Self::Starts(starts) => {
                Self::Starts(starts.iter().map(|start| start.saturating_add(n as i64)).collect())
            }
            Self::Ids(ids) => {
                Self::Ids(ids.iter().map(|ids| ids.iter().skip(n).copied().collect()).collect())
            }
        }
    }
}
