//! Flex: a buffer of bytes, and a layout with strides and a start.

use std::borrow::Cow;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::ops::{BoolTensor, FloatTensor};
use burn::tensor::{BoolStore, DType, Element, TensorData};
use bytemuck::Pod;

use super::InPlace;
use super::cpu::{CpuBackend, Storage};
use super::strided::Strided;

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

impl InPlace for Flex {
    fn put(store: FloatTensor<Self>, start: usize, tokens: FloatTensor<Self>) -> FloatTensor<Self> {
        let whole = store.is_contiguous() && store.layout().start_offset() == 0;
        match store.dtype() {
            DType::F32 if whole => write::<f32>(store, start, &tokens),
            DType::F64 if whole => write::<f64>(store, start, &tokens),
            _ => super::in_place::put::<Self>(store, start, tokens),
        }
    }
}

/// Writes tokens over a row-major store. Burn's own `slice_assign` holds the store twice while it
/// writes, and so copies it.
fn write<T: Element + Pod>(mut store: FlexTensor, start: usize, tokens: &FlexTensor) -> FlexTensor {
    let [_, room, heads, features] = store.layout().shape().dims();
    let [batch, n, _, _] = tokens.layout().shape().dims();
    let row = heads * features;
    let tokens = tokens.to_contiguous();
    let from = &tokens.storage::<T>()[tokens.layout().start_offset()..];
    let to = store.storage_mut::<T>();
    for b in 0..batch {
        let from = &from[b * n * row..][..n * row];
        to[(b * room + start) * row..][..n * row].copy_from_slice(from);
    }
    store
}

/// A tensor in the buffer that it shares with those it is a part of.
fn strided<'a, T: Clone>(tensor: &FlexTensor, data: Cow<'a, [T]>) -> Strided<'a, T> {
    let layout = tensor.layout();
    let (dims, strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    Strided { data, start: layout.start_offset(), dims, strides }
}
