//! What is compared: a module's configuration and one call of it.

use mha::{MultiHeadAttentionConfig, oracle::Sizes};
use mha_tests::Case;

/// A configuration with sizes, weights and inputs; the case has its name.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) case: Case,
    pub(crate) config: MultiHeadAttentionConfig,
}

impl Subject {
    /// The case's own configuration.
    pub(crate) fn new(case: Case) -> Self {
        Self { config: case.config(), case }
    }

    /// Numbers in all weight matrices together.
    pub(crate) fn weights(&self) -> f64 {
        self.matrices().iter().sum()
    }

    /// Pairs of query and key in all heads together, learned keys included.
    pub(crate) fn pairs(&self) -> f64 {
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.case.sizes;
        product([batch, n_heads, seq_q]) * (seq_k as f64 + self.case.extra_keys() as f64)
    }

    /// Multiplications of one forward pass.
    pub(crate) fn work(&self) -> f64 {
        let Sizes { batch, seq_q, seq_k, head_dim, value_dim, .. } = self.case.sizes;
        let [query, key, value, output] = self.matrices();
        let queries = product([batch, seq_q]) * (query + output);
        let keys = product([batch, seq_k]) * (key + value);
        queries + keys + self.pairs() * (head_dim as f64 + value_dim as f64)
    }

    /// How many neighbours of the case may show how far off the textbook formula gets: where there
    /// are few numbers it may be exact by luck.
    pub(crate) fn neighbours(&self) -> u32 {
        if self.work() < 1e7 { 32 } else { 0 }
    }

    /// Numbers in the weights of query, key, value and output.
    fn matrices(&self) -> [f64; 4] {
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.case.sizes;
        let [d_model, d_key, d_value, d_output] = self.case.module_widths();
        [
            product([d_model, n_heads, head_dim]),
            product([d_key, n_kv_heads, head_dim]),
            product([d_value, n_kv_heads, value_dim]),
            product([n_heads, value_dim, d_output]),
        ]
    }
}

/// In floating point, which no size from a file overflows.
fn product<const N: usize>(sizes: [usize; N]) -> f64 {
    sizes.iter().map(|&size| size as f64).product()
}
