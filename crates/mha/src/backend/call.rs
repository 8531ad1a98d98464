//! One attention call as kernels take it.

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::ops::{BoolTensor, IntTensor};

use crate::attention::Sizes;
use crate::mask::{Frame, Rule};

/// All of a call but the tensors that gradients flow into.
#[derive(Debug, Clone)]
pub struct KernelCall<B: Backend> {
    pub(crate) numbers: Arc<Numbers>,
    /// `true` hides: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    pub(crate) hidden: Vec<BoolTensor<B>>,
    /// The two words that dropout starts from, where it is on.
    pub(crate) seed: Option<IntTensor<B>>,
}

/// What a call has on the host.
#[derive(Debug)]
#[cfg_attr(
    not(any(feature = "ndarray", feature = "flex", feature = "cube")),
    expect(dead_code, reason = "only kernels read it")
)]
pub(crate) struct Numbers {
    /// Keys behind the others that every query sees, without bias and place.
    pub(crate) n_memory: usize,
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    pub(crate) n_heads: usize,
    pub(crate) scale: f64,
    pub(crate) softcap: Option<f64>,
    /// A rule that stands here hides what it hides, unless there is nothing but memory.
    pub(crate) rules: Vec<Rule>,
    pub(crate) frame: Frame,
    /// A slope for each head.
    pub(crate) alibi: Option<Vec<f64>>,
    /// The distance from which on the bias by distance stays the same.
    pub(crate) reach: usize,
    /// Whether every head has a sink of 0.
    pub(crate) quiet: bool,
    /// The probability that a weight is dropped.
    pub(crate) dropout: f64,
    /// What the rules say in runs of keys, once a CPU has asked.
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    pub(crate) runs: std::sync::OnceLock<Option<mha_cpu::Runs>>,
    /// The same for each query of each entry, once a GPU has asked.
    #[cfg(feature = "cube")]
    pub(crate) seen: std::sync::OnceLock<super::rows::Seen>,
}

/// How large a call is.
#[derive(Debug)]
#[cfg_attr(not(feature = "cube"), expect(dead_code, reason = "only devices have limits"))]
pub struct Extent {
    pub(crate) sizes: Sizes,
    pub(crate) n_memory: usize,
    /// The sizes of masks and bias.
    pub(crate) pairs: Vec<[usize; 4]>,
    /// How far a query and a key can stand apart, where distances count.
    pub(crate) farthest: usize,
}

/// A size that is beyond what kernels and device take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    pub(crate) what: &'static str,
    pub(crate) is: u64,
    pub(crate) most: u64,
}

/// What the forward pass left, and the gradient that came back.
#[derive(Debug)]
pub struct Saved<T> {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: T,
    /// `[batch, n_heads, seq_q]`
    pub lse: T,
    /// What else the forward pass kept.
    pub rest: T,
    /// Of the context.
    pub d_context: T,
}
