//! The masks of one call, and the dense tensor that the plain path makes of them.

use burn::tensor::{Bool, Tensor, backend::Backend};

use super::sizes::Sizes;
use crate::Error;
use crate::error::{check_broadcast, check_shape};

/// Everything that may hide a key from a query; a pair is hidden when any of them hides it.
#[derive(Debug, Clone)]
pub(crate) struct Masks<B: Backend> {
    /// `true` hides the key: `[batch, seq_k]`.
    pub(crate) pad: Option<Tensor<B, 2, Bool>>,
    /// `true` hides the pair: `[batch, seq_q, seq_k]`.
    pub(crate) attn: Option<Tensor<B, 3, Bool>>,
    /// `true` hides the pair: `[batch, n_heads, seq_q, seq_k]`.
    pub(crate) heads: Option<Tensor<B, 4, Bool>>,
    /// Hides key `j` from query `i` unless `j <= i + seq_k - seq_q`.
    pub(crate) causal: bool,
}

// By hand: a derive would ask for `B: Default`.
impl<B: Backend> Default for Masks<B> {
    fn default() -> Self {
        Self { pad: None, attn: None, heads: None, causal: false }
    }
}

impl<B: Backend> Masks<B> {
    pub(crate) fn check(&self, sizes: &Sizes) -> Result<(), Error> {
        let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
        if let Some(mask) = &self.pad {
            check_shape("mask_pad", ["batch", "seq_k"], [batch, seq_k], mask.dims())?;
        }
        if let Some(mask) = &self.attn {
            let axes = ["batch", "seq_q", "seq_k"];
            check_broadcast("mask_attn", axes, [batch, seq_q, seq_k], mask.dims())?;
        }
        if let Some(mask) = &self.heads {
            let axes = ["batch", "n_heads", "seq_q", "seq_k"];
            let expected = [batch, n_heads, seq_q, seq_k];
            check_broadcast("mask_attn_heads", axes, expected, mask.dims())?;
        }
        Ok(())
    }

    /// The union of all masks, `true` where a pair is hidden: `[batch or 1, n_heads or 1, seq_q,
    /// seq_k]`, or nothing when nothing can be hidden.
    pub(crate) fn hidden_pairs(
        &self,
        sizes: &Sizes,
        device: &B::Device,
    ) -> Option<Tensor<B, 4, Bool>> {
        let &Sizes { seq_q, seq_k, .. } = sizes;
        let causal = self.causal.then(|| {
            // Bottom-right: the last query sees every key.
            let offset = seq_k as i64 - seq_q as i64;
            Tensor::<B, 2, Bool>::tril_mask([seq_q, seq_k], offset, device).unsqueeze::<4>()
        });
        let pad = self.pad.clone().map(|mask| mask.unsqueeze_dims::<4>(&[1, 2]));
        let attn = self.attn.clone().map(|mask| mask.unsqueeze_dim::<4>(1));
        let masks = [causal, pad, attn, self.heads.clone()];
        let union = masks.into_iter().flatten().reduce(|a, b| {
            let dims = broadcast(a.dims(), b.dims());
            a.expand(dims).bool_or(b.expand(dims))
        })?;
        let [batch, n_heads, ..] = union.dims();
        Some(union.expand([batch, n_heads, seq_q, seq_k]))
    }

    /// The keys that no query of any head sees, `[batch or 1, seq_k]`, or nothing when the masks
    /// cannot hide a key from all.
    pub(crate) fn hidden_keys(
        &self,
        sizes: &Sizes,
        device: &B::Device,
    ) -> Option<Tensor<B, 2, Bool>> {
        if self.attn.is_none() && self.heads.is_none() {
            // The causal rule alone hides no key from the last query.
            return self.pad.clone();
        }
        let hidden = self.hidden_pairs(sizes, device)?.all_dim(1).all_dim(2);
        let [batch, ..] = hidden.dims();
        Some(hidden.reshape([batch, sizes.seq_k]))
    }
}

/// Fills a tensor with `value` where `mask`, whose axes may be 1, is true.
pub(crate) fn fill<B: Backend, const D: usize>(
    tensor: Tensor<B, D>,
    mask: Tensor<B, D, Bool>,
    value: f64,
) -> Tensor<B, D> {
    let dims = tensor.dims();
    tensor.mask_fill(mask.expand(dims), value)
}

fn broadcast<const D: usize>(a: [usize; D], b: [usize; D]) -> [usize; D] {
    std::array::from_fn(|axis| if a[axis] == 1 { b[axis] } else { a[axis] })
}
