//! A linear layer, by kernels where there are some.

use burn::nn::Linear;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Tensor, TensorPrimitive};

use super::table::lookup;

/// The layer on `[batch, seq, d_input]`, which may have no elements, though Burn's backends refuse
/// those. `kernels` says whether to use them where they are; without, the bits are Burn's own.
pub(crate) fn linear<B: Backend>(
    layer: &Linear<B>,
    input: Tensor<B, 3>,
    kernels: bool,
) -> Tensor<B, 3> {
    let [batch, seq, _] = input.dims();
    let (weight, bias) = (layer.weight.val(), layer.bias.as_ref().map(|bias| bias.val()));
    let [_, d_output] = weight.dims();
    let dtype = input.dtype();
    if batch * seq == 0 {
        return Tensor::zeros([batch, seq, d_output], (&input.device(), dtype));
    }
    let alike = |other: DType| other == dtype;
    let fits = alike(weight.dtype()) && bias.iter().all(|bias| alike(bias.dtype()));
    let found = lookup::<B>().filter(|found| kernels && fits && (found.takes)(dtype));
    match found.and_then(|found| (found.linear)()) {
        Some(linear) => {
            let (input, weight) = (input.into_primitive(), weight.into_primitive());
            let bias = bias.map(|bias| bias.into_primitive().tensor());
            let output = linear(input.tensor(), weight.tensor(), bias);
            Tensor::from_primitive(TensorPrimitive::Float(output))
        }
        None => layer.forward(input),
    }
}
