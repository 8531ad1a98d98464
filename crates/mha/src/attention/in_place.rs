//! Operations on a tensor where it lies, of which Burn's own make a copy on some backends.

use burn::tensor::ops::FloatTensor;
use burn::tensor::{Shape, Tensor, TensorPrimitive, backend::Backend};

use super::table::{Entry, lookup};

/// As many elements in another shape.
pub(crate) fn reshape<B: Backend, const D: usize, const E: usize>(
    tensor: Tensor<B, D>,
    dims: [usize; E],
) -> Tensor<B, E> {
    match with_kernels(tensor, |kernels, tensor| (kernels.reshape)(tensor, Shape::from(dims))) {
        Ok(reshaped) => reshaped,
        Err(tensor) => tensor.reshape(dims),
    }
}

/// The first `n`, at least one, of the second axis.
pub(crate) fn first<B: Backend>(tensor: Tensor<B, 4>, n: usize) -> Tensor<B, 4> {
    match with_kernels(tensor, |kernels, tensor| (kernels.first)(tensor, n)) {
        Ok(first) => first,
        Err(tensor) => tensor.narrow(1, 0, n),
    }
}

/// `tokens` written over `store`, from `start` of the second axis on.
pub(crate) fn put<B: Backend>(
    store: Tensor<B, 4>,
    start: usize,
    tokens: Tensor<B, 4>,
) -> Tensor<B, 4> {
    let [batch, n, heads, features] = tokens.dims();
    let in_place = |kernels: Entry<B>, store| {
        (kernels.put)(store, start, tokens.clone().into_primitive().tensor())
    };
    match with_kernels(store, in_place) {
        Ok(written) => written,
        Err(store) => {
            store.slice_assign([0..batch, start..start + n, 0..heads, 0..features], tokens)
        }
    }
}

/// The tensor again where there are no kernels, or it is a quantized one.
fn with_kernels<B: Backend, const D: usize, const E: usize>(
    tensor: Tensor<B, D>,
    run: impl FnOnce(Entry<B>, FloatTensor<B>) -> FloatTensor<B>,
) -> Result<Tensor<B, E>, Tensor<B, D>> {
    match (lookup::<B>(), tensor.into_primitive()) {
        (Some(kernels), TensorPrimitive::Float(tensor)) => {
            Ok(Tensor::from_primitive(TensorPrimitive::Float(run(kernels, tensor))))
        }
        (_, tensor) => Err(Tensor::from_primitive(tensor)),
    }
}
