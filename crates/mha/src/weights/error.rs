//! What can be wrong with a checkpoint.

use super::Family;

/// Why a layer of a checkpoint was not read or written.
///
/// # Example
///
/// ```
/// use mha::weights::{Checkpoint, Error};
///
/// let error = Checkpoint::open("no such folder").unwrap_err();
/// assert!(matches!(error, Error::File(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file itself is damaged, or is none that can be read.
    #[error(transparent)]
    File(#[from] mha_files::Error),
    /// Nothing under a prefix is an attention layer.
    #[error("{prefix:?}: no attention layer of this name; the checkpoint has {there}")]
    #[non_exhaustive]
    NoLayer {
        /// The prefix that was asked for.
        prefix: String,
        /// The prefixes that there are.
        there: String,
    },
    /// A layer lacks tensors.
    #[error("{prefix:?} ({family}): missing {}", names.join(", "))]
    #[non_exhaustive]
    Missing {
        /// The layer.
        prefix: String,
        /// Whose names it has.
        family: Family,
        /// The tensors that are not there.
        names: Vec<String>,
    },
    /// A tensor has another shape than the layer's other tensors and its model ask for.
    #[error("{name}: expected shape {expected:?} ({}), got {actual:?}", axes.join(", "))]
    #[non_exhaustive]
    Shape {
        /// The tensor.
        name: String,
        /// What each axis means.
        axes: Vec<&'static str>,
        /// The shape it must have.
        expected: Vec<usize>,
        /// The shape it has.
        actual: Vec<usize>,
    },
    /// A tensor with other axes than the layer's layout has, or so long that no layer can be.
    #[error(
        "{name}: expected {} axes ({}) of 1 to {longest}, got shape {actual:?}",
        axes.len(),
        axes.join(", ")
    )]
    #[non_exhaustive]
    Axes {
        /// The tensor.
        name: String,
        /// What each axis means.
        axes: Vec<&'static str>,
        /// The longest that an axis can be.
        longest: usize,
        /// The shape it has.
        actual: Vec<usize>,
    },
    /// A number of heads that does not divide the features.
    #[error("{prefix:?}: n_heads must divide the {features} features of all heads, got {n_heads}")]
    #[non_exhaustive]
    Heads {
        /// The layer.
        prefix: String,
        /// Features of all heads together.
        features: usize,
        /// The number of heads that was said.
        n_heads: usize,
    },
    /// A tensor whose elements are no numbers that a parameter can have.
    #[error("{name}: expected elements of {expected}, got {actual}")]
    #[non_exhaustive]
    Dtype {
        /// The tensor.
        name: String,
        /// The element types it may have.
        expected: String,
        /// The element type it has.
        actual: String,
    },
    /// A tensor with an element that is NaN or infinite, or becomes so.
    #[error("{name}: expected finite elements, element {index} is {value}")]
    #[non_exhaustive]
    NotFinite {
        /// The tensor.
        name: String,
        /// The element's place, in row-major order.
        index: usize,
        /// The element.
        value: f64,
    },
    /// What neither the tensors nor a config.json say.
    #[error("{prefix:?} ({family}): {what} not in the file: {remedy}")]
    #[non_exhaustive]
    Unknown {
        /// The layer.
        prefix: String,
        /// Whose names it has.
        family: Family,
        /// What is not known, with its verb: "the number of heads is".
        what: &'static str,
        /// How to say it.
        remedy: String,
    },
    /// A field of config.json that makes no sense.
    #[error("config.json, {field}: expected {expected}, got {actual}")]
    #[non_exhaustive]
    Model {
        /// The field.
        field: String,
        /// What it must be.
        expected: String,
        /// What it is.
        actual: String,
    },
    /// What the module, or the family, has no place for.
    #[error("{family} has no place for {what}")]
    #[non_exhaustive]
    NoPlace {
        /// The family of the layer that is read or written.
        family: Family,
        /// What is left over.
        what: String,
    },
    /// A kind of attention that this module is not.
    #[error("{prefix:?}: {what}")]
    #[non_exhaustive]
    OtherKind {
        /// The layer.
        prefix: String,
        /// What it is.
        what: &'static str,
    },
    /// What follows for the module's configuration cannot be.
    #[error("{prefix:?}: {error}")]
    #[non_exhaustive]
    Config {
        /// The layer.
        prefix: String,
        /// What is wrong.
        error: crate::Error,
    },
}
