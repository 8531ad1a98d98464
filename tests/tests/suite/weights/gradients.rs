//! A module's gradients in its parameters' places.

use burn::module::{ModuleMapper, Param};
use burn::tensor::{Tensor, backend::AutodiffBackend};

/// Puts each parameter's gradient in its place, so that it is exported where the parameter would be.
pub(super) struct Gradients<'a, B: AutodiffBackend>(pub(super) &'a B::Gradients);

impl<B: AutodiffBackend> ModuleMapper<B> for Gradients<'_, B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let gradient = param.val().grad(self.0).expect("every parameter has a gradient");
        Param::from_tensor(Tensor::from_inner(gradient))
    }
}
