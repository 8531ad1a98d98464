//! The gradients of a layer's parameters, under the names and in the layout of its file.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha::MultiHeadAttention;
use mha::weights::{Array, Checkpoint, Dtype, Layer};

use crate::words::said;

/// A gradient as the file has its parameter.
#[derive(Debug)]
pub(crate) struct Gradient {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
    /// What rounding to the file's type may have changed of a number.
    pub(crate) rounding: f64,
}

/// Each gradient goes where its parameter would be saved.
pub(crate) fn gradients<B: AutodiffBackend>(
    checkpoint: &Checkpoint,
    layer: &Layer,
    module: &MultiHeadAttention<B>,
    gradients: &B::Gradients,
) -> Result<Vec<Gradient>, String> {
    let export = |mut instead: Instead<'_, B>| {
        let module = module.clone().map(&mut instead);
        checkpoint.export(layer, &module).map_err(|error| said(&error))
    };
    let ours = export(Instead::Gradient(gradients))?;
    // What saving adds to a parameter: -1 to a norm's factor that is stored less 1.
    let added = export(Instead::Zero)?;
    let numbers = |array: &Array| array.to_f64().unwrap_or_default();
    let gradients = ours.into_iter().zip(added).map(|((name, array), (_, added))| Gradient {
        name,
        shape: array.shape().to_vec(),
        numbers: std::iter::zip(numbers(&array), numbers(&added))
            .map(|(x, a)| (x - a) as f32)
            .collect(),
        rounding: match array.dtype() {
            Dtype::F16 => 2_f64.powi(-11),
            Dtype::BF16 => 2_f64.powi(-8),
            _ => 0.0,
        },
    });
    Ok(gradients.collect())
}

/// What takes the place of each parameter.
enum Instead<'a, B: AutodiffBackend> {
    /// Its gradient, 0 where none flows into it.
    Gradient(&'a B::Gradients),
    Zero,
}

impl<B: AutodiffBackend> ModuleMapper<B> for Instead<'_, B> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let parameter = parameter.val();
        let gradient = match self {
            Self::Gradient(gradients) => parameter.grad(gradients),
            Self::Zero => None,
        };
        let zeros = || parameter.clone().inner().zeros_like();
        Param::from_tensor(Tensor::from_inner(gradient.unwrap_or_else(zeros)))
    }
}
