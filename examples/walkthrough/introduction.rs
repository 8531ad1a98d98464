//! What goes in, before the first step.

use std::io::{self, Write};

use crate::args::Args;
use crate::numbers::Numbers;
use crate::show;

/// Prints the sentence, the sizes, the origin of the numbers, and X.
pub(crate) fn introduce(
    out: &mut impl Write,
    args: &Args,
    numbers: &Numbers,
    tokens: &[String],
) -> io::Result<()> {
    let (seq, d_model, n_heads) = (tokens.len(), args.d_model, args.heads);
    let [origin, more_origin] = numbers.origin();
    writeln!(out, "Multi-head attention, step by step\n")?;
    writeln!(out, "  sentence   {}   seq {seq}, one token per character", tokens.concat())?;
    writeln!(
        out,
        "  sizes      d_model {d_model}, n_heads {n_heads}, head_dim {d_model} / {n_heads} = {}",
        d_model / n_heads
    )?;
    writeln!(out, "  numbers    {origin}\n             {more_origin}")?;
    writeln!(out, "  backend    {}, in single precision\n", args.backend)?;
    writeln!(
        out,
        "  ({seq}, {d_model}) means {seq} tokens of {d_model} features; no shape shows the batch of one\n"
    )?;
    show::rows(out, "X", tokens, &numbers.x.concat())
}
