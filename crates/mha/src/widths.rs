//! The widths of a module: those that the configuration gives, and those that follow.

use crate::attention::check;
use crate::{Error, MultiHeadAttentionConfig};

/// Every width of a module, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) d_model: usize,
    pub(crate) d_key: usize,
    pub(crate) d_value: usize,
    pub(crate) d_output: usize,
    pub(crate) n_heads: usize,
    pub(crate) n_kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) value_dim: usize,
}

impl Widths {
    /// `[d_input, d_output]` of the query, key, value and output projection.
    pub(crate) fn projections(&self) -> [[usize; 2]; 4] {
        [
            [self.d_model, self.n_heads * self.head_dim],
            [self.d_key, self.n_kv_heads * self.head_dim],
            [self.d_value, self.n_kv_heads * self.value_dim],
            [self.n_heads * self.value_dim, self.d_output],
        ]
    }
}

impl MultiHeadAttentionConfig {
    /// All widths, or the field that is wrong and the value it has.
    pub(crate) fn widths(&self) -> Result<Widths, Error> {
        let &Self { d_model, n_heads, .. } = self;
        check_width("d_model", d_model)?;
        check_width("n_heads", n_heads)?;
        let n_kv_heads = self.n_kv_heads.unwrap_or(n_heads);
        check_width("n_kv_heads", n_kv_heads)?;
        check::groups(n_heads, n_kv_heads)?;
        if self.head_dim.is_none() && !d_model.is_multiple_of(n_heads) {
            let actual = format!("n_heads {n_heads} and d_model {d_model}");
            return Err(Error::value("n_heads", "divide d_model", actual));
        }
        let head_dim = self.head_dim.unwrap_or(d_model / n_heads);
        let value_dim = self.value_dim.unwrap_or(head_dim);
        for (name, width) in [("head_dim", head_dim), ("value_dim", value_dim)] {
            check_width(name, width)?;
            // Both factors are below 2¹⁶, so the product fits.
            check_width(name, n_heads * width).map_err(|_| {
                let actual = format!("{name} {width} and n_heads {n_heads}");
                Error::value(name, "give all heads together less than 65536 features", actual)
            })?;
        }
        let [d_key, d_value, d_output] =
            [self.d_key, self.d_value, self.d_output].map(|width| width.unwrap_or(d_model));
        check_width("d_key", d_key)?;
        check_width("d_value", d_value)?;
        check_width("d_output", d_output)?;
        Ok(Widths { d_model, d_key, d_value, d_output, n_heads, n_kv_heads, head_dim, value_dim })
    }
}

/// Checks a width, or a number of heads, each of which is at least one feature wide.
fn check_width(name: &'static str, width: usize) -> Result<(), Error> {
    // Burn's GPU kernels count elements in 32 bits, and 65,536² is 2³².
    if (1..65_536).contains(&width) {
        return Ok(());
    }
    Err(Error::value(name, "be at least 1 and below 65536", width))
}
