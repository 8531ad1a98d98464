//! Trains a small transformer on the copy task; `--help` lists the flags.
//!
//! ```text
//! cargo run --release --example train_copy
//! cargo run --release --example train_copy --features wgpu
//! ```

mod args;
mod checkpoint;
mod epochs;
mod loader;
mod log_file;
mod metric_log;
mod model;
mod renderer;
mod report;
mod run_dir;
mod task;
mod train;

use std::{error::Error, process::ExitCode, time::Instant};

use burn::{module::Module, tensor::backend::AutodiffBackend};
use clap::Parser;
use mha_examples::{backend::Job, print::print_line};

use crate::{args::Cli, checkpoint::FileFormat};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.backend.run_to_exit(TrainAndTest { cli: &cli })
}

struct TrainAndTest<'a> {
    cli: &'a Cli,
}

impl Job for TrainAndTest<'_> {
    type Output = Result<(), Box<dyn Error>>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        let Cli { hyper, backend, min_accuracy, .. } = self.cli;
        let begin = Instant::now();
        let (model, dir) = train::train::<B>(self.cli, &device)?;
        let seconds = begin.elapsed().as_secs_f64();

        let accuracy = report::test_accuracy(&model, hyper.task(), hyper.batch_size, &device);
        report::draw_curves(dir.path(), hyper.epochs())?;
        report::draw_attention(&model, hyper.task(), dir.path(), &device)?;
        model.save_file(dir.path().join("model"), &FileFormat::default())?;
        let dir = dir.path().display();
        print_line(format_args!("config, checkpoints, metrics, model and pictures: {dir}"));
        print_line(format_args!(
            "copy accuracy: {accuracy:.2} % on {} unseen sequences ({backend}, {} steps, \
             {seconds:.1} s)",
            report::TEST_SEQUENCES,
            hyper.steps,
        ));
        if accuracy < *min_accuracy {
            return Err(format!(
                "the copy accuracy of {accuracy:.2} % is below the {min_accuracy} % that \
                 --min-accuracy asks for"
            )
            .into());
        }
        Ok(())
    }
}
