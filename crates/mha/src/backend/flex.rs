//! Flex: a buffer of bytes, and a layout with strides and a start.

use std::borrow::Cow;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::ops::{BoolTensor, FloatTensor};
use burn::tensor::{BoolStore, DType, TensorData};

use super::cpu::{CpuBackend, Storage, Strided};

macro_rules! storage {
    ($number:ty) => {
        impl Storage<$number> for Flex {
            fn read(tensor: &FloatTensor<Self>) -> Strided<'_, $number> {
                strided(tensor, tensor.storage::<$number>().into())
            }

            fn make(numbers: Vec<$number>, dims: Vec<usize>) -> FloatTensor<Self> {
                FlexTensor::from_data(TensorData::new(numbers, dims))
            }

            fn unmake(tensor: FloatTensor<Self>) -> Option<Vec<$number>> {
                // Of a part, or in another order, the data would be a copy.
                let whole = tensor.is_unique() && tensor.is_contiguous();
                whole.then(|| tensor.into_data().bytes.try_into_vec().ok())?
            }
        }
    };
}

storage!(f32);
storage!(f64);

impl CpuBackend for Flex {
    fn read_bool(tensor: &BoolTensor<Self>) -> Strided<'_, bool> {
        if let DType::Bool(BoolStore::Native | BoolStore::U8) = tensor.dtype() {
            let bytes = tensor.storage::<u8>();
            let hidden = match bytemuck::checked::try_cast_slice(bytes) {
                Ok(hidden) => Cow::Borrowed(hidden),
                // Some `true` is another number than 1.
                Err(_) => bytes.iter().map(|&byte| byte != 0).collect(),
            };
            return strided(tensor, hidden);
        }
        let dims = tensor.layout().shape().to_vec();
        Strided::dense(tensor.clone().into_data().iter::<bool>().collect(), dims)
    }
}

/// A tensor in the buffer that it shares with those it is a part of.
fn strided<'a, T: Clone>(tensor: &FlexTensor, data: Cow<'a, [T]>) -> Strided<'a, T> {
    let layout = tensor.layout();
    let (dims, strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    Strided { data, start: layout.start_offset(), dims, strides }
}
