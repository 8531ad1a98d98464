//! The copy task: random symbols, a separator, then blanks over which to repeat the symbols.
//!
//! ```text
//! input   c a d b | _ _ _ _
//! target            c a d b
//! ```
//!
//! A blank tells only its position, so whatever stands there in the output was carried over by
//! attention.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use mha_examples::random::SplitMix64;

/// The sizes of the task and the seed of its sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyTask {
    pub(crate) vocabulary: usize,
    /// Symbols to copy.
    pub(crate) length: usize,
    pub(crate) seed: u64,
}

/// What sequences are for. Each split draws from a stream of its own: of the 16^10 sequences that
/// the default sizes allow, a test sequence was trained on with a probability of about 1e-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    Train,
    Valid,
    Test,
}

/// Some sequences.
#[derive(Clone, Debug)]
pub(crate) struct CopyBatch<B: Backend> {
    /// `[batch, 2 * length + 1]`
    pub(crate) tokens: Tensor<B, 2, Int>,
    /// What belongs over the blanks, `[batch, length]`.
    pub(crate) targets: Tensor<B, 2, Int>,
}

impl CopyTask {
    /// The symbols, the separator and the blank.
    pub(crate) fn n_tokens(&self) -> usize {
        self.vocabulary + 2
    }

    /// Tokens of a sequence: the symbols, the separator, as many blanks.
    pub(crate) fn seq(&self) -> usize {
        2 * self.length + 1
    }

    /// The batch at `index` of an epoch, a function of these arguments and the seed alone.
    pub(crate) fn batch<B: Backend>(
        &self,
        split: Split,
        epoch: usize,
        index: usize,
        size: usize,
        device: &B::Device,
    ) -> CopyBatch<B> {
        let targets = self.symbols(split, epoch, index, size);
        let (separator, blank) = (self.vocabulary as i32, self.vocabulary as i32 + 1);
        let mut tokens = Vec::with_capacity(size * self.seq());
        for symbols in targets.chunks(self.length) {
            tokens.extend_from_slice(symbols);
            tokens.push(separator);
            tokens.extend(std::iter::repeat_n(blank, self.length));
        }
        CopyBatch {
            tokens: Tensor::from_data(TensorData::new(tokens, [size, self.seq()]), device),
            targets: Tensor::from_data(TensorData::new(targets, [size, self.length]), device),
        }
    }

    fn symbols(&self, split: Split, epoch: usize, index: usize, size: usize) -> Vec<i32> {
        let mut random =
            SplitMix64::from_words([self.seed, split as u64, epoch as u64, index as u64]);
        (0..size * self.length).map(|_| random.below(self.vocabulary as u64) as i32).collect()
    }

    /// What a person reads for `token`: a letter, `|` for the separator, `_` for a blank.
    pub(crate) fn label(&self, token: usize) -> String {
        match token {
            token if token == self.vocabulary => "|".to_string(),
            token if token > self.vocabulary => "_".to_string(),
            token if self.vocabulary <= 26 => char::from(b'a' + token as u8).to_string(),
            token => token.to_string(),
        }
    }
}
