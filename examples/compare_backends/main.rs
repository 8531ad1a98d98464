//! The same weights and inputs through every backend and path that is compiled in, held against plain
//! loops in f64: output, gradients, time and memory. `--help` lists the flags.
//!
//! ```text
//! cargo run --release --example compare_backends
//! cargo run --release --example compare_backends --features flex,wgpu
//! cargo run --release --example compare_backends -- --config my_module.json --markdown
//! ```

mod args;
mod compare;
mod judge;
mod memory;
mod progress;
mod record;
mod report;
mod subject;
mod table;
mod timing;
mod user_file;

use std::{error::Error, path::Path, process::ExitCode};

use clap::Parser;
use mha_examples::print::print_line;
use mha_tests::{Layer, Yardstick};

use crate::{
    args::Args,
    compare::{Compare, Outcome},
    progress::Progress,
    report::Report,
    subject::Subject,
};

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(report) if report.passes() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<Report, Box<dyn Error>> {
    let backends = args.backends();
    backends.iter().try_for_each(|backend| backend.available())?;
    let subjects = match &args.config {
        Some(file) => vec![user_file::read(file, backends[0])?],
        None => table::subjects(),
    };

    let mut report = Report { backends: backends.len(), ..Report::default() };
    let progress = Progress::new(subjects.len());
    for (index, subject) in subjects.iter().enumerate() {
        progress.show(index, &subject.case.name);
        for outcome in compare_everywhere(subject, args)? {
            match outcome {
                Outcome::Compared(record) => report.records.push(record),
                Outcome::LeftOut(reason) => report.left_out.push(reason),
            }
        }
    }
    drop(progress);

    let lines = if args.markdown { report.markdown() } else { report.text() };
    lines.iter().chain([&report.last_line()]).for_each(|line| print_line(format_args!("{line}")));
    if let Some(file) = &args.json {
        write_json(&report, file)?;
    }
    Ok(report)
}

/// One configuration on every backend and path.
fn compare_everywhere(subject: &Subject, args: &Args) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let yardstick = Yardstick::of_module(&subject.case, subject.neighbours());
    if !yardstick.is_exact() {
        return Err(
            format!("{}: the results are not numbers in f64 either", subject.case.name).into()
        );
    }
    let layer = Layer::new(&subject.case);
    let mut outcomes = Vec::new();
    for backend in args.backends() {
        let compare = Compare { subject, backend, layer: &layer, yardstick: &yardstick };
        outcomes.extend(backend.run(compare)??);
    }
    Ok(outcomes)
}

fn write_json(report: &Report, file: &Path) -> Result<(), String> {
    let json = format!("{:#}\n", report.json());
    std::fs::write(file, json).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
