//! A linear layer, by kernels where there are some.

use burn::nn::Linear;
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Tensor, TensorPrimitive};

use super::check::like;
use super::in_place::reshape;
use super::table::lookup;
use crate::Error;
use crate::error::check_shape;

/// What [`Linear::forward`] computes, input · weight + bias, with the kernels of the module's own
/// projections where the backend has some, else by Burn: for what stands around attention in a model,
/// a feed-forward network say. With few tokens it is several times as fast as Burn's on NdArray, as
/// fast on Flex; gradients of all three come with it. On a GPU it is Burn's.
///
/// # Shapes
///
/// - `input`: `[.., d_input]`, of any rank; without elements, too
/// - returns `[.., d_output]`
///
/// # Panics
///
/// When [`try_linear`] gives an error, with its text.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Distribution, Tensor};
///
/// let device = Default::default();
/// let up = LinearConfig::new(64, 256).init::<NdArray>(&device);
/// let tokens = Tensor::<NdArray, 3>::random([2, 10, 64], Distribution::Default, &device);
/// let hidden = mha::linear(&up, tokens.clone());
/// assert!((hidden - up.forward(tokens)).abs().max().into_scalar() < 1e-6);
/// ```
#[track_caller]
pub fn linear<B: Backend, const D: usize>(layer: &Linear<B>, input: Tensor<B, D>) -> Tensor<B, D> {
    try_linear(layer, input).unwrap_or_else(|error| panic!("{error}"))
}

/// [`linear`], or an error that names the argument, its axes, what was expected and what came.
///
/// # Errors
///
/// When a shape, an element type or a device does not fit.
pub fn try_linear<B: Backend, const D: usize>(
    layer: &Linear<B>,
    input: Tensor<B, D>,
) -> Result<Tensor<B, D>, Error> {
    let mut dims = input.dims();
    let [d_input, d_output] = layer.weight.dims();
    if d_input * d_output == 0 {
        let actual = format!("shape [{d_input}, {d_output}]");
        return Err(Error::value("weight", "have rows and columns", actual));
    }
    if dims[D - 1] != d_input {
        let expected = format!("have {d_input} features, d_input of weight, in its last axis");
        return Err(Error::value("input", expected, format!("shape {dims:?}")));
    }
    let weight = layer.weight.val();
    like("weight", &weight, "input", &input)?;
    if let Some(bias) = &layer.bias {
        check_shape("bias", ["d_output"], [d_output], bias.dims())?;
        like("bias", &bias.val(), "input", &input)?;
    }
    let rows = dims[..D - 1].iter().product();
    let output = project(layer, reshape(input, [1, rows, d_input]), true);
    dims[D - 1] = d_output;
    Ok(reshape(output, dims))
}

/// The layer on `[batch, seq, d_input]`, which may have no elements, though Burn's backends refuse
/// those. `kernels` says whether to use them where they are; without, the bits are Burn's own.
pub(crate) fn project<B: Backend>(
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
