//! A layer in this process.

use super::{Contestant, Tokens};
use crate::{
    case::{Case, Visible},
    data::{self, Weights},
    implementation::Implementation,
    layers, memory,
    op::Op,
    step::{Part, Step},
    turn::{self, Turn},
};

pub(super) struct Here<'a> {
    implementation: Implementation,
    weights: &'a Weights,
    step: Option<Box<dyn Step>>,
}

impl<'a> Here<'a> {
    /// Also tries whether the layer was compiled in.
    pub(super) fn new(
        implementation: Implementation,
        weights: &'a Weights,
    ) -> Result<Self, String> {
        let case = Case::new(Op::Forward, 1, 1, Visible::All);
        layers::prepare(implementation, &case, weights, &data::tokens(&case))?;
        Ok(Self { implementation, weights, step: None })
    }

    fn step(&mut self) -> Result<&mut Box<dyn Step>, String> {
        self.step.as_mut().ok_or_else(|| "no case is prepared".into())
    }
}

impl Contestant for Here<'_> {
    fn implementation(&self) -> Implementation {
        self.implementation
    }

    fn version(&self) -> Option<&str> {
        None
    }

    fn prepare(&mut self, case: &Case, tokens: &Tokens) -> Result<(), String> {
        self.release();
        let step = layers::prepare(self.implementation, case, self.weights, tokens.values)?;
        self.step = Some(step);
        Ok(())
    }

    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String> {
        let step = self.step()?;
        turn::take_turn(|| step.run(), turn)
    }

    fn outcome(&mut self) -> Result<Vec<Part>, String> {
        self.step()?.outcome()
    }

    fn release(&mut self) {
        self.step = None;
    }

    fn peak_mb(&mut self, case: &Case) -> Result<f64, String> {
        memory::peak_in_fresh_process(self.implementation, case)
    }
}
