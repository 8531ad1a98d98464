//! Multi-head attention of several libraries side by side, measured in one run.
//!
//! ```text
//! cargo run --release -p mha-bench -- --quick
//! cargo run --release -p mha-bench --features candle -- --python venv/bin/python --json out.json
//! cargo run --release -p mha-bench -- --only "mha 1x4096" --only "torch 1x4096"
//! cargo run --release -p mha-bench -- --model ~/.cache/mha/all-MiniLM-L6-v2 --python venv/bin/python
//! ```
//!
//! Ours and `burn::nn`'s on Burn's NdArray and Flex, candle's with its feature, PyTorch's and ONNX
//! Runtime's where a Python has them (in a process of their own, which times itself): whatever is
//! missing is named and left out. All have the same weights, tokens and number of threads. Before
//! anything is timed they must agree on small cases, gradients included.
//!
//! What is timed is the whole layer, projections included, in f32 with 512 features and 8 heads. A
//! training step is forward, mean of squares, backward to the tokens and all parameters; no optimizer
//! and no dropout. The implementations take turns, so that whatever else the machine does slows them
//! alike; the table has medians. Peak memory comes from a fresh process for each figure.
//!
//! With `--model` it is sentences through a whole BERT, and through its attention alone, beside
//! transformers.

mod agree;
mod args;
mod case;
mod contestants;
mod data;
mod embeddings;
#[cfg(feature = "wgpu")]
mod gpu;
mod headline;
mod implementation;
mod layers;
mod left_out;
mod limits;
mod measure;
mod memory;
mod only;
mod op;
mod picture;
mod plan;
mod process;
mod progress;
mod record;
mod results;
mod rounds;
mod run;
mod scratch;
mod statistics;
mod step;
mod table;
mod threads;
mod turn;

// The model of the example `sentence_embeddings`, as it stands there.
#[allow(
    dead_code,
    reason = "only the example looks at the heads, pads sentences and lists tensors"
)]
#[path = "../../examples/sentence_embeddings/bert/mod.rs"]
mod bert;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "wgpu")]
    if cli.backend == args::On::Wgpu {
        return ended(cli.check_for_gpu().and_then(|()| gpu::run(&cli)));
    }
    if !threads::are_set(cli.threads) {
        return threads::run_again_with(cli.threads).unwrap_or_else(|error| ended(Err(error)));
    }
    ended(match &cli.model {
        Some(model) => embeddings::run(&cli, model),
        None => run::run(&cli),
    })
}

/// What the program says of it: nothing, or the error.
fn ended(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
