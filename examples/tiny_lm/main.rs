//! A small decoder-only language model: trains on the characters of a text, then writes, with the
//! key/value cache. `--help` lists the flags.
//!
//! ```text
//! cargo run --release --example tiny_lm
//! cargo run --release --example tiny_lm -- --generate target/tiny_lm --prompt "Once there was"
//! cargo run --release --example tiny_lm --features wgpu
//! ```

mod args;
mod attention;
mod batches;
mod block;
mod corpus;
mod curves;
mod generate;
mod model;
mod progress;
mod sampler;
mod saved;
mod sizes;
mod train;
mod vocabulary;
mod write;

use std::{error::Error, path::Path, process::ExitCode, time::Instant};

use burn::{
    module::Module,
    tensor::backend::{AutodiffBackend, Backend},
};
use clap::Parser;
use mha_examples::{backend::Job, print::print_line};

use crate::{
    args::Cli,
    corpus::Corpus,
    saved::{Config, ModelDir},
    train::Trained,
    vocabulary::Vocabulary,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.backend.run_to_exit(TinyLmJob { cli: &cli })
}

struct TinyLmJob<'a> {
    cli: &'a Cli,
}

impl Job for TinyLmJob<'_> {
    type Output = Result<(), Box<dyn Error>>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        match &self.cli.generate {
            Some(dir) => Ok(write_again::<B::InnerBackend>(self.cli, dir, &device)?),
            None => train_and_write::<B>(self.cli, &device),
        }
    }
}

/// Writes with the model in `dir`.
fn write_again<B: Backend>(cli: &Cli, dir: &Path, device: &B::Device) -> Result<(), String> {
    let (config, model) = ModelDir::load::<B>(dir, device)?;
    let prompt = prompt(cli, &config.characters)?;
    write::write(cli, &model, &config.characters, &prompt, config.sizes.context)
}

fn train_and_write<B: AutodiffBackend>(
    cli: &Cli,
    device: &B::Device,
) -> Result<(), Box<dyn Error>> {
    let Cli { sizes, training, seed, backend, .. } = cli;
    // Whatever can be wrong is found before the training, and before an earlier model is replaced.
    let corpus = Corpus::read(cli.text.as_deref(), sizes.context)?;
    let vocabulary = &corpus.vocabulary;
    let prompt = prompt(cli, vocabulary)?;
    B::seed(device, *seed);
    let model = sizes.try_init::<B>(vocabulary.len(), training.dropout, device)?;
    let dir = ModelDir::prepare(&cli.out)?;
    print_line(format_args!(
        "{} characters to train on, {} held out, {} different; {} parameters",
        corpus.training.len(),
        corpus.validation.len(),
        vocabulary.len(),
        model.num_params(),
    ));

    let begin = Instant::now();
    let Trained { model, curves, validation } = train::train(cli, &corpus, model, device)?;
    let seconds = begin.elapsed().as_secs_f64();
    let config = Config {
        characters: vocabulary.clone(),
        sizes: sizes.clone(),
        training: training.clone(),
        seed: *seed,
        backend: backend.to_string(),
    };
    dir.save(&config, &model)?;
    curves.draw(&cli.out, training.steps)?;
    print_line(format_args!("config, model and picture of the loss: {}", cli.out.display()));

    write::write(cli, &model, vocabulary, &prompt, sizes.context)?;
    print_line(format_args!(
        "validation loss: {validation:.2} nats per character ({backend}, {} steps, {seconds:.1} s)",
        training.steps,
    ));
    Ok(())
}

/// The tokens to write on from.
fn prompt(cli: &Cli, vocabulary: &Vocabulary) -> Result<Vec<i32>, String> {
    let prompt = cli.writing.prompt.clone();
    vocabulary.encode_prompt(&prompt.unwrap_or_else(|| vocabulary.default_prompt()))
}
