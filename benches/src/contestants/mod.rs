//! Whoever takes turns: layers in this process, and libraries in processes of their own.

mod child;
mod here;
mod python;

use std::path::Path;

use crate::{
    case::Case, data::Weights, implementation::Implementation, scratch::Scratch, step::Part,
    turn::Turn,
};

/// An implementation that can be measured.
pub(crate) trait Contestant {
    fn implementation(&self) -> Implementation;

    /// What it is, with its version, where it is not built into this program.
    fn version(&self) -> Option<&str>;

    /// Makes it ready for a case.
    fn prepare(&mut self, case: &Case, tokens: &Tokens) -> Result<(), String>;

    /// The seconds of each run of a turn.
    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String>;

    /// What the prepared case computes.
    fn outcome(&mut self) -> Result<Vec<Part>, String>;

    /// Frees what was prepared.
    fn release(&mut self);

    /// How far one run raises the peak memory of a fresh process, in MB.
    fn peak_mb(&mut self, case: &Case) -> Result<f64, String>;
}

/// The tokens of a case, here and in a file for other processes.
pub(crate) struct Tokens<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) file: &'a Path,
}

/// A contestant that is there, or why it is not.
pub(crate) fn enter<'a>(
    implementation: Implementation,
    python: &'a Path,
    threads: usize,
    weights: &'a Weights,
    scratch: &'a Scratch,
) -> Result<Box<dyn Contestant + 'a>, String> {
    match implementation {
        Implementation::Torch | Implementation::Onnxruntime => {
            Ok(Box::new(python::Python::start(implementation, python, threads, scratch)?))
        }
        _ => Ok(Box::new(here::Here::new(implementation, weights)?)),
    }
}
