//! One step and its line in the table.

use std::fmt;

use burn::tensor::{Tensor, backend::Backend};

/// One step of a call.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MhaInput, MultiHeadAttentionConfig, Step};
///
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let input = MhaInput::self_attn(Tensor::ones([1, 5, 8], &device));
/// let explanation = attention.explain(&input).unwrap();
/// let Step { shape, max, .. } = explanation.step("weights").unwrap();
/// assert_eq!(shape[..], [1, 2, 5, 5]);
/// assert!((max - 0.2).abs() < 1e-6); // equal tokens, equal weights
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// What is done.
    pub name: &'static str,
    /// How, and what comes out.
    pub formula: String,
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// The element type of the result.
    pub dtype: String,
    /// The smallest number of the result that is not NaN; +∞ if there is none.
    pub min: f64,
    /// The largest number of the result that is not NaN; -∞ if there is none.
    pub max: f64,
    /// How many numbers of the result are NaN.
    pub nan: usize,
    /// Floating-point operations of its products.
    pub flops: u64,
    /// Bytes of the result.
    pub bytes: u64,
}

impl Step {
    /// A step with this result, which is read from the device.
    pub(super) fn of<B: Backend, const D: usize>(
        name: &'static str,
        formula: impl Into<String>,
        result: &Tensor<B, D>,
    ) -> Self {
        let dtype = result.dtype();
        let mut step = Self {
            name,
            formula: formula.into(),
            shape: result.dims().to_vec(),
            dtype: format!("{dtype:?}"),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            nan: 0,
            flops: 0,
            bytes: (result.shape().num_elements() * dtype.size()) as u64,
        };
        if result.shape().num_elements() > 0 {
            for x in result.to_data().iter::<f64>() {
                step.nan += usize::from(x.is_nan());
                (step.min, step.max) = (step.min.min(x), step.max.max(x)); // both skip NaN
            }
        }
        step
    }

    pub(super) fn with_flops(mut self, flops: u64) -> Self {
        self.flops = flops;
        self
    }
}

/// The steps as a table, a line each.
pub(super) fn table(f: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    let head = ["step", "formula", "shape", "type", "min", "max", "NaN", "MFLOP"];
    let lines: Vec<[String; 8]> = steps.iter().map(line).collect();
    let widths: [usize; 8] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    });
    let mut write = |cells: [&str; 8]| {
        let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let fill = " ".repeat(width - cell.chars().count());
            if column < 4 { format!("{cell}{fill}") } else { format!("{fill}{cell}") }
        });
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    write(head)?;
    lines.iter().try_for_each(|line| write(line.each_ref().map(String::as_str)))
}

fn line(step: &Step) -> [String; 8] {
    [
        step.name.to_string(),
        step.formula.clone(),
        format!("{:?}", step.shape),
        step.dtype.clone(),
        format!("{:.3}", step.min),
        format!("{:.3}", step.max),
        step.nan.to_string(),
        format!("{:.3}", step.flops as f64 / 1e6),
    ]
}
