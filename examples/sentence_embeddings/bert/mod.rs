//! A BERT encoder for sentences, as a user would build it on `mha`: sizes from the model's
//! `config.json`, weights from its tensor file, sentences in as word pieces, vectors out.
//!
//! Devlin et al. 2018: <https://arxiv.org/abs/1810.04805>; the mean over tokens is Reimers and
//! Gurevych 2019, section 3: <https://arxiv.org/abs/1908.10084>.

mod batch;
mod block;
mod chunks;
mod config;
mod embeddings;
pub(crate) mod gelu;
mod load;
mod model;
mod reader;

pub(crate) use batch::Batch;
pub(crate) use config::Config;
pub(crate) use load::Loaded;
pub(crate) use model::Bert;
