//! What there is to say about how a family stores a layer; `forms.rs` says it.

use super::Family;
use crate::RotaryLayout;

/// What one projection's features are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Query,
    Key,
    Value,
    Output,
    Gate,
}

/// One stored weight or bias, and the projections whose features lie in it.
#[derive(Debug)]
pub(crate) struct Pack {
    /// The name below the layer's prefix.
    pub(crate) name: &'static str,
    pub(crate) parts: &'static [Part],
}

/// How a weight's axes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axes {
    /// `[out, in]`, as in PyTorch's `Linear`.
    OutIn,
    /// `[in, out]`, as in Burn's.
    InOut,
    /// `[in, heads, head_dim]`, and `[heads, head_dim, out]` for the output.
    Heads,
}

/// How the features of the parts of a pack follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// All of the first part, then all of the second.
    Blocks,
    /// Head by head, in each the first part, then the second.
    PerHead,
}

/// A family's names and layout, or one of several that it has.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) family: Family,
    pub(crate) weights: &'static [Pack],
    pub(crate) biases: &'static [Pack],
    /// Which projections have a bias, of query, key, value and output: the sets that there are, the
    /// smallest first. None: any, each for itself.
    pub(crate) bias_sets: &'static [[bool; 4]],
    pub(crate) axes: Axes,
    pub(crate) order: Order,
    /// Other parameters, by name, and where they go.
    pub(crate) others: &'static [(&'static str, &'static str)],
    /// Which channels turn together in what is written for the family, where it has rotary positions. A
    /// file that is read may differ: its model says.
    pub(crate) rotary: Option<RotaryLayout>,
    /// What may lie below the prefix, changes the result, and has no place in the module.
    pub(crate) refused: &'static [&'static str],
}
