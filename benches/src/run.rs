//! One run, from the flags to the last line.

use std::{fs, path::Path};

use mha_examples::print::print_line;

use crate::{
    agree,
    args::Cli,
    case::{D_MODEL, N_HEADS},
    contestants::{self, Contestant},
    data::Weights,
    headline::headline,
    implementation::Implementation,
    left_out::LeftOut,
    limits::{self, Limits},
    measure, memory,
    only::Only,
    picture,
    plan::Plan,
    progress::Progress,
    record,
    results::Results,
    scratch::Scratch,
    table,
};

/// Does what the flags ask for.
///
/// # Errors
///
/// When nothing fits `--only`, implementations do not compute the same, or a file cannot be written.
pub(crate) fn run(cli: &Cli) -> Result<(), String> {
    if let Some([name, case]) = cli.peak_of.as_deref() {
        let implementation =
            Implementation::named(name).ok_or_else(|| format!("no implementation {name:?}"))?;
        print_line(format_args!("{}", memory::peak_here(implementation, &case.parse()?)?));
        return Ok(());
    }
    let only = Only::new(&cli.only);
    let mut plan = if cli.quick { Plan::quick() } else { Plan::full() };
    plan.rounds = cli.rounds.unwrap_or(plan.rounds);
    let asked = |implementation: &Implementation| {
        plan.cases.iter().any(|case| only.measures(*implementation, case))
    };
    let entries: Vec<_> = Implementation::LAYERS.into_iter().filter(asked).collect();
    let limits_wanted = limits::wanted(&plan, &only);
    if entries.is_empty() && !limits_wanted {
        return Err(format!("nothing fits --only {:?}", cli.only.join("\" --only \"")));
    }
    make_room_for_files(cli)?;

    let mut left_out = LeftOut::default();
    let mut progress = Progress::new();
    let weights = Weights::draw();
    let scratch = Scratch::create(&weights)?;
    let mut present = Vec::new();
    for implementation in entries {
        progress.say(format_args!("looking for {}", implementation.name()));
        match contestants::enter(implementation, &cli.python, cli.threads, &weights, &scratch) {
            Ok(contestant) => present.push(contestant),
            Err(reason) => left_out.add(implementation.name(), "", reason),
        }
    }
    for (implementation, reason) in agree::check(&mut present, &weights, &scratch, &mut progress)? {
        left_out.add(implementation.name(), "", reason);
        present.retain(|contestant| contestant.implementation() != implementation);
    }
    progress.end();
    introduce(cli.threads, &present);

    let mut limits = Limits::default();
    if limits_wanted {
        let failed;
        (limits, failed) = limits::measure(&plan, &only, &mut progress);
        failed.into_iter().for_each(|(name, reason)| left_out.add(name, "", reason));
    }
    let mut results =
        measure::times(&plan, &only, &mut present, &scratch, &mut left_out, &mut progress)?;
    match memory::can_be_measured() {
        _ if cli.skip_memory => {}
        Ok(()) => {
            measure::peaks(&plan, &mut present, &mut results, &mut left_out, &mut progress);
        }
        Err(reason) => left_out.add("peak memory", "", reason),
    }
    progress.end();
    report(&results, &limits, &left_out);
    if let Some(file) = &cli.json {
        record::write(file, &results, &limits)?;
    }
    if let Some(dir) = &cli.pictures {
        picture::save(&results, dir).map_err(|error| error.to_string())?;
    }
    if let Some(line) = headline(&results) {
        print_line(format_args!("{line}"));
    }
    Ok(())
}

/// Finds out before the measurements whether their files have a place.
fn make_room_for_files(cli: &Cli) -> Result<(), String> {
    let parent = cli.json.as_deref().and_then(Path::parent).filter(|dir| *dir != Path::new(""));
    for dir in parent.into_iter().chain(cli.pictures.as_deref()) {
        fs::create_dir_all(dir)
            .map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    }
    Ok(())
}

fn introduce(threads: usize, present: &[Box<dyn Contestant + '_>]) {
    let s = if threads == 1 { "" } else { "s" };
    let versions = present.iter().filter_map(|contestant| contestant.version());
    let versions: String = versions.map(|version| format!(", {version}")).collect();
    print_line(format_args!(
        "{threads} thread{s} for everyone{versions}; f32, d_model {D_MODEL}, {N_HEADS} heads; all \
         compute the same"
    ));
}

fn report(results: &Results, limits: &Limits, left_out: &LeftOut) {
    let blocks = [
        table::times(results),
        table::peaks(results),
        limits::lines(limits, results),
        left_out.lines(),
    ];
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        print_line(format_args!(""));
        block.iter().for_each(|line| print_line(format_args!("{line}")));
    }
    print_line(format_args!(""));
}
