//! Sentences compared by what they mean: the encoder all-MiniLM-L6-v2 (6 layers, 384 features, 12
//! heads), its attention loaded into `mha::MultiHeadAttention`. `--help` lists the flags.
//!
//! ```text
//! bash examples/sentence_embeddings/fetch.sh
//! cargo run --release --example sentence_embeddings -- "A dog barks." "The hound is loud."
//! cargo run --release --example sentence_embeddings -- --heads 1 "The cat sat on the mat."
//! ```

mod args;
mod bert;
mod check;
mod encoder;
mod heads;
mod table;
mod word_pieces;

use std::{error::Error, process::ExitCode};

use burn::tensor::backend::{AutodiffBackend, Backend};
use clap::Parser;
use mha_examples::{backend::Job, print::print_line};

use crate::{args::Cli, encoder::Encoder};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.backend.run_to_exit(Embed { cli: &cli })
}

struct Embed<'a> {
    cli: &'a Cli,
}

impl Job for Embed<'_> {
    type Output = Result<(), Box<dyn Error>>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        // Nothing is trained here, so the backend without gradients will do.
        run::<B::InnerBackend>(self.cli, device)
    }
}

fn run<B: Backend>(cli: &Cli, device: B::Device) -> Result<(), Box<dyn Error>> {
    let encoder = Encoder::<B>::open(&cli.model()?, device)?;
    let layers = encoder.model.blocks.len();
    if let Some(layer) = cli.heads.filter(|&layer| layer > layers) {
        return Err(format!("--heads must be from 1 to {layers}, got {layer}").into());
    }
    print_line(format_args!("{}", encoder.description()));
    if let Some(fixture) = &cli.check {
        return check::check(&encoder, fixture);
    }
    let sentences = cli.sentences();
    let embeddings = encoder.embed(&sentences)?;
    print_line(format_args!(""));
    for line in table::similarities(&sentences, &embeddings) {
        print_line(format_args!("{line}"));
    }
    match cli.heads {
        Some(layer) => heads::draw(&encoder, layer, &sentences[0], &cli.out),
        None => Ok(()),
    }
}
