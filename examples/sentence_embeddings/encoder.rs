//! Sentences to vectors: the tokenizer and the model of one folder.

use std::{error::Error, path::Path};

use burn::{module::Module, tensor::backend::Backend};

use crate::{
    bert::{Bert, Config, Loaded},
    word_pieces::WordPieces,
};

/// Sentences that go through the model together.
const BATCH: usize = 32;

/// What is read from a model's folder.
#[derive(Debug)]
pub(crate) struct Encoder<B: Backend> {
    pub(crate) model: Bert<B>,
    pub(crate) word_pieces: WordPieces,
    /// Tensors of the folder that embeddings have no use for.
    unused: Vec<String>,
    pub(crate) device: B::Device,
}

impl<B: Backend> Encoder<B> {
    /// Reads the folder, or says in a sentence what is wrong with it.
    pub(crate) fn open(dir: &Path, device: B::Device) -> Result<Self, Box<dyn Error>> {
        if !dir.is_dir() {
            return Err(format!(
                "there is no folder {}: give a model's with --model, or fetch one with \
                 examples/sentence_embeddings/fetch.sh",
                dir.display()
            )
            .into());
        }
        let config = Config::read(dir)?;
        let word_pieces = WordPieces::open(dir, &config)?;
        let Loaded { model, unused } = Loaded::open(dir, &config, &device)?;
        Ok(Self { model, word_pieces, unused, device })
    }

    /// Sizes of the model, and what of its file is not used.
    pub(crate) fn description(&self) -> String {
        let (layers, parameters) = (self.model.blocks.len(), self.model.num_params());
        let unused = match self.unused.is_empty() {
            true => "nothing".to_string(),
            false => self.unused.join(", "),
        };
        format!("{layers} layers, {parameters} parameters; not used: {unused}")
    }

    /// A vector of length 1 for each sentence.
    pub(crate) fn embed(&self, sentences: &[String]) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
        let mut embeddings = Vec::with_capacity(sentences.len());
        for sentences in sentences.chunks(BATCH) {
            embeddings.extend(self.embed_together(sentences)?);
        }
        Ok(embeddings)
    }

    /// [`embed`](Self::embed) in one batch, however many there are.
    pub(crate) fn embed_together(
        &self,
        sentences: &[impl AsRef<str>],
    ) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
        let batch = self.word_pieces.batch(sentences, &self.device)?;
        let embeddings = self.model.embed(&batch);
        let [_, d_model] = embeddings.dims();
        let numbers = embeddings.into_data().convert::<f32>().into_vec::<f32>()?;
        Ok(numbers.chunks(d_model).map(<[f32]>::to_vec).collect())
    }
}
