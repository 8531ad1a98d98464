//! What is measured of a layer.

use serde::Serialize;

/// What an implementation does with its tokens, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// The whole layer, without gradients.
    Forward,
    /// Forward, mean of squares, backward to the input and to all parameters.
    TrainStep,
    /// One new token, whose query meets the keys of a cache and its own.
    Decode,
}

impl Op {
    pub(crate) const ALL: [Self; 3] = [Self::Forward, Self::TrainStep, Self::Decode];

    /// As the JSON and `--only` have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::TrainStep => "train_step",
            Self::Decode => "decode",
        }
    }
}
