//! The oracle of a whole module: projections, attention, output projection.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Element, Tensor, backend::Backend};
use mha::MultiHeadAttention;
use mha::oracle::{Attention, Output, Sizes, linear, linear_backward};
use num_traits::Float;

use crate::{Case, floats, numbers, tensor};

/// The inputs and parameters of one call of a module, in plain numbers.
#[derive(Debug, Clone)]
pub struct Layer<T> {
    case: Case,
    /// `[d_input, d_output]` of query, key, value and output.
    shapes: [[usize; 2]; 4],
    /// Query `[batch, seq_q, d_model]`, key `[batch, seq_k, d_key]`, value `[batch, seq_k, d_value]`.
    pub inputs: [Vec<T>; 3],
    /// Weights of query, key, value and output, each `[d_input, d_output]`.
    pub weights: [Vec<T>; 4],
    /// Biases of query, key, value and output, each `[d_output]`.
    pub biases: [Vec<T>; 4],
}

/// The gradients of a [`Layer`]'s inputs and parameters.
#[derive(Debug, Clone)]
pub struct LayerGradients<T> {
    /// Of query, key and value.
    pub inputs: [Vec<T>; 3],
    /// Of the four weights.
    pub weights: [Vec<T>; 4],
    /// Of the four biases.
    pub biases: [Vec<T>; 4],
    /// Of each pair's additive bias.
    pub pairs: Vec<T>,
}

impl<T: Float + From<f32>> Layer<T> {
    /// The layer of a case.
    pub fn new(case: &Case) -> Self {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = case.sizes;
        let [d_model, d_key, d_value, d_output] = case.module_widths();
        let shapes = [
            [d_model, n_heads * head_dim],
            [d_key, n_kv_heads * head_dim],
            [d_value, n_kv_heads * value_dim],
            [n_heads * value_dim, d_output],
        ];
        let draw = |seed: usize, count| {
            numbers(seed as u64, count).into_iter().map(Into::into).collect::<Vec<T>>()
        };
        // Weights of ±1.5/√d_input keep every product of the size of its input; shrunk in f32, so
        // that both precisions start from the same numbers.
        let weight = |index: usize| {
            let [d_input, d_output] = shapes[index];
            let shrink = 1.0 / (d_input as f32).sqrt();
            let all = numbers(31 + index as u64, d_input * d_output).into_iter();
            all.map(|x| (x * shrink).into()).collect()
        };
        let rows = [batch * seq_q, batch * seq_k, batch * seq_k];
        Self {
            case: case.clone(),
            shapes,
            inputs: [0, 1, 2].map(|index| draw(21 + index, rows[index] * shapes[index][0])),
            weights: [0, 1, 2, 3].map(weight),
            biases: [0, 1, 2, 3].map(|index| draw(41 + index, shapes[index][1])),
        }
    }

    /// The output `[batch, seq_q, d_output]` and the weights.
    pub fn forward(&self) -> Output<T> {
        let Output { context, weights } = self.attention().forward();
        let context = self.project(3, &context);
        Output { context, weights }
    }

    /// All gradients, given that of the output.
    pub fn backward(&self, d_output: &[T]) -> LayerGradients<T> {
        self.gradients(d_output, |x| x)
    }

    /// For each gradient the sum of the absolute values of the terms that it is summed from: what
    /// a rounding error is relative to. A key's bias, for one, has the gradient 0 in exact
    /// arithmetic, as a sum of terms that are not.
    pub fn backward_magnitudes(&self, d_output: &[T]) -> LayerGradients<T> {
        self.gradients(d_output, T::abs)
    }

    fn gradients(&self, d_output: &[T], term: fn(T) -> T) -> LayerGradients<T> {
        let attention = self.attention();
        let context = attention.forward().context;
        let back = |index: usize, input: &[T], d_output: &[T]| {
            let [input, weight, d_output] = [input, &self.weights[index], d_output]
                .map(|x| x.iter().copied().map(term).collect::<Vec<_>>());
            linear_backward(&input, &weight, &d_output, self.shapes[index][1])
        };
        let [_, w_output, b_output] = back(3, &context, d_output);
        let [d_context, ..] =
            linear_backward(&context, &self.weights[3], d_output, self.shapes[3][1]);
        let inner = attention.backward(&d_context);
        let [x_query, w_query, b_query] = back(0, &self.inputs[0], &inner.query);
        let [x_key, w_key, b_key] = back(1, &self.inputs[1], &inner.key);
        let [x_value, w_value, b_value] = back(2, &self.inputs[2], &inner.value);
        LayerGradients {
            inputs: [x_query, x_key, x_value],
            weights: [w_query, w_key, w_value, w_output],
            biases: [b_query, b_key, b_value, b_output],
            pairs: inner.bias,
        }
    }

    fn attention(&self) -> Attention<T> {
        let [query, key, value] = [0, 1, 2].map(|index| self.project(index, &self.inputs[index]));
        let mut attention = Attention::new(self.case.sizes, query, key, value);
        self.case.add_options(&mut attention);
        attention
    }

    fn project(&self, index: usize, input: &[T]) -> Vec<T> {
        linear(input, &self.weights[index], Some(&self.biases[index]), self.shapes[index][0])
    }
}

impl<T: Float + Element> Layer<T> {
    /// Gives a module these parameters, in this precision.
    pub fn fill<B: Backend>(&self, mut module: MultiHeadAttention<B>) -> MultiHeadAttention<B> {
        let linear = |index: usize| {
            let [d_input, d_output] = self.shapes[index];
            Linear {
                weight: Param::from_tensor(tensor(&self.weights[index], [d_input, d_output])),
                bias: Some(Param::from_tensor(tensor(&self.biases[index], [d_output]))),
            }
        };
        module.query = linear(0);
        module.key = linear(1);
        module.value = linear(2);
        module.output = linear(3);
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

impl LayerGradients<f32> {
    /// Reads a module's gradients.
    pub fn of<B: burn::tensor::backend::AutodiffBackend>(
        module: &MultiHeadAttention<B>,
        inputs: &[Tensor<B, 3>; 3],
        gradients: &B::Gradients,
    ) -> Self {
        let layers = [&module.query, &module.key, &module.value, &module.output];
        let weight = |layer: &Linear<B>| floats(layer.weight.grad(gradients).expect("a gradient"));
        let bias = |layer: &Linear<B>| {
            let bias = layer.bias.as_ref().expect("a bias");
            floats(bias.grad(gradients).expect("a gradient"))
        };
        Self {
            inputs: [0, 1, 2]
                .map(|index| floats(inputs[index].grad(gradients).expect("a gradient"))),
            weights: layers.map(weight),
            biases: layers.map(bias),
            pairs: Vec::new(),
        }
    }
}
