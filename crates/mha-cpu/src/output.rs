//! What forward and backward return.

use crate::View;

/// What [`forward`](crate::forward) returns.
///
/// # Example
///
/// ```
/// use mha_cpu::{Call, Output, View, forward};
///
/// let one = View::contiguous(&[1.0_f64], [1, 1, 1, 1])?;
/// let Output { context, lse, .. } = forward(&Call::new(one, one, one))?;
/// assert_eq!((context[0], lse[0]), (1.0, 1.0));
/// # Ok::<(), mha_cpu::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Output<T> {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: Vec<T>,
    /// The log-sum-exp of each query's scores, which counts the sink; -∞ if there is nothing to
    /// count: `[batch, n_heads, seq_q]`.
    pub lse: Vec<T>,
    /// What rounding took from `lse`, for the backward pass: weights are computed from the sum of
    /// both.
    pub rest: Vec<T>,
}

/// What [`backward`](crate::backward) needs of the forward pass, and of what came after it.
///
/// # Example
///
/// ```
/// use mha_cpu::{Call, Output, Saved, View, Wanted, backward, forward};
///
/// let one = View::contiguous(&[1.0_f32], [1, 1, 1, 1])?;
/// let call = Call::new(one, one, one);
/// let output = forward(&call)?;
/// let context = View::contiguous(&output.context, [1, 1, 1, 1])?;
/// let Output { lse, rest, .. } = &output;
/// let saved = Saved { context, lse, rest, d_context: one };
/// let gradients = backward(&call, &saved, Wanted { value: true, ..Wanted::NOTHING })?;
/// assert_eq!(gradients.value, Some(vec![1.0]));
/// # Ok::<(), mha_cpu::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Saved<'a, T> {
    /// [`Output::context`]: `[batch, seq_q, n_heads, value_dim]`
    pub context: View<'a, T, 4>,
    /// [`Output::lse`]
    pub lse: &'a [T],
    /// [`Output::rest`]
    pub rest: &'a [T],
    /// The gradient of the context: `[batch, seq_q, n_heads, value_dim]`.
    pub d_context: View<'a, T, 4>,
}

/// Which gradients [`backward`](crate::backward) computes.
///
/// # Example
///
/// ```
/// use mha_cpu::Wanted;
///
/// assert!(Wanted::ALL.query && !Wanted::NOTHING.query);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Of the queries.
    pub query: bool,
    /// Of the keys.
    pub key: bool,
    /// Of the values.
    pub value: bool,
    /// Of the bias.
    pub bias: bool,
    /// Of the table of the bias by distance.
    pub relative: bool,
    /// Of the sinks.
    pub sink: bool,
}

impl Wanted {
    /// All that the call has.
    pub const ALL: Self =
        Self { query: true, key: true, value: true, bias: true, relative: true, sink: true };
    /// None.
    pub const NOTHING: Self =
        Self { query: false, key: false, value: false, bias: false, relative: false, sink: false };

    /// Whether something is that the gradients of scores lead to; the value's do not.
    pub(crate) fn needs_d_scores(&self) -> bool {
        self.query || self.key || self.bias || self.relative
    }
}

/// What [`backward`](crate::backward) returns: a gradient for everything that was wanted and that the
/// call has, each row-major in the sizes that its tensor came with.
///
/// # Example
///
/// ```
/// let gradients = mha_cpu::Gradients::<f32>::default();
/// assert_eq!(gradients.query, None);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gradients<T> {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: Option<Vec<T>>,
    /// `[batch, n_keys, n_kv_heads, head_dim]`
    pub key: Option<Vec<T>>,
    /// `[batch, n_keys, n_kv_heads, value_dim]`
    pub value: Option<Vec<T>>,
    /// In the bias' own sizes: summed over the axes that were repeated.
    pub bias: Option<Vec<T>>,
    /// `[n_heads, 2 reach + 1]`
    pub relative: Option<Vec<T>>,
    /// `[n_heads]`
    pub sink: Option<Vec<T>>,
}
