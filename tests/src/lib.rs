//! What the tests share: one table of cases, the oracle of a whole module, and how results are
//! compared.

mod backends;
mod cases;
mod compare;
mod layer;
mod numbers;

pub use backends::{AnyBackend, bools, floats, tensor};
pub use cases::{Case, Mask, cases};
pub use compare::{
    as_accurate_as_textbook, assert_as_accurate_as_textbook, assert_close, assert_same, largest,
    max_error, wide,
};
pub use layer::{Layer, LayerGradients};
pub use numbers::{coins, numbers};

/// The code in the README runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
