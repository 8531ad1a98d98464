//! What is wrong with a configuration, an input or a record, in words and as data.

/// Why a configuration, an input or a record was refused.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::MultiHeadAttentionConfig;
///
/// let error = MultiHeadAttentionConfig::new(10, 4)
///     .try_init::<NdArray>(&Default::default())
///     .unwrap_err();
/// assert_eq!(error.to_string(), "n_heads must divide d_model, got n_heads 4 and d_model 10");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that no module can be built or called with.
    #[error("{name} must {expected}, got {actual}")]
    #[non_exhaustive]
    Value {
        /// The field or argument.
        name: &'static str,
        /// What it must do or be, as the end of "must ...".
        expected: String,
        /// The value that came.
        actual: String,
    },
    /// A tensor of the wrong shape.
    #[error(
        "{name}: expected shape {expected:?} ({}){}, got {actual:?}",
        axes.join(", "),
        if *broadcast { ", each axis may also be 1" } else { "" }
    )]
    #[non_exhaustive]
    Shape {
        /// The argument or parameter.
        name: String,
        /// What each axis means.
        axes: Vec<&'static str>,
        /// The shape it must have.
        expected: Vec<usize>,
        /// Whether an axis may be 1 and stand for all of its positions.
        broadcast: bool,
        /// The shape that came.
        actual: Vec<usize>,
    },
    /// A tensor of the wrong element type.
    #[error("{name}: expected dtype {expected} as {like} has, got {actual}")]
    #[non_exhaustive]
    DType {
        /// The argument.
        name: &'static str,
        /// The tensor it must agree with.
        like: &'static str,
        /// The element type it must have.
        expected: String,
        /// The element type that came.
        actual: String,
    },
    /// A tensor that lives on another device.
    #[error("{name}: expected on device {expected} where {like} is, got {actual}")]
    #[non_exhaustive]
    Device {
        /// The argument.
        name: &'static str,
        /// The tensor it must share a device with.
        like: &'static str,
        /// The device it must be on.
        expected: String,
        /// The device it is on.
        actual: String,
    },
    /// A record with a parameter too many or too few.
    #[error("{name}: expected {expected}, the record has {actual}")]
    #[non_exhaustive]
    Record {
        /// The parameter's path, as in `query.bias`.
        name: String,
        /// What the module has there: `a parameter` or `none`.
        expected: &'static str,
        /// What the record has there: `one` or `none`.
        actual: &'static str,
    },
}

impl Error {
    pub(crate) fn value(
        name: &'static str,
        expected: impl Into<String>,
        actual: impl ToString,
    ) -> Self {
        Self::Value { name, expected: expected.into(), actual: actual.to_string() }
    }

    /// [`value`](Self::value) for a real number.
    pub(crate) fn number(name: &'static str, expected: impl Into<String>, actual: f64) -> Self {
        Self::value(name, expected, short(actual))
    }
}

/// A number with an exponent where it would have a row of zeros without: 1e300 has 300.
pub(crate) fn short(number: f64) -> String {
    let plain = number.to_string();
    if plain.len() > 20 { format!("{number:e}") } else { plain }
}

/// Checks that a tensor has exactly the shape `expected`.
pub(crate) fn check_shape<const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    actual: [usize; D],
) -> Result<(), Error> {
    let fits = expected == actual;
    if fits { Ok(()) } else { Err(shape_error(name, axes, expected, actual, false)) }
}

/// [`check_shape`] for what has no `try_` twin.
#[track_caller]
pub(crate) fn expect_shape<const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    actual: [usize; D],
) {
    check_shape(name, axes, expected, actual).unwrap_or_else(|error| panic!("{error}"));
}

/// Checks that a tensor has the shape `expected`, where any of its axes may also be 1.
pub(crate) fn check_broadcast<const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    actual: [usize; D],
) -> Result<(), Error> {
    let fits = expected.iter().zip(&actual).all(|(&e, &a)| a == e || a == 1);
    if fits { Ok(()) } else { Err(shape_error(name, axes, expected, actual, true)) }
}

fn shape_error<const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    actual: [usize; D],
    broadcast: bool,
) -> Error {
    Error::Shape {
        name: name.to_string(),
        axes: axes.to_vec(),
        expected: expected.to_vec(),
        broadcast,
        actual: actual.to_vec(),
    }
}
