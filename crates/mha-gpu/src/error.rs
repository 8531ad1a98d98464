//! What a call can be refused for, before anything is launched.

/// Why the kernels do not compute a call.
///
/// # Example
///
/// ```
/// use mha_gpu::Error;
///
/// let error = Error::Limit { what: "head_dim", is: 512, most: 256 };
/// assert_eq!(error.to_string(), "head_dim is 512, more than the 256 that the kernels and this device take");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A size beyond what the kernels or the device can do.
    #[error("{what} is {is}, more than the {most} that the kernels and this device take")]
    Limit {
        /// Which size.
        what: &'static str,
        /// What came.
        is: u64,
        /// The largest that is taken.
        most: u64,
    },
    /// Sizes that do not fit those of the call.
    #[error("{name}: expected {expected:?} ({axes}), got {actual:?}")]
    Shape {
        /// Which argument.
        name: &'static str,
        /// What the sizes mean.
        axes: &'static str,
        /// What the call asks for.
        expected: Vec<usize>,
        /// What came.
        actual: Vec<usize>,
    },
    /// The call has no pair of query and key, and so nothing to launch.
    #[error("a size of the call is 0: there is no pair of query and key")]
    NoPairs,
}
