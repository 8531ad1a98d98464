//! Attention in the plainest loops: the reference that every path is tested against.
//!
//! Run in f64 it is the exact answer. Run in f32 it is the textbook formula in the precision of
//! the paths under test, and its own error says how exact a path can be asked to be.
//!
//! [`Attention`] is the middle of an attention module; around it lie [`linear()`], [`Norm`],
//! [`rotate`] and [`gate()`]. Each has its gradients beside it. Tensors are row-major vectors.

mod attention;
#[cfg(test)]
mod check;
mod gate;
mod linear;
mod norm;
mod rotary;

pub use crate::attention::Sizes;
pub use attention::{Attention, Gradients, Output};
pub use gate::{gate, gate_backward};
pub use linear::{linear, linear_backward};
pub use norm::Norm;
use num_traits::Float;
pub use rotary::{rotate, rotate_backward};

/// All index tuples below `dims`, the last axis fastest.
fn places<const D: usize>(dims: [usize; D]) -> Vec<[usize; D]> {
    let count = dims.iter().product();
    let place = |mut rest: usize| {
        let mut place = [0; D];
        for axis in (0..D).rev() {
            place[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        place
    };
    (0..count).map(place).collect()
}

fn sum<T: Float>(terms: impl Iterator<Item = T>) -> T {
    terms.fold(T::zero(), |total, term| total + term)
}

fn number<T: Float>(x: f64) -> T {
    T::from(x).expect("f32 and f64 hold every number up to rounding")
}
