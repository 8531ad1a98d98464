//! The layer's parameters in a module of the library, and that module's gradients by name.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Element, Tensor, backend::Backend};
use mha::oracle::Sizes;
use mha::{HeadNorm, MultiHeadAttention};
use num_traits::Float;

use super::{LINEARS, Layer, Named};
use crate::case::convert;
use crate::tensor;

impl<T: Float + Element + From<f32>> Layer<T> {
    /// Gives a module these parameters, in this precision.
    pub fn fill<B: Backend>(&self, mut module: MultiHeadAttention<B>) -> MultiHeadAttention<B> {
        let linear = |index: usize| {
            let [d_input, d_output] = self.shapes[index];
            Linear {
                weight: Param::from_tensor(tensor(&self.weights[index], [d_input, d_output])),
                bias: (!self.biases[index].is_empty())
                    .then(|| Param::from_tensor(tensor(&self.biases[index], [d_output]))),
            }
        };
        let case = &self.case;
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = case.sizes;
        module.query = linear(0);
        module.key = linear(1);
        module.value = linear(2);
        module.output = linear(3);
        module.gate = module.gate.map(|_| linear(4));
        let norm = |mut norm: HeadNorm<B>, which: usize| {
            let [gamma, beta] = &self.norms[which];
            let vector = |x: &[T]| Param::from_tensor(tensor(x, [head_dim]));
            norm.gamma = vector(gamma);
            norm.beta = norm.beta.map(|_| vector(beta));
            norm
        };
        module.query_norm = module.query_norm.map(|old| norm(old, 0));
        module.key_norm = module.key_norm.map(|old| norm(old, 1));
        let matrix =
            |x: Vec<f32>, dims: [usize; 2]| Param::from_tensor(tensor(&convert::<T>(&x), dims));
        let slots = case.bias_kv;
        let dims = |width| [slots, n_kv_heads * width];
        module.bias_k = module.bias_k.map(|_| matrix(case.memory_values(0), dims(head_dim)));
        module.bias_v = module.bias_v.map(|_| matrix(case.memory_values(1), dims(value_dim)));
        module.relative_bias = module.relative_bias.map(|table| {
            let dims = table.dims();
            matrix(case.table_values(), dims)
        });
        module.sinks = module
            .sinks
            .map(|_| Param::from_tensor(tensor(&convert::<T>(&case.sink_values()), [n_heads])));
        module
    }

    /// The inputs as tensors that track gradients.
    pub fn tensors<B: Backend>(&self) -> [Tensor<B, 3>; 3] {
        let Sizes { batch, seq_q, seq_k, .. } = self.case.sizes;
        let seq = [seq_q, seq_k, seq_k];
        [0, 1, 2].map(|index| {
            let dims = [batch, seq[index], self.shapes[index][0]];
            tensor(&self.inputs[index], dims).require_grad()
        })
    }
}

/// A module's gradients by the names that [`Layer::backward`] has; `read` takes the numbers out.
pub fn module_gradients<B: burn::tensor::backend::AutodiffBackend, N>(
    module: &MultiHeadAttention<B>,
    inputs: &[Tensor<B, 3>; 3],
    gradients: &B::Gradients,
    read: impl Fn(burn::tensor::TensorData) -> Vec<N>,
) -> Named<N> {
    let mut named = Vec::new();
    macro_rules! add {
        ($name:expr, $tensor:expr) => {
            if let Some(gradient) = $tensor.grad(gradients) {
                named.push((String::from($name), read(gradient.into_data())));
            }
        };
    }
    let layers = [&module.query, &module.key, &module.value, &module.output];
    let layers = layers.into_iter().chain(&module.gate).zip(LINEARS);
    for (layer, name) in layers {
        add!(format!("{name}.weight"), layer.weight);
        if let Some(bias) = &layer.bias {
            add!(format!("{name}.bias"), bias);
        }
    }
    for (input, name) in inputs.iter().zip(["query", "key", "value"]) {
        add!(format!("the input {name}"), input);
    }
    let norms = [("query_norm", &module.query_norm), ("key_norm", &module.key_norm)];
    for (name, norm) in norms {
        let Some(norm) = norm else { continue };
        add!(format!("{name}.gamma"), norm.gamma);
        if let Some(beta) = &norm.beta {
            add!(format!("{name}.beta"), beta);
        }
    }
    let matrices = [
        ("bias_k", &module.bias_k),
        ("bias_v", &module.bias_v),
        ("relative_bias", &module.relative_bias),
    ];
    for (name, matrix) in matrices {
        if let Some(matrix) = matrix {
            add!(name, matrix);
        }
    }
    if let Some(sinks) = &module.sinks {
        add!("sinks", sinks);
    }
    named
}
