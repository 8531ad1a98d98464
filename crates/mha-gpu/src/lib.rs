//! Exact attention as CubeCL kernels, tile by tile, forward and backward, on any GPU.
//!
//! Nothing of size `seq_q × seq_k` is stored: a unit holds some rows in registers and meets the keys
//! and values, or the queries, a tile at a time (Dao et al. 2022, FlashAttention,
//! <https://arxiv.org/abs/2205.14135>). Sums are taken in a fixed order, without atomics: the same
//! input gives the same bits. Scores, weights and sums are f32, also where tensors hold f16.
//!
//! The tensors of a [`Call`] are where its client's device has them. No operation on subgroups is
//! asked of the device, and no more than eight buffers: what WebGPU promises is enough.
//!
//! # Example
//!
//! ```
//! use cubecl::prelude::Runtime;
//! use mha_gpu::{Call, Element, Strided, forward};
//!
//! // One query of a head of 4 features, and two keys with the same score.
//! fn mean<R: Runtime>(device: &R::Device) -> Result<Vec<f32>, mha_gpu::Error> {
//!     let client = R::client(device);
//!     let rows = |numbers: &[f32], seq: usize| {
//!         let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
//!         Strided::contiguous(client.create_from_slice(&bytes), [1, seq, 1, 4])
//!     };
//!     let (zeros, values) = ([0.0; 8], [1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 6.0]);
//!     let call =
//!         Call::new(Element::F32, rows(&zeros[..4], 1), rows(&zeros, 2), rows(&values, 2));
//!     let output = forward(&client, &call)?;
//!     let bytes = client.read_one(output.context).expect("the device answers");
//!     Ok(bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect())
//! }
//! // On a device: mean::<R>(&device) is [2.0, 3.0, 4.0, 5.0].
//! ```

#[expect(unsafe_code, reason = "CubeCL checks no place that a kernel reads or writes")]
mod backward;
mod call;
mod device;
mod error;
#[expect(unsafe_code, reason = "CubeCL checks no place that a kernel reads or writes")]
mod forward;
mod gradients;
#[expect(unsafe_code, reason = "CubeCL checks no place that a kernel reads or writes")]
mod launch;
mod limits;
#[expect(unsafe_code, reason = "CubeCL checks no place that a kernel reads or writes")]
mod side;
mod spans;
#[cfg(all(test, feature = "wgpu"))]
mod tests;

pub use backward::backward;
pub use call::{
    Bools, Call, Dropout, Element, Hidden, Positions, Relative, Segments, Sink, Strided, Visible,
};
pub use error::Error;
pub use forward::{Output, forward};
pub use gradients::{Gradients, Saved, Wanted};
pub use limits::{Size, fits};
