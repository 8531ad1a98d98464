//! What a call refuses.

/// Why a call cannot be computed.
///
/// # Example
///
/// ```
/// use mha_cpu::{Error, View};
///
/// let error = View::contiguous(&[1.0_f32; 5], [2, 3]).unwrap_err();
/// assert!(matches!(error, Error::OutOfBounds { .. }));
/// assert_eq!(error.to_string(), "a view of [2, 3] reaches element 5 of a slice of 5");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A view reaches beyond its slice.
    #[error("a view of {dims:?} reaches element {reach} of a slice of {len}")]
    OutOfBounds {
        /// The sizes of the view.
        dims: Vec<usize>,
        /// The element that is not there; negative before the slice.
        reach: i128,
        /// How many elements the slice has.
        len: usize,
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
    /// A number outside of its range.
    #[error("{name} must {expected}, got {actual}")]
    Value {
        /// Which argument.
        name: &'static str,
        /// Its range, in words.
        expected: &'static str,
        /// What came.
        actual: String,
    },
}
