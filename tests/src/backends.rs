//! Tests that run on every backend compiled in.

use burn::tensor::{Bool, Element, Tensor, TensorData, backend::Backend};
use mha::Path;

/// A backend that is compiled in, for tests in which it does not matter which.
#[cfg(feature = "ndarray")]
pub type AnyBackend = burn::backend::NdArray;
/// A backend that is compiled in, for tests in which it does not matter which.
#[cfg(all(feature = "flex", not(feature = "ndarray")))]
pub type AnyBackend = burn::backend::Flex;
/// A backend that is compiled in, for tests in which it does not matter which.
#[cfg(all(feature = "wgpu", not(any(feature = "ndarray", feature = "flex"))))]
pub type AnyBackend = burn::backend::Wgpu;

/// A float tensor of these numbers, in their precision whatever the device's default is.
pub fn tensor<B: Backend, const D: usize, T: Element>(
    numbers: &[T],
    dims: [usize; D],
) -> Tensor<B, D> {
    let data = TensorData::new(numbers.to_vec(), dims);
    Tensor::from_data(data, (&B::Device::default(), T::dtype()))
}

/// A bool tensor of these values.
pub fn bools<B: Backend, const D: usize>(values: &[bool], dims: [usize; D]) -> Tensor<B, D, Bool> {
    Tensor::from_data(TensorData::new(values.to_vec(), dims), &B::Device::default())
}

/// The paths that a backend has: the plain one, and that of its kernels if it has any.
pub fn paths<B: Backend>() -> Vec<Path> {
    let fused = mha::is_fused::<B>().then_some(Path::Fused);
    [Path::Plain].into_iter().chain(fused).collect()
}

/// The numbers of a tensor.
///
/// # Panics
///
/// When it does not hold f32: a comparison in another precision would test something else.
pub fn floats<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    tensor.into_data().to_vec().expect("the tensor holds f32")
}

/// Makes a `#[test]` of each generic function, once for every backend that is compiled in, each
/// with autodiff.
#[macro_export]
macro_rules! on_every_backend {
    ($($test:ident),+ $(,)?) => {
        $crate::on_every_cpu!($($test),+);
        #[cfg(feature = "wgpu")]
        mod wgpu {
            $(#[test] fn $test() { super::$test::<burn::backend::Autodiff<burn::backend::Wgpu>>(); })+
        }
    };
}

/// [`on_every_backend`] for those that compute on the CPU.
#[macro_export]
macro_rules! on_every_cpu {
    ($($test:ident),+ $(,)?) => {
        #[cfg(feature = "ndarray")]
        mod ndarray {
            $(#[test] fn $test() { super::$test::<burn::backend::Autodiff<burn::backend::NdArray>>(); })+
        }
        #[cfg(feature = "flex")]
        mod flex {
            $(#[test] fn $test() { super::$test::<burn::backend::Autodiff<burn::backend::Flex>>(); })+
        }
    };
}

/// [`on_every_backend`], once for every path that the backend has: the functions take it.
#[macro_export]
macro_rules! on_every_path {
    ($($test:ident),+ $(,)?) => {
        mod on_every_path {
            $(fn $test<B: burn::tensor::backend::AutodiffBackend>() {
                $crate::paths::<B>().into_iter().for_each(super::$test::<B>);
            })+
            $crate::on_every_backend!($($test),+);
        }
    };
}
