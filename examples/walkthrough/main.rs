//! Multi-head attention on one short sentence, a step at a time: every formula, every shape.
//!
//! `cargo run --release --example walkthrough`

mod args;
mod attend;
mod draw;
mod facts;
mod fixture;
mod introduction;
mod layer;
mod numbers;
mod reference;
mod show;
mod steps;
mod tensors;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use args::Args;
use burn::tensor::backend::{AutodiffBackend, Backend};
use clap::Parser;
use mha_examples::backend::Job;
use numbers::Numbers;
use reference::Reference;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_left(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn Error>> {
    args.check_sizes()?;
    let tokens = args.tokens()?;
    args.backend.run(Walk { args, tokens })??;
    Ok(())
}

struct Walk {
    args: Args,
    tokens: Vec<String>,
}

impl Job for Walk {
    type Output = io::Result<()>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        // Nothing is trained here, so the backend without gradients will do.
        walk::<B::InnerBackend>(&self.args, &self.tokens, &device, &mut io::stdout().lock())
    }
}

fn walk<B: Backend>(
    args: &Args,
    tokens: &[String],
    device: &B::Device,
    out: &mut impl Write,
) -> io::Result<()> {
    let numbers = Numbers::choose(&args.sentence, args.d_model);
    let layer = layer::with_weights::<B>(args.heads, &numbers, device);
    let x = tensors::tensor::<B>(&numbers.x, device).unsqueeze::<3>(); // a batch of one
    let reference = Reference::choose(&numbers, args.heads);

    introduction::introduce(out, args, &numbers, tokens)?;
    let result = steps::five(out, &layer, x.clone(), tokens)?;
    reference.compare(out, &result, &tokens[0])?;
    facts::parameters::<B>(out, args.d_model, args.heads, device)?;
    facts::stack(out, &layer, x)?;

    let difference = show::scientific(reference.largest_difference(&result));
    writeln!(out, "\nlargest difference from the {}: {difference}", reference.name)
}

/// Whether whoever read our output has seen enough, as in `walkthrough | head`.
fn reader_left(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
