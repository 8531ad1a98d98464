//! The command line.

#[cfg(feature = "wgpu")]
use std::path::Path;
use std::{fmt, path::PathBuf};

use clap::{Parser, ValueEnum};
use mha_examples::flags::from_1_to;

use crate::threads;

/// Measures multi-head attention of several libraries side by side, the whole layer in f32, on the
/// CPU: time, memory, and how near it comes to what the machine can do.
#[derive(Clone, Debug, Parser)]
#[command(name = "mha-bench", version, args_override_self = true)]
pub(crate) struct Cli {
    /// What to measure on: the CPU beside other libraries, or a GPU beside the plain path there
    #[arg(long, default_value_t, value_enum)]
    pub(crate) backend: On,

    /// A look at every kind of case, in two minutes
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only what has all these words in its name, such as "torch 1x4096 forward full",
    /// "flex decode" or "attention"; given again, that too
    #[arg(long, value_name = "WORDS", action = clap::ArgAction::Append)]
    pub(crate) only: Vec<String>,

    /// Threads of every implementation
    #[arg(long, default_value_t = threads::available(), value_parser = from_1_to(1024))]
    pub(crate) threads: usize,

    /// The Python that has PyTorch, or ONNX Runtime and onnx; those that it cannot import are left
    /// out
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub(crate) python: PathBuf,

    /// Turns of every implementation in every case; slow ones may have fewer, but never under 3
    /// [default: 7, or 3 with --quick]
    #[arg(long, value_parser = from_1_to(1000))]
    pub(crate) rounds: Option<usize>,

    /// Do not measure peak memory
    #[arg(long)]
    pub(crate) skip_memory: bool,

    /// Write all measurements to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write pictures of time and memory against length to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) pictures: Option<PathBuf>,

    /// Measure sentences through the BERT in this folder and through its attention alone, beside
    /// transformers, in place of one layer
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["backend", "only", "skip_memory", "pictures"],
    )]
    pub(crate) model: Option<PathBuf>,

    /// Measure the peak memory of one implementation in one case, in this process
    #[arg(long, hide = true, num_args = 2, value_names = ["NAME", "CASE"])]
    pub(crate) peak_of: Option<Vec<String>>,

    /// Measure the device memory that training on so many tokens reserves, in this process
    #[cfg(feature = "wgpu")]
    #[arg(long, hide = true)]
    pub(crate) reserved_by: Option<usize>,
}

/// What is measured on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// NdArray, Flex, and the libraries beside them.
    #[default]
    Cpu,
    /// Our kernels on a GPU, beside the plain path there.
    #[cfg(feature = "wgpu")]
    Wgpu,
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no variant is hidden").get_name())
    }
}

impl Cli {
    /// The flags that mean nothing on a GPU, where rivals, threads and pictures are not measured.
    #[cfg(feature = "wgpu")]
    pub(crate) fn check_for_gpu(&self) -> Result<(), String> {
        let given = [
            ("--only", !self.only.is_empty()),
            ("--pictures", self.pictures.is_some()),
            ("--python", self.python != Path::new("python3")),
            ("--threads", self.threads != threads::available()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(format!("{flag} is for measurements on the CPU")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["mha-bench"].iter().chain(flags))
    }

    #[test]
    fn flags_that_can_come_again_do() {
        let cli = parse(&["--only", "torch", "--only", "mha", "--threads", "3"]).unwrap();
        assert_eq!(cli.only, ["torch", "mha"]);
        assert_eq!(cli.threads, 3);
        assert!(!cli.quick);
    }

    #[test]
    fn a_wrong_number_is_refused() {
        for flags in [["--threads", "0"], ["--rounds", "no"]] {
            assert!(parse(&flags).is_err(), "{flags:?}");
        }
    }
}
