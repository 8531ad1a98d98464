//! What a backend does to a tensor where it lies, of which Burn's own operation may make a copy.

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Shape, Slice, Tensor, TensorMetadata, TensorPrimitive};

/// Burn's operations, unless a backend has better. The functions' names are none of Burn's.
pub trait InPlace: Backend {
    /// As many elements in another shape, where they lie if they can.
    fn reshape(tensor: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        Self::float_reshape(tensor, shape)
    }

    /// The first `n` of the second of four axes, where they lie if they can.
    fn first(tensor: FloatTensor<Self>, n: usize) -> FloatTensor<Self> {
        first::<Self>(tensor, n)
    }

    /// `tokens` written over `store` from `start` of the second axis on, in place if nobody else holds
    /// it: `[batch, n, heads, features]` over `[batch, room, heads, features]`.
    fn put(store: FloatTensor<Self>, start: usize, tokens: FloatTensor<Self>) -> FloatTensor<Self> {
        put::<Self>(store, start, tokens)
    }
}

/// [`InPlace::first`] as Burn has it, which is a copy on NdArray.
pub(super) fn first<B: Backend>(tensor: FloatTensor<B>, n: usize) -> FloatTensor<B> {
    let tensor = Tensor::<B, 4>::from_primitive(TensorPrimitive::Float(tensor));
    tensor.narrow(1, 0, n).into_primitive().tensor()
}

/// [`InPlace::put`] as Burn has it, which copies all of the store on Flex.
pub(super) fn put<B: Backend>(
    store: FloatTensor<B>,
    start: usize,
    tokens: FloatTensor<B>,
) -> FloatTensor<B> {
    let [batch, n, heads, features] = tokens.shape().dims();
    let all = [0..batch, start..start + n, 0..heads, 0..features];
    B::float_slice_assign(store, &all.map(Slice::from), tokens)
}
