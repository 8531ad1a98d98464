//! One step and its line in the table.

use std::fmt;

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};

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
    /// What is done: `project`, `split`, `scores`, `weights`, ...
    pub name: &'static str,
    /// What comes out: `Q`, `K`, `V`, `S`, `P`, ...
    pub symbol: &'static str,
    /// How it is made.
    pub formula: String,
    /// The result.
    pub data: TensorData,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its element type.
    pub dtype: DType,
    /// Its smallest number that is not NaN; +∞ if there is none.
    pub min: f64,
    /// Its largest number that is not NaN; -∞ if there is none.
    pub max: f64,
    /// How many of its numbers are NaN.
    pub nan: usize,
    /// Floating-point operations of the products that made it.
    pub flops: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Step {
    /// A step with this result, which is read from the device.
    pub(super) fn of<B: Backend, const D: usize>(
        name: &'static str,
        symbol: &'static str,
        formula: impl Into<String>,
        result: &Tensor<B, D>,
    ) -> Self {
        let (shape, dtype) = (result.dims(), result.dtype());
        let count: usize = shape.iter().product();
        let data = match count {
            0 => TensorData::new(Vec::<f32>::new(), shape), // Burn's backends refuse to read none
            _ => result.to_data(),
        };
        let (mut min, mut max, mut nan) = (f64::INFINITY, f64::NEG_INFINITY, 0);
        for x in data.iter::<f64>() {
            nan += usize::from(x.is_nan());
            (min, max) = (min.min(x), max.max(x)); // both skip NaN
        }
        let (formula, bytes) = (formula.into(), (count * dtype.size()) as u64);
        let shape = shape.to_vec();
        Self { name, symbol, formula, data, shape, dtype, min, max, nan, flops: 0, bytes }
    }

    /// The numbers of the result, row by row.
    pub fn values(&self) -> Vec<f64> {
        self.data.iter().collect()
    }

    pub(super) fn with_flops(mut self, flops: u64) -> Self {
        self.flops = flops;
        self
    }
}

/// The steps as a table, a line each.
pub(super) fn table(f: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    let head = ["step", "", "formula", "shape", "type", "min", "max", "NaN", "MFLOP"];
    let lines: Vec<[String; 9]> = steps.iter().map(line).collect();
    let widths: [usize; 9] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    });
    let mut write = |cells: [&str; 9]| {
        let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let fill = " ".repeat(width - cell.chars().count());
            if column < 5 { format!("{cell}{fill}") } else { format!("{fill}{cell}") }
        });
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    write(head)?;
    lines.iter().try_for_each(|line| write(line.each_ref().map(String::as_str)))
}

fn line(step: &Step) -> [String; 9] {
    [
        step.name.to_string(),
        step.symbol.to_string(),
        step.formula.clone(),
        format!("{:?}", step.shape),
        format!("{:?}", step.dtype),
        format!("{:.3}", step.min),
        format!("{:.3}", step.max),
        step.nan.to_string(),
        format!("{:.3}", step.flops as f64 / 1e6),
    ]
}
