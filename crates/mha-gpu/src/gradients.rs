//! What the backward pass is given, asked for, and gives.

use cubecl::server::Handle;

use crate::Strided;

/// What the forward pass left, and the gradient that came back.
///
/// # Example
///
/// ```
/// use mha_gpu::{Output, Saved, Strided};
///
/// fn saved(output: Output, context: Strided, d_context: Strided) -> Saved {
///     Saved { context, d_context, statistics: output.statistics }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Saved {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: Strided,
    /// The gradient of the context.
    pub d_context: Strided,
    /// As the forward pass gave them.
    pub statistics: Handle,
}

/// Which gradients are wanted.
///
/// # Example
///
/// ```
/// let wanted = mha_gpu::Wanted { query: true, ..Default::default() };
/// assert!(!wanted.bias);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of the queries.
    pub query: bool,
    /// Of the keys.
    pub key: bool,
    /// Of the values.
    pub value: bool,
    /// Of the bias, if there is one.
    pub bias: bool,
    /// Of the biases by distance, if there are any.
    pub relative: bool,
    /// Of the learned sinks, if there are any.
    pub sink: bool,
}

/// The gradients that were wanted, row-major; those of bias, relative and sink are f32.
///
/// # Example
///
/// ```
/// assert!(mha_gpu::Gradients::default().query.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gradients {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: Option<Handle>,
    /// `[batch, n_keys, n_kv_heads, head_dim]`
    pub key: Option<Handle>,
    /// `[batch, n_keys, n_kv_heads, value_dim]`
    pub value: Option<Handle>,
    /// As the bias.
    pub bias: Option<Handle>,
    /// As the table.
    pub relative: Option<Handle>,
    /// `[n_heads]`
    pub sink: Option<Handle>,
}
