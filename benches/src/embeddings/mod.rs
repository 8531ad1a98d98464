//! Sentences through a whole BERT, and through its attention alone: ours beside transformers.
//!
//! Of our model the attention and the products of the feed-forward networks are `mha`'s; embeddings,
//! norms and what GELU is made of are Burn's. All sentences of a case are equally long, so nothing is
//! padded.

mod here;
mod report;
mod there;
mod work;

use std::path::Path;

use burn::backend::{Flex, NdArray};
use mha_examples::print::print_line;

use self::{here::Here, report::Score, there::There, work::Work};
use crate::{
    args::Cli,
    bert::Config,
    left_out::LeftOut,
    plan::Plan,
    progress::Progress,
    rounds::{self, Player},
    turn::Turn,
};

/// The most that numbers of two implementations may differ, as a share of the largest: a hundred
/// times what f32 rounds in a product of all features.
const TOLERANCE: f64 = 1e-4;

/// A model that does the same work as the others.
trait Entrant {
    fn name(&self) -> &'static str;

    /// Makes it ready.
    fn prepare(&mut self, work: &Work) -> Result<(), String>;

    /// The seconds of each run of a turn.
    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String>;

    /// A vector for each sentence, one behind the other.
    fn outcome(&mut self) -> Result<Vec<f32>, String>;
}

/// Measures the model in `dir`.
///
/// # Errors
///
/// When it cannot be loaded, implementations do not compute the same, or a file cannot be written.
pub(crate) fn run(cli: &Cli, dir: &Path) -> Result<(), String> {
    let mut progress = Progress::new();
    let mut left_out = LeftOut::default();
    let config = Config::read(dir)?;
    let mut entrants: Vec<Box<dyn Entrant>> = vec![
        Box::new(Here::<Flex>::load("mha-flex", dir, &config)?),
        Box::new(Here::<NdArray>::load("mha-ndarray", dir, &config)?),
    ];
    let mut version = String::new();
    for name in there::NAMES {
        progress.say(format_args!("looking for {name}"));
        match There::start(name, &cli.python, cli.threads, dir, &config) {
            Ok(there) => {
                version = format!(", {}", there.version);
                entrants.push(Box::new(there));
            }
            Err(reason) => left_out.add(name, "", reason),
        }
    }
    let mut plan = if cli.quick { Plan::quick() } else { Plan::full() };
    plan.rounds = cli.rounds.unwrap_or(plan.rounds);

    let works: Vec<_> =
        Work::all().into_iter().filter(|work| work.length <= config.n_positions).collect();
    let mut scores = Vec::new();
    for (i, work) in works.iter().enumerate() {
        let title = format!("case {} of {}, {work}", i + 1, works.len());
        scores.extend(measure(work, &title, &mut entrants, &plan, &mut progress)?);
    }
    progress.end();
    print_line(format_args!(
        "{} threads for everyone{version}; f32, {} layers, d_model {}; all compute the same",
        cli.threads, config.n_layers, config.d_model,
    ));
    for block in [report::lines(&scores), left_out.lines()] {
        print_line(format_args!(""));
        block.iter().for_each(|line| print_line(format_args!("{line}")));
    }
    match &cli.json {
        Some(file) => report::write(file, &scores),
        None => Ok(()),
    }
}

/// All entrants in turns, after they were found to compute the same.
fn measure(
    work: &Work,
    title: &str,
    entrants: &mut [Box<dyn Entrant>],
    plan: &Plan,
    progress: &mut Progress,
) -> Result<Vec<Score>, String> {
    let mut first: Option<Vec<f32>> = None;
    for entrant in entrants.iter_mut() {
        let name = entrant.name();
        progress.say(format_args!("{title}: {name}"));
        let named = |error| format!("{work}, {name}: {error}");
        entrant.prepare(work).map_err(named)?;
        let outcome = entrant.outcome().map_err(named)?;
        match &first {
            Some(first) => agree(first, &outcome).map_err(named)?,
            None => first = Some(outcome),
        }
    }
    let mut players: Vec<_> = entrants.iter_mut().map(|one| player(one.as_mut())).collect();
    let taken = rounds::play(title, &mut players, plan, progress);
    drop(players);
    let scores = entrants.iter().zip(taken).map(|(entrant, seconds)| {
        let name = entrant.name();
        let seconds = seconds.map_err(|error| format!("{work}, {name}: {error}"))?;
        Ok(Score { work: *work, name, seconds })
    });
    scores.collect()
}

fn player<'a>(entrant: &'a mut (dyn Entrant + '_)) -> Player<'a> {
    Player { name: entrant.name().to_string(), take_turn: Box::new(|turn| entrant.take_turn(turn)) }
}

fn agree(expected: &[f32], actual: &[f32]) -> Result<(), String> {
    if actual.len() != expected.len() {
        return Err(format!("{} numbers, expected {}", actual.len(), expected.len()));
    }
    let largest = expected.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    let mut differences = expected.iter().zip(actual).map(|(a, b)| f64::from((a - b).abs()));
    let allowed = TOLERANCE * f64::from(largest);
    match differences.find(|difference| *difference > allowed || difference.is_nan()) {
        Some(difference) => Err(format!("differs by {difference:e}, allowed is {allowed:e}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_refused() {
        assert!(agree(&[1.0, -2.0], &[1.0, -2.0001]).is_ok());
        for wrong in [&[1.0, -2.001][..], &[1.0, f32::NAN], &[1.0]] {
            assert!(agree(&[1.0, -2.0], wrong).is_err(), "{wrong:?}");
        }
    }
}
