//! Running the example as a user would, and reading what it leaves.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use burn::{
    backend::NdArray,
    module::{Module, ModuleVisitor, Param},
    record::{FullPrecisionSettings, NamedMpkFileRecorder},
    tensor::Tensor,
};

pub(crate) use crate::outcome::{fail, names, stdout, succeed};
use crate::{model::ModelSizes, outcome, program::example, task::CopyTask};

/// Sizes small enough that a run takes about a second, in four epochs of 5 steps.
pub(crate) const TINY: [&str; 16] = [
    "--steps=20",
    "--steps-per-epoch=5",
    "--batch-size=4",
    "--sequence-length=3",
    "--vocabulary=5",
    "--d-model=8",
    "--heads=2",
    "--layers=2",
    "--learning-rate=0.01",
    "--seed=7",
    "--backend=ndarray",
    "--log-every=1",
    "--min-accuracy",
    "0",
    "--out",
    "", // the directory goes here
];

/// A directory of this test's own, which does not exist yet.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    outcome::fresh_dir("train_copy", name)
}

/// The example with `args`; its output can be read.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = example("train_copy");
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The [`TINY`] example in `dir` with more flags.
pub(crate) fn tiny(dir: &Path, more: &[&str]) -> Command {
    let dir = dir.to_str().unwrap();
    let args: Vec<_> = TINY.iter().map(|arg| if arg.is_empty() { dir } else { arg }).collect();
    command(&[&args, more].concat())
}

/// The bits of every parameter of the model that a [`TINY`] run saved.
pub(crate) fn weights(dir: &Path) -> Vec<u32> {
    let device = Default::default();
    let sizes = ModelSizes { d_model: 8, n_heads: 2, n_layers: 2 };
    let task = CopyTask { vocabulary: 5, length: 3, seed: 7 };
    let format = NamedMpkFileRecorder::<FullPrecisionSettings>::default();
    let model = sizes.try_init::<NdArray>(&task, &device).unwrap();
    let model = model.load_file(dir.join("model"), &format, &device).unwrap();
    let mut bits = Bits(Vec::new());
    model.visit(&mut bits);
    assert_eq!(bits.0.len(), model.num_params());
    bits.0
}

struct Bits(Vec<u32>);

impl ModuleVisitor<NdArray> for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<NdArray, D>>) {
        let values = param.val().into_data().into_vec::<f32>().unwrap();
        self.0.extend(values.into_iter().map(f32::to_bits));
    }
}
