//! Filling where a mask says so.

use burn::tensor::{Bool, Tensor, backend::Backend};

/// Fills a tensor with `value` where `mask`, whose axes may be 1, is true.
pub(crate) fn fill<B: Backend, const D: usize>(
    tensor: Tensor<B, D>,
    mask: Tensor<B, D, Bool>,
    value: f64,
) -> Tensor<B, D> {
    let dims = tensor.dims();
    tensor.mask_fill(mask.expand(dims), value)
}
