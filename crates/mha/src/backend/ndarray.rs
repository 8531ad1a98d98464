//! NdArray: arrays of any strides.

use burn::backend::NdArray;
use burn::backend::ndarray::{
    FloatNdArrayElement, IntNdArrayElement, NdArrayTensor, QuantElement, SharedArray,
};
use burn::tensor::ops::{BoolTensor, FloatTensor, FloatTensorOps};
use burn::tensor::{Shape, TensorMetadata};

use super::InPlace;
use super::cpu::{CpuBackend, Storage};
use super::strided::Strided;

/// An array, where it lies if it has no gaps. The strides that `ndarray` tells of an axis of length 1
/// mean nothing, and nothing asks for them.
macro_rules! strided {
    ($storage:expr) => {{
        let view = $storage.view();
        let dims = view.shape().to_vec();
        match view.to_slice_memory_order() {
            Some(data) => {
                let strides = view.strides().to_vec();
                // The slice starts at the lowest address; an axis that runs backwards starts at
                // its far end.
                let start = dims
                    .iter()
                    .zip(&strides)
                    .filter(|&(&dim, &stride)| dim > 1 && stride < 0)
                    .map(|(&dim, &stride)| (dim - 1) * stride.unsigned_abs())
                    .sum();
                Strided { data: data.into(), start, dims, strides }
            }
            None => Strided::dense(view.iter().copied().collect(), dims),
        }
    }};
}

/// Whether an array is row-major, and its own.
macro_rules! is_in_order {
    ($storage:expr) => {
        $storage.is_owned() && $storage.view().is_standard_layout()
    };
}

macro_rules! reshaped {
    ($storage:expr, $shape:expr) => {{
        let array = $storage.into_owned().into_shape_with_order($shape.to_vec());
        NdArrayTensor::from(array.expect("as many elements, in order"))
    }};
}

/// Whether the beginning of the second axis is one piece of the array. Of several entries it is not,
/// and kernels can read an array with gaps only as a copy.
macro_rules! is_whole_when_cut {
    ($storage:expr) => {
        is_in_order!($storage) && $storage.shape()[0] == 1
    };
}

macro_rules! cut {
    ($storage:expr, $n:expr) => {{
        let mut array = $storage.into_owned();
        let axis = array.axes().nth(1).expect("a second axis").axis;
        array.slice_axis_inplace(axis, (..$n).into());
        NdArrayTensor::from(array)
    }};
}

macro_rules! storage {
    ($number:ty, $variant:ident) => {
        impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> Storage<$number>
            for NdArray<E, I, Q>
        where
            NdArrayTensor: From<SharedArray<E>> + From<SharedArray<I>>,
        {
            fn read(tensor: &FloatTensor<Self>) -> Strided<'_, $number> {
                match tensor {
                    NdArrayTensor::$variant(storage) => strided!(storage),
                    other => unreachable!("{:?} where another type was checked", other.dtype()),
                }
            }

            fn make(numbers: Vec<$number>, dims: Vec<usize>) -> FloatTensor<Self> {
                let array = SharedArray::from_shape_vec(dims, numbers);
                NdArrayTensor::from(array.expect("as many numbers as the sizes say"))
            }

            fn unmake(tensor: FloatTensor<Self>) -> Option<Vec<$number>> {
                match tensor {
                    NdArrayTensor::$variant(storage) if storage.is_unique() => {
                        Some(storage.into_owned().into_owned().into_raw_vec_and_offset().0)
                    }
                    _ => None,
                }
            }
        }
    };
}

storage!(f32, F32);
storage!(f64, F64);

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> CpuBackend for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>> + From<SharedArray<I>>,
{
    fn read_bool(tensor: &BoolTensor<Self>) -> Strided<'_, bool> {
        match tensor {
            NdArrayTensor::Bool(storage) => strided!(storage),
            other => unreachable!("a Boolean tensor of {:?}", other.dtype()),
        }
    }
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> InPlace for NdArray<E, I, Q>
where
    NdArrayTensor: From<SharedArray<E>> + From<SharedArray<I>>,
{
    fn reshape(tensor: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        match tensor {
            NdArrayTensor::F32(storage) if is_in_order!(storage) => reshaped!(storage, shape),
            NdArrayTensor::F64(storage) if is_in_order!(storage) => reshaped!(storage, shape),
            // Burn's own copies, whatever the order.
            other => Self::float_reshape(other, shape),
        }
    }

    fn first(tensor: FloatTensor<Self>, n: usize) -> FloatTensor<Self> {
        match tensor {
            NdArrayTensor::F32(storage) if is_whole_when_cut!(storage) => cut!(storage, n),
            NdArrayTensor::F64(storage) if is_whole_when_cut!(storage) => cut!(storage, n),
            other => super::in_place::first::<Self>(other, n),
        }
    }
}
