//! Whether a cache fits a call; one from a file may hold anything.

use burn::tensor::{Tensor, backend::Backend};

use super::{Kind, KvCache};
use crate::Error;
use crate::attention::{Sizes, check::like};
use crate::error::check_shape;

/// Tokens beyond which positions are not exact in f64.
const FARTHEST: u64 = 1 << 53;

impl<B: Backend> KvCache<B> {
    /// Checks that the cache holds what its numbers say, for a call of these sizes and with a query
    /// of this element type and device. After this, nothing here panics.
    pub(super) fn check(&self, new: &Sizes, query: &Tensor<B, 3>) -> Result<(), Error> {
        let &Sizes { batch, n_kv_heads, head_dim, value_dim, .. } = new;
        if self.kind == Kind::Memory && self.key.is_none() {
            return Err(Error::value("cache", "be filled", "one that was cleared"));
        }
        if !self.lengths.is_empty() && self.lengths.len() != batch {
            let expected = format!("have {batch} (batch) entries");
            return Err(Error::value("cache", expected, self.lengths.len()));
        }
        self.check_rolling()?;
        let (key, value) = match (&self.key, &self.value) {
            (Some(key), Some(value)) => (key, value),
            (None, None) if self.is_empty() => return Ok(()),
            _ => return Err(Error::value("cache", "hold keys and values", "one without")),
        };
        let room = self.capacity().unwrap_or(key.dims()[1]);
        for (name, tensor, width) in
            [("cached key", key, head_dim), ("cached value", value, value_dim)]
        {
            let axes = ["batch", "room", "n_kv_heads", "features"];
            check_shape(name, axes, [batch, room, n_kv_heads, width], tensor.dims())?;
            like(name, tensor, "query", query)?;
        }
        let longest = self.len();
        let kept = match self.kind {
            Kind::Rolling { window, sinks } => longest.min(window.saturating_add(sinks)),
            Kind::Growing | Kind::Preallocated { .. } | Kind::Memory => longest,
        };
        if self.lengths.len() != batch || kept > room || longest as u64 > FARTHEST {
            let expected = format!("have lengths for {batch} entries of at most {room}");
            return Err(Error::value("cache", expected, format!("{:?}", self.lengths)));
        }
        Ok(())
    }

    fn check_rolling(&self) -> Result<(), Error> {
        let Kind::Rolling { window, .. } = self.kind else { return Ok(()) };
        if window == 0 {
            return Err(Error::value("cache", "have a window of at least 1", window));
        }
        if self.lengths.iter().any(|&length| length != self.len()) {
            let expected = "have seen as many tokens in every entry, since it is a rolling one";
            return Err(Error::value("cache", expected, format!("{:?}", self.lengths)));
        }
        Ok(())
    }
}
