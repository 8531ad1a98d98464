//! From sentences to word pieces, as the model's `tokenizer.json` says.

use std::{fs, io, path::Path};

use burn::tensor::backend::Backend;
use serde::Deserialize;
use tokenizers::{Encoding, PostProcessor, Tokenizer, TruncationParams};

use crate::bert::{Batch, Config};

/// The tokenizer of a model.
#[derive(Clone, Debug)]
pub(crate) struct WordPieces {
    tokenizer: Tokenizer,
    padding: u32,
}

/// What sentence-transformers keeps beside a model.
#[derive(Deserialize)]
struct SentenceConfig {
    /// Word pieces of which a longer sentence is cut.
    max_seq_length: usize,
}

impl WordPieces {
    /// Reads `DIR/tokenizer.json`, or says why it does not go with `config`.
    pub(crate) fn open(dir: &Path, config: &Config) -> Result<Self, String> {
        let file = dir.join("tokenizer.json");
        let shown = file.display();
        let bytes = fs::read(&file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let mut tokenizer = Tokenizer::from_bytes(bytes)
            .map_err(|error| format!("{shown} describes no tokenizer: {error}"))?;
        let highest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0) as usize;
        if highest >= config.n_tokens {
            return Err(format!(
                "{shown} has a word piece {highest}, which a vocab_size of {} does not reach",
                config.n_tokens
            ));
        }
        let max_length = longest(dir)?.unwrap_or(usize::MAX).min(config.n_positions);
        let around = tokenizer.get_post_processor().map_or(0, |one| one.added_tokens(false));
        if max_length <= around {
            return Err(format!(
                "{shown} puts {around} word pieces around a sentence, of which the model reads \
                 {max_length}"
            ));
        }
        // Batches are padded where their lengths are known.
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(Some(TruncationParams { max_length, ..Default::default() }))
            .map_err(|error| format!("{shown} cannot cut to {max_length} word pieces: {error}"))?;
        Ok(Self { tokenizer, padding: config.padding })
    }

    /// The sentences, the shorter ones padded.
    pub(crate) fn batch<B: Backend>(
        &self,
        sentences: &[impl AsRef<str>],
        device: &B::Device,
    ) -> Result<Batch<B>, String> {
        let ids: Result<Vec<_>, _> = sentences.iter().map(|one| self.ids(one.as_ref())).collect();
        Ok(Batch::new(&ids?, self.padding, device))
    }

    /// The ids of a sentence's word pieces, at least one.
    pub(crate) fn ids(&self, sentence: &str) -> Result<Vec<u32>, String> {
        Ok(self.encode(sentence)?.get_ids().to_vec())
    }

    /// A sentence's word pieces, to be read.
    pub(crate) fn names(&self, sentence: &str) -> Result<Vec<String>, String> {
        Ok(self.encode(sentence)?.get_tokens().to_vec())
    }

    fn encode(&self, sentence: &str) -> Result<Encoding, String> {
        match self.tokenizer.encode(sentence, true) {
            Ok(encoding) if encoding.is_empty() => {
                Err(format!("the tokenizer makes no word piece of {sentence:?}"))
            }
            Ok(encoding) => Ok(encoding),
            Err(error) => Err(format!("the tokenizer cannot read {sentence:?}: {error}")),
        }
    }
}

/// Where sentence-transformers cuts a sentence, if its file is there.
fn longest(dir: &Path) -> Result<Option<usize>, String> {
    let file = dir.join("sentence_bert_config.json");
    let shown = file.display();
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| format!("cannot read {shown}: {error}"))?,
    };
    let config: SentenceConfig = serde_json::from_str(&text)
        .map_err(|error| format!("{shown} does not say where sentences are cut: {error}"))?;
    Ok(Some(config.max_seq_length))
}
