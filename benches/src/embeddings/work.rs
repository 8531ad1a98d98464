//! What is measured.

use std::fmt;

use mha_examples::random::SplitMix64;
use serde::Serialize;

/// How much of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// Tokens to vectors of length 1.
    Embed,
    /// The attention of each layer with its projections, on the tokens that come to the first.
    Attend,
}

/// A part of the model on sentences of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) part: Part,
    /// Sentences at once.
    pub(crate) batch: usize,
    /// Tokens of each.
    pub(crate) length: usize,
}

impl Work {
    /// The whole model first.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for part in [Part::Embed, Part::Attend] {
            for batch in [1, 32] {
                all.extend([16, 64, 256].map(|length| Self { part, batch, length }));
            }
        }
        all
    }

    /// Ids of tokens below `n_tokens`: `[batch, length]`.
    pub(crate) fn tokens(&self, n_tokens: usize) -> Vec<Vec<u32>> {
        let mut random = SplitMix64::from_words([self.batch as u64, self.length as u64]);
        let mut sentence =
            || (0..self.length).map(|_| random.below(n_tokens as u64) as u32).collect();
        (0..self.batch).map(|_| sentence()).collect()
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Embed => "whole model",
            Part::Attend => "attention alone",
        };
        write!(f, "{part}, {} x {}", self.batch, self.length)
    }
}
