//! What a module computes with besides its parameters.

use crate::attention::{Masking, Path};
use crate::widths::Widths;
use crate::{Gate, Position, Sink};

/// Fixed when the module is built; records do not hold it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) widths: Widths,
    pub(crate) scale: Option<f64>,
    pub(crate) softcap: Option<f64>,
    pub(crate) dropout: f64,
    pub(crate) sink: Sink,
    pub(crate) position: Position,
    pub(crate) gate: Gate,
    pub(crate) qk_norm: bool,
    pub(crate) bias_kv: usize,
    pub(crate) masking: Masking,
    pub(crate) path: Path,
}
