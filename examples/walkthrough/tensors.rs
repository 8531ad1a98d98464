//! Between tensors and numbers in double precision.

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::numbers::Matrix;

/// A matrix as a tensor in the backend's precision.
pub(crate) fn tensor<B: Backend>(matrix: &Matrix, device: &B::Device) -> Tensor<B, 2> {
    let shape = [matrix.len(), matrix[0].len()];
    Tensor::from_data(TensorData::new(matrix.concat(), shape), device)
}

/// All values of a tensor, row by row.
pub(crate) fn values<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Vec<f64> {
    tensor.to_data().iter().collect()
}

/// The largest absolute value, 0 for none; NaN when there is a NaN, which `f64::max` would hide.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    let largest = |most: f64, x: f64| if x.abs() > most || x.is_nan() { x.abs() } else { most };
    values.into_iter().fold(0.0, largest)
}
