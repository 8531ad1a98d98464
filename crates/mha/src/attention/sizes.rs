//! The sizes of one attention call, shared by every path and by the oracle.

/// The sizes of one problem.
///
/// # Example
///
/// ```
/// use mha::oracle::Sizes;
///
/// // Two queries over three keys, in one head of four features.
/// let sizes = Sizes { seq_q: 2, seq_k: 3, head_dim: 4, value_dim: 4, ..Sizes::ONE };
/// assert_eq!(sizes.seq_k, 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Independent entries.
    pub batch: usize,
    /// Heads of the query.
    pub n_heads: usize,
    /// Heads of key and value, a divisor of `n_heads`: query head `h` reads key head
    /// `h / (n_heads / n_kv_heads)`.
    pub n_kv_heads: usize,
    /// Queries of an entry.
    pub seq_q: usize,
    /// Keys, and values, of an entry.
    pub seq_k: usize,
    /// Features of a query and of a key in one head.
    pub head_dim: usize,
    /// Features of a value in one head.
    pub value_dim: usize,
}

impl Sizes {
    /// One of everything.
    pub const ONE: Self =
        Self { batch: 1, n_heads: 1, n_kv_heads: 1, seq_q: 1, seq_k: 1, head_dim: 1, value_dim: 1 };

    /// Whether there is no pair of query and key.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch == 0 || self.seq_q == 0 || self.seq_k == 0
    }
}
