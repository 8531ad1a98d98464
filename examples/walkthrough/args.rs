//! The command line.

use clap::Parser;
use mha_examples::backend::BackendName;

use crate::fixture::Fixture;

/// The most tokens and the widest token: beyond them the reference in plain loops takes seconds.
const MAX_TOKENS: usize = 128;
const MAX_D_MODEL: usize = 512;

/// Multi-head attention on one short sentence, a step at a time.
#[derive(Debug, Parser)]
#[command(name = "walkthrough")]
pub(crate) struct Args {
    /// The sentence; each character is a token
    #[arg(long, value_name = "TEXT", default_value = Fixture::SENTENCE)]
    pub(crate) sentence: String,

    /// The number of heads; it divides d_model
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) heads: usize,

    /// The number of features of a token
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) d_model: usize,

    /// Where the tensors live
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendName,
}

impl Args {
    /// A label for each token: its character, or a sign for one that cannot be seen.
    pub(crate) fn tokens(&self) -> Result<Vec<String>, String> {
        let count = self.sentence.chars().count();
        if self.sentence.trim().is_empty() {
            return Err("--sentence must have at least one visible character".into());
        }
        if count > MAX_TOKENS {
            return Err(format!(
                "--sentence must have at most {MAX_TOKENS} characters, got {count}"
            ));
        }
        let label = |c: char| match c {
            c if c.is_whitespace() => '␣',
            c if c.is_control() => '�',
            c => c,
        };
        Ok(self.sentence.chars().map(|c| label(c).to_string()).collect())
    }

    /// Refuses sizes that no layer has, in the words of the command line and before a GPU starts.
    pub(crate) fn check_sizes(&self) -> Result<(), String> {
        let Self { heads, d_model, .. } = self;
        if !(1..=MAX_D_MODEL).contains(d_model) {
            return Err(format!("--d-model must be from 1 to {MAX_D_MODEL}, got {d_model}"));
        }
        // No number but 0 is a multiple of 0, so this refuses 0 heads too.
        if !d_model.is_multiple_of(*heads) {
            return Err(format!("--heads must divide --d-model, got {heads} and {d_model}"));
        }
        Ok(())
    }
}
