//! A model from the folder that holds its files.

use std::path::Path;

use burn::{nn::DropoutConfig, tensor::backend::Backend};
use mha::weights::{Checkpoint, Error};

use super::{block::Block, config::Config, embeddings::Embeddings, model::Bert, reader::Reader};

/// A model, and what its file has besides.
#[derive(Debug)]
pub(crate) struct Loaded<B: Backend> {
    pub(crate) model: Bert<B>,
    /// Tensors of the file that the encoder has no use for.
    pub(crate) unused: Vec<String>,
}

impl<B: Backend> Loaded<B> {
    /// Loads the weights in `dir`, or says what is missing or does not fit `config`.
    pub(crate) fn open(dir: &Path, config: &Config, device: &B::Device) -> Result<Self, Error> {
        let checkpoint = Checkpoint::open(dir)?;
        let mut reader = Reader::new(&checkpoint, device);
        let embeddings = embeddings(&mut reader, config)?;
        let blocks = (0..config.n_layers).map(|layer| block(&mut reader, config, layer));
        let model = Bert { embeddings, blocks: blocks.collect::<Result<_, _>>()? };
        let names = checkpoint.store().entries().map(|(name, _)| name);
        let unused = names.filter(|&name| !reader.used.contains(name));
        Ok(Self { model, unused: unused.map(String::from).collect() })
    }
}

fn embeddings<B: Backend>(
    reader: &mut Reader<'_, B>,
    config: &Config,
) -> Result<Embeddings<B>, Error> {
    let &Config { d_model, n_tokens, n_positions, n_types, .. } = config;
    Ok(Embeddings {
        tokens: reader.embedding("embeddings.word_embeddings", n_tokens, d_model)?,
        positions: reader.embedding("embeddings.position_embeddings", n_positions, d_model)?,
        types: reader.embedding("embeddings.token_type_embeddings", n_types, d_model)?,
        norm: reader.norm("embeddings.LayerNorm", d_model, config.epsilon)?,
        dropout: DropoutConfig::new(config.dropout).init(),
    })
}

fn block<B: Backend>(
    reader: &mut Reader<'_, B>,
    config: &Config,
    layer: usize,
) -> Result<Block<B>, Error> {
    let &Config { d_model, d_hidden, epsilon, .. } = config;
    let name = |part: &str| format!("encoder.layer.{layer}.{part}");
    Ok(Block {
        attention: reader.attention(&name("attention"))?,
        attention_norm: reader.norm(&name("attention.output.LayerNorm"), d_model, epsilon)?,
        up: reader.linear(&name("intermediate.dense"), d_model, d_hidden)?,
        down: reader.linear(&name("output.dense"), d_hidden, d_model)?,
        feed_forward_norm: reader.norm(&name("output.LayerNorm"), d_model, epsilon)?,
        dropout: DropoutConfig::new(config.dropout).init(),
    })
}
