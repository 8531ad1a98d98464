//! The command line.

use std::path::PathBuf;

use clap::Parser;
use mha_examples::{backend::BackendName, flags::from_1_to};

/// Compares sentences by what they mean, with the encoder all-MiniLM-L6-v2.
///
/// Prints the cosine of every two sentences: near 1 where they mean the same, near 0 where they have
/// nothing to do with each other.
#[derive(Debug, Parser)]
#[command(name = "sentence_embeddings", version, args_override_self = true)]
pub(crate) struct Cli {
    /// The sentences [default: a few that come with the example]
    #[arg(value_name = "SENTENCE")]
    pub(crate) sentences: Vec<String>,

    /// Folder of the model: model.safetensors, config.json and tokenizer.json [default:
    /// ~/.cache/mha/all-MiniLM-L6-v2, where fetch.sh puts it]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// Draw what each head of this layer, counted from 1, looks at in the first sentence
    #[arg(long, value_name = "LAYER", value_parser = from_1_to(1000))]
    pub(crate) heads: Option<usize>,

    /// Directory of the picture
    #[arg(long, value_name = "DIR", default_value = "target/sentence_embeddings")]
    pub(crate) out: PathBuf,

    /// Compare with what another implementation computed, as fixture.py wrote it down, and exit with
    /// status 1 if a number differs by more than rounding
    #[arg(long, value_name = "FIXTURE", conflicts_with_all = ["sentences", "heads", "out"])]
    pub(crate) check: Option<PathBuf>,

    /// Where the tensors live
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendName,
}

/// What is compared without sentences on the command line.
const SENTENCES: [&str; 6] = [
    "A man is playing a guitar on the street.",
    "Someone makes music outdoors.",
    "The stock market fell sharply on Monday.",
    "Shares lost a lot of their value at the beginning of the week.",
    "How do I get to the railway station?",
    "Which way is it to the trains?",
];

impl Cli {
    /// The folder of the model.
    pub(crate) fn model(&self) -> Result<PathBuf, String> {
        if let Some(dir) = &self.model {
            return Ok(dir.clone());
        }
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
        let cache = cache.ok_or("there is no home folder to look in: give --model")?;
        Ok(cache.join("mha/all-MiniLM-L6-v2"))
    }

    /// The sentences to compare, at least one.
    pub(crate) fn sentences(&self) -> Vec<String> {
        match self.sentences.is_empty() {
            true => SENTENCES.map(String::from).to_vec(),
            false => self.sentences.clone(),
        }
    }
}
