//! Lines on standard output.

use std::{
    fmt,
    io::{self, Write},
};

/// `println!` would end the run with a panic when the reader of a pipe goes away.
pub fn print_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
