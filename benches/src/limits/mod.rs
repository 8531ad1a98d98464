//! What the machine can do at most, and how near attention alone comes to it.

mod alone;
mod bandwidth;
mod gemm;
mod report;

use crate::{
    implementation::Implementation,
    only::Only,
    op::Op,
    plan::Plan,
    progress::Progress,
    rounds::{self, Player},
    turn,
};

pub(crate) use alone::{Direction, Work};
pub(crate) use gemm::SIDE as GEMM_SIDE;
pub(crate) use report::lines;

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Tokens of the attention.
    pub(crate) length: usize,
    /// Seconds of a large matrix product.
    pub(crate) gemm: Vec<f64>,
    /// Seconds of reading a large vector.
    pub(crate) bandwidth: Vec<f64>,
    /// Seconds of attention alone.
    pub(crate) alone: Vec<(Implementation, Work, Vec<f64>)>,
}

/// What a player's seconds are seconds of.
enum What {
    Gemm,
    Bandwidth,
    Alone(Implementation, Work),
}

/// Whether any of this is asked for; decoding is compared with the memory.
pub(crate) fn wanted(plan: &Plan, only: &Only) -> bool {
    let ours = || Implementation::LAYERS.into_iter().filter(|one| one.is_ours());
    let decodes = plan.cases.iter().filter(|case| case.op == Op::Decode);
    let mut pairs = decodes.flat_map(|case| ours().map(move |one| (one, case)));
    only.fits(Implementation::GemmLimit.name())
        || ours().any(|one| Work::all().any(|work| only.fits(&name(one, work, plan))))
        || pairs.any(|(one, case)| only.measures(one, case))
}

/// As `--only` meets it.
fn name(implementation: Implementation, work: Work, plan: &Plan) -> String {
    format!("{} 1x{} attention {work}", implementation.name(), plan.alone)
}

/// Measures all in turn. What fails comes back with the reason.
pub(crate) fn measure(
    plan: &Plan,
    only: &Only,
    progress: &mut Progress,
) -> (Limits, Vec<(String, String)>) {
    let mut limits = Limits { length: plan.alone, ..Limits::default() };
    let mut players = Vec::new();
    let gemm = Implementation::GemmLimit.name();
    let mut enter = |what, name: String, run: Box<dyn FnMut() -> Result<f64, String>>| {
        // The percentages need the two limits.
        let needed = !matches!(what, What::Alone(..));
        if only.fits(&name) || needed {
            players.push((what, player(name, run)));
        }
    };
    enter(What::Gemm, gemm.to_string(), Box::new(gemm::product()));
    enter(What::Bandwidth, "memory-bandwidth".to_string(), Box::new(bandwidth::read()));
    for implementation in Implementation::LAYERS.into_iter().filter(|one| one.is_ours()) {
        for work in Work::all() {
            enter(
                What::Alone(implementation, work),
                name(implementation, work, plan),
                alone::run_of(implementation, work, plan.alone),
            );
        }
    }
    let (whats, mut players): (Vec<_>, Vec<_>) = players.into_iter().unzip();
    let scores = rounds::play("limits of the machine", &mut players, plan, progress);
    let mut failed = Vec::new();
    for ((what, player), score) in whats.into_iter().zip(players).zip(scores) {
        match (what, score) {
            (_, Err(reason)) => failed.push((player.name, reason)),
            (What::Gemm, Ok(seconds)) => limits.gemm = seconds,
            (What::Bandwidth, Ok(seconds)) => limits.bandwidth = seconds,
            (What::Alone(implementation, work), Ok(seconds)) => {
                limits.alone.push((implementation, work, seconds));
            }
        }
    }
    (limits, failed)
}

fn player(name: String, mut run: Box<dyn FnMut() -> Result<f64, String>>) -> Player<'static> {
    Player { name, take_turn: Box::new(move |turn| turn::take_turn(&mut run, turn)) }
}
