//! Our kernels on a GPU beside the plain path there: time, and the memory that the device reserves.

mod memory;
mod record;
mod work;

use std::path::Path;

use burn::backend::Autodiff;
use burn::backend::wgpu::{
    RuntimeOptions, WgpuDevice, WgpuRuntime,
    graphics::{AutoGraphicsApi, GraphicsApi},
    init_setup,
};
use burn::cubecl::Runtime;
use mha_examples::backend::NoAdapter;
use mha_examples::print::print_line;

use self::record::Record;
use self::work::{Ready, Work};
use crate::{args::Cli, progress::Progress, table};

type B = Autodiff<burn::backend::Wgpu>;

/// Tokens of each sequence.
const LENGTHS: [usize; 3] = [256, 512, 1024];
/// Tokens in a cache.
const CACHED: [usize; 2] = [1024, 4096];
/// Tokens of the training whose memory is measured.
const TRAINED: [usize; 3] = [1024, 2048, 4096];

/// The two ways to compute, ours first.
const PATHS: [mha::Path; 2] = [mha::Path::Fused, mha::Path::Plain];

/// Does what the flags ask for.
///
/// # Errors
///
/// Without an adapter, when a path does not compute the same as the other, or a file cannot be written.
pub(crate) fn run(cli: &Cli) -> Result<(), String> {
    if WgpuRuntime::enumerate_all_devices(&AutoGraphicsApi::backend()).is_empty() {
        return Err(NoAdapter.to_string());
    }
    if let Some(tokens) = cli.reserved_by {
        print_line(format_args!("{}", memory::here(tokens)?));
        return Ok(());
    }
    let setup = init_setup::<AutoGraphicsApi>(&WgpuDevice::default(), RuntimeOptions::default());
    let adapter = setup.adapter.get_info();
    print_line(format_args!(
        "{} ({:?}); f32, d_model {}, {} heads",
        adapter.name,
        adapter.backend,
        crate::case::D_MODEL,
        crate::case::N_HEADS
    ));
    let mut progress = Progress::new();
    let rounds = cli.rounds.unwrap_or(if cli.quick { 3 } else { 5 });
    let mut records = Vec::new();
    for work in all(cli.quick) {
        records.extend(measure(work, rounds, &mut progress)?);
    }
    if !cli.skip_memory {
        for tokens in TRAINED {
            progress.say(format_args!("memory of training on {tokens} tokens"));
            records.push(Record::of_memory(tokens, memory::in_fresh_process(tokens)?));
        }
    }
    progress.end();
    report(&records);
    match &cli.json {
        Some(file) => write(file, &records),
        None => Ok(()),
    }
}

fn all(quick: bool) -> Vec<Work> {
    let lengths = if quick { &LENGTHS[2..] } else { &LENGTHS[..] };
    let mut all: Vec<Work> = lengths
        .iter()
        .flat_map(|&length| {
            [
                Work::Forward { length, causal: false },
                Work::Forward { length, causal: true },
                Work::Gradients { length, causal: false },
                Work::Gradients { length, causal: true },
                Work::TrainStep { length },
            ]
        })
        .collect();
    all.extend(CACHED.into_iter().map(|cached| Work::Decode { cached }));
    all
}

/// Both paths, warmed up, in turns; they must compute the same.
fn measure(work: Work, rounds: usize, progress: &mut Progress) -> Result<[Record; 2], String> {
    progress.say(format_args!("{work}"));
    let mut ready = PATHS.map(|path| Ready::new(work, path));
    let [ours, plain] = ready.each_mut().map(Ready::run);
    if (ours.outcome - plain.outcome).abs() > 1e-3 * plain.outcome.abs().max(1.0) {
        return Err(format!("{work}: fused {}, plain {}", ours.outcome, plain.outcome));
    }
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (ready, seconds) in ready.iter_mut().zip(&mut seconds) {
            seconds.push(ready.run().seconds);
            progress.say(format_args!("{work}"));
        }
    }
    let [ours, plain] = seconds;
    Ok([Record::of_time(work, PATHS[0], &ours), Record::of_time(work, PATHS[1], &plain)])
}

fn report(records: &[Record]) {
    let ms = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| format!("{ms:.1}"));
    let rows = records.chunks_exact(2).filter(|pair| pair[0].median_ms.is_some()).map(|pair| {
        let [ours, plain] = [&pair[0], &pair[1]];
        let times = plain.median_ms.zip(ours.median_ms).map(|(plain, ours)| plain / ours);
        vec![
            ours.title.clone(),
            ms(ours.median_ms),
            ms(plain.median_ms),
            times.map_or("-".to_string(), |times| format!("{times:.2}x")),
        ]
    });
    let times = table::lines(["median ms", "kernels", "plain", "times as fast"], rows.collect());
    let rows = records.iter().filter_map(|record| {
        let [training, idle] = [record.reserved_mb?, record.idle_mb?];
        Some(vec![record.title.clone(), format!("{training:.0}"), format!("{idle:.0}")])
    });
    let head = ["memory that the device reserves, MB", "training", "before"];
    for lines in [times, table::lines(head, rows.collect())] {
        print_line(format_args!(""));
        lines.iter().for_each(|line| print_line(format_args!("{line}")));
    }
}

fn write(file: &Path, records: &[Record]) -> Result<(), String> {
    serde_json::to_string_pretty(records)
        .map_err(|error| error.to_string())
        .and_then(|json| std::fs::write(file, json + "\n").map_err(|error| error.to_string()))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}
