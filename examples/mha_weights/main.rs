//! Attention layers in other libraries' files of weights: which there are, the same file under other
//! names, and whether a layer computes what its own library does. `--help` lists the commands.
//!
//! ```text
//! cargo run --release --example mha-weights -- inspect llama/model.safetensors
//! cargo run --release --example mha-weights -- convert encoder.pt --heads 8 --to mha encoder.safetensors
//! cargo run --release --example mha-weights -- verify llama --against case.safetensors
//! ```

mod args;
mod convert;
mod differences;
mod fixture;
mod group;
mod inspect;
mod kept;
mod open;
mod parameters;
mod progress;
mod traits;
mod verify;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Inspect(args) => status(inspect::inspect(&args)),
        Command::Convert(args) => status(convert::convert(&args)),
        Command::Verify(args) => verify::verify(&args),
    }
}

fn status(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
