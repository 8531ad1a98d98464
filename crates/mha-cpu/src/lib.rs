//! Exact attention on slices, tile by tile, forward and backward, for CPUs.
//!
//! Nothing of size `seq_q` × `seq_k` is stored: scores live in tiles that fit the cache, and the
//! backward pass computes them again from the log-sum-exp that the forward pass left (Dao et al. 2022,
//! <https://arxiv.org/abs/2205.14135>). Results are the same bits whatever the number of threads: work
//! is split by the size of the problem.
//!
//! No tensor library is needed: arguments are [`View`]s of slices. The crate `mha` brings these
//! kernels to Burn's backends.
//!
//! # Conventions
//!
//! - Tensors are `[batch, seq, heads, features]`.
//! - A query that sees no key gets zeros, and zero gradients.
//! - A key that no query sees may hold anything, NaN too.

mod arena;
mod backward;
mod bias;
mod buffers;
mod call;
mod decode;
mod dropout;
mod error;
mod extra;
mod forward;
mod linear;
mod machine;
mod mask;
#[cfg(test)]
mod naive;
mod output;
mod product;
mod real;
mod seen;
mod simd;
mod softmax;
#[cfg(test)]
mod tests;
mod tile;
mod transpose;
mod view;

pub use bias::{Positions, Relative};
pub use buffers::{free_buffers, recycle};
pub use call::Call;
pub use dropout::Dropout;
pub use error::Error;
pub use linear::{linear, linear_backward};
pub use mask::{Mask, Runs, Segments};
pub use output::{Gradients, Output, Saved, Wanted};
pub use real::Real;
pub use simd::Isa;
pub use view::View;

/// softmax(Q Kᵀ · scale + bias) V, head by head, and the log-sum-exp of each query's scores
/// (Vaswani et al. 2017, section 3.2.1: <https://arxiv.org/abs/1706.03762>).
///
/// # Errors
///
/// When sizes do not fit, or a number is out of its range.
pub fn forward<T: Real>(call: &Call<'_, T>) -> Result<Output<T>, Error> {
    forward_on(Isa::best(), call)
}

/// [`forward`] with the instructions of a certain set.
///
/// # Errors
///
/// As [`forward`].
///
/// # Panics
///
/// When this machine does not have them.
pub fn forward_on<T: Real>(isa: Isa, call: &Call<'_, T>) -> Result<Output<T>, Error> {
    T::forward(isa, call)
}

/// The gradients of what is wanted, given that of the context.
///
/// # Errors
///
/// When sizes do not fit, or a number is out of its range.
pub fn backward<T: Real>(
    call: &Call<'_, T>,
    saved: &Saved<'_, T>,
    wanted: Wanted,
) -> Result<Gradients<T>, Error> {
    backward_on(Isa::best(), call, saved, wanted)
}

/// [`backward`] with the instructions of a certain set.
///
/// # Errors
///
/// As [`backward`].
///
/// # Panics
///
/// When this machine does not have them.
pub fn backward_on<T: Real>(
    isa: Isa,
    call: &Call<'_, T>,
    saved: &Saved<'_, T>,
    wanted: Wanted,
) -> Result<Gradients<T>, Error> {
    T::backward(isa, call, saved, wanted)
}
