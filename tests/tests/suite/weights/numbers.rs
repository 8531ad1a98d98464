//! Tensors of a fixture.

use burn::tensor::{Bool, Tensor, backend::Backend};
use mha::weights::Store;
use mha_tests::{bools, tensor};

/// The numbers of a tensor, if it is there.
pub(super) fn numbers(store: &Store, name: &str) -> Option<Vec<f64>> {
    store.entry(name)?;
    Some(store.read(name).expect("readable").to_f64().expect("floats"))
}

/// The shape of a tensor, if it is there.
pub(super) fn shape<'a>(store: &'a Store, name: &str) -> Option<&'a [usize]> {
    store.entry(name).map(|entry| entry.shape.as_slice())
}

/// A float tensor, its elements in the shape `dims`.
pub(super) fn read<B: Backend, const D: usize>(
    store: &Store,
    name: &str,
    dims: [usize; D],
) -> Tensor<B, D> {
    let numbers = numbers(store, name).expect("there");
    tensor(&numbers.iter().map(|&x| x as f32).collect::<Vec<_>>(), dims)
}

/// A bool tensor, its elements in the shape `dims`.
pub(super) fn read_bools<B: Backend, const D: usize>(
    store: &Store,
    name: &str,
    dims: [usize; D],
) -> Tensor<B, D, Bool> {
    let array = store.read(name).expect("readable");
    bools(&array.bytes().iter().map(|&byte| byte != 0).collect::<Vec<_>>(), dims)
}

/// At least 1: what the errors of these numbers are relative to.
pub(super) fn scale(numbers: &[f64]) -> f64 {
    mha_tests::largest(numbers).max(1.0)
}
