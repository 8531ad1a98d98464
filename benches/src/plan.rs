//! Which cases a run measures, and how thoroughly.

use crate::{
    case::{Case, Visible},
    op::Op,
};

/// What one run does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cases: Vec<Case>,
    /// Cases whose peak memory is measured too.
    pub(crate) peaks: Vec<Case>,
    /// Turns that each implementation has in a case.
    pub(crate) rounds: usize,
    /// Seconds of an implementation in a case after which its turns end early, once it has had
    /// [`LEAST_ROUNDS`].
    pub(crate) seconds: f64,
    /// Tokens over which attention alone is measured.
    pub(crate) alone: usize,
}

/// A median of fewer turns would say little.
pub(crate) const LEAST_ROUNDS: usize = 3;

/// The keys that a query sees in a case with a window.
pub(crate) const WINDOW: usize = 256;

impl Plan {
    /// Every case.
    pub(crate) fn full() -> Self {
        let mut cases = Vec::new();
        for (batch, length) in [(4, 128), (1, 1024), (8, 512), (1, 4096), (1, 16_384)] {
            for op in [Op::Forward, Op::TrainStep] {
                let mut add = |visible| cases.push(Case::new(op, batch, length, visible));
                add(Visible::All);
                add(Visible::Causal);
                if length > 4 * WINDOW {
                    add(Visible::Window(WINDOW));
                }
            }
        }
        cases.extend([512, 2048, 4096, 8192, 32_768].map(Case::decode));
        Self { peaks: cases.clone(), cases, rounds: 7, seconds: 20.0, alone: 4096 }
    }

    /// A look at every kind of case, in two minutes on two cores with nothing else to do.
    pub(crate) fn quick() -> Self {
        let full = |op, batch, length| Case::new(op, batch, length, Visible::All);
        let cases = vec![
            full(Op::Forward, 4, 128),
            full(Op::TrainStep, 4, 128),
            full(Op::Forward, 1, 1024),
            full(Op::TrainStep, 1, 1024),
            Case::new(Op::Forward, 1, 1024, Visible::Causal),
            full(Op::Forward, 1, 4096),
            Case::decode(512),
            Case::decode(4096),
        ];
        let peaks = vec![full(Op::Forward, 1, 4096)];
        Self { cases, peaks, rounds: LEAST_ROUNDS, seconds: 2.0, alone: 1024 }
    }
}
