//! How numbers and shapes look on the page.

use std::io::{self, Write};

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use mha::Explanation;
use mha_examples::columns::{display_width, pad_right};

/// Columns of the terminal that the page takes.
const WIDTH: usize = 78;

/// How many features of a token and how many tokens are printed at most.
const MAX_FEATURES: usize = 8;
const MAX_ROWS: usize = 16;

/// How many heads are printed at most.
pub(crate) const MAX_HEADS: usize = 8;

/// A rule across the page with a title on the left and the shapes on the right.
pub(crate) fn heading(out: &mut impl Write, title: &str, shapes: &str) -> io::Result<()> {
    let used = display_width(&format!("── {title}  {shapes} ──"));
    let rule = "─".repeat(WIDTH.saturating_sub(used));
    writeln!(out, "\n── {title} {rule} {shapes} ──")
}

/// The shape of a batch of one without the batch: `(7, 2, 4)`.
pub(crate) fn shape<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> String {
    without_batch(&tensor.dims())
}

/// A shape without its first axis, the batch of one.
pub(crate) fn without_batch(shape: &[usize]) -> String {
    let sizes: Vec<_> = shape[1..].iter().map(usize::to_string).collect();
    format!("({})", sizes.join(", "))
}

/// Every step of a call, a line each, and what the call took.
pub(crate) fn table<B: Backend>(
    out: &mut impl Write,
    explanation: &Explanation<B>,
) -> io::Result<()> {
    writeln!(out, "  step         result                    shape           min      max    FLOP")?;
    for step in &explanation.steps {
        let what = pad_right(&format!("{} = {}", step.symbol, step.formula), 26);
        let shape = without_batch(&step.shape);
        let (min, max, flops) = (step.min, step.max, step.flops);
        writeln!(out, "  {:<13}{what}{shape:<11}{min:>8.3} {max:>8.3} {flops:>7}", step.name)?;
    }
    let (flops, bytes) = (explanation.flops(), explanation.bytes());
    writeln!(out, "  in all {flops} FLOP and {bytes} bytes; path: {}", explanation.path)
}

/// A line of numbers after a label.
pub(crate) fn row(out: &mut impl Write, label: &str, values: &[f64]) -> io::Result<()> {
    let shown = values.iter().take(MAX_FEATURES).map(|x| format!("{x:>8.3}"));
    let more = if values.len() > MAX_FEATURES { " …" } else { "" };
    writeln!(out, "  {}{}{more}", pad_right(label, 10), shown.collect::<String>())
}

/// A line of numbers per token; `values` is `[tokens, features]`.
pub(crate) fn rows(
    out: &mut impl Write,
    name: &str,
    tokens: &[String],
    values: &[f64],
) -> io::Result<()> {
    let features = values.len() / tokens.len();
    for (token, values) in tokens.iter().zip(values.chunks(features)).take(MAX_ROWS) {
        row(out, &format!("{name} {token}"), values)?;
    }
    rest(out, tokens.len(), MAX_ROWS, "tokens")
}

/// Says what was left out when only the first `shown` of `all` were printed.
pub(crate) fn rest(out: &mut impl Write, all: usize, shown: usize, what: &str) -> io::Result<()> {
    if all > shown { writeln!(out, "  … the first {shown} of {all} {what}") } else { Ok(()) }
}

/// A difference in two digits; a mere 0 when there is none.
pub(crate) fn scientific(x: f64) -> String {
    if x == 0.0 { "0".into() } else { format!("{x:.1e}") }
}
