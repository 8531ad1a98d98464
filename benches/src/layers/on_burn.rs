//! The cases on any layer of Burn.

use std::time::Instant;

use burn::{
    backend::Autodiff,
    tensor::{
        Tensor, TensorData,
        backend::{AutodiffBackend, Backend},
    },
};

use super::layer::{Family, Layer};
use crate::{
    case::{Case, D_MODEL},
    data::{PROJECTIONS, Weights},
    op::Op,
    step::{Part, Step},
};

/// A layer of the family, ready for a case on the backend's default device.
pub(crate) fn prepare<F: Family, B: Backend>(
    case: &Case,
    weights: &Weights,
    tokens: &[f32],
) -> Box<dyn Step> {
    match case.op {
        Op::Forward => Box::new(Ready::<B, F::On<B>>::new(case, weights, tokens)),
        Op::TrainStep => {
            let ready = Ready::<Autodiff<B>, F::On<Autodiff<B>>>::new(case, weights, tokens);
            let tokens = ready.tokens.require_grad();
            Box::new(TrainStep(Ready { tokens, ..ready }))
        }
        Op::Decode => {
            Box::new(Decode::new(Ready::<B, F::On<B>>::new(case, weights, tokens), case.length))
        }
    }
}

/// A layer with its tokens: a forward pass.
struct Ready<B: Backend, L: Layer<B>> {
    layer: L,
    mask: L::Mask,
    tokens: Tensor<B, 3>,
}

/// A training step.
struct TrainStep<B: Backend, L: Layer<B>>(Ready<B, L>);

/// The last token on a cache of the others.
struct Decode<B: Backend, L: Layer<B>> {
    layer: L,
    all: Tensor<B, 3>,
    cached: Tensor<B, 3>,
    token: Tensor<B, 3>,
    cache: L::Cache,
}

impl<B: Backend, L: Layer<B>> Ready<B, L> {
    fn new(case: &Case, weights: &Weights, tokens: &[f32]) -> Self {
        let device = B::Device::default();
        let tokens = TensorData::new(tokens.to_vec(), [case.batch, case.tokens(), D_MODEL]);
        Self {
            layer: L::new(weights, &device),
            mask: L::mask(case, &device),
            tokens: Tensor::from_data(tokens, &device),
        }
    }

    fn forward(&self) -> Tensor<B, 3> {
        self.layer.forward(self.tokens.clone(), &self.mask)
    }
}

impl<B: Backend, L: Layer<B>> Step for Ready<B, L> {
    fn run(&mut self) -> Result<f64, String> {
        let begin = Instant::now();
        let _output = self.forward();
        Ok(begin.elapsed().as_secs_f64())
    }

    fn outcome(&mut self) -> Result<Vec<Part>, String> {
        Ok(vec![part("output", self.forward())?])
    }
}

impl<B: AutodiffBackend, L: Layer<B>> TrainStep<B, L> {
    fn backward(&self) -> B::Gradients {
        let output = self.0.forward();
        (output.clone() * output).mean().backward()
    }
}

impl<B: AutodiffBackend, L: Layer<B>> Step for TrainStep<B, L> {
    fn run(&mut self) -> Result<f64, String> {
        let begin = Instant::now();
        let _gradients = self.backward();
        Ok(begin.elapsed().as_secs_f64())
    }

    fn outcome(&mut self) -> Result<Vec<Part>, String> {
        let gradients = self.backward();
        let Ready { layer, tokens, .. } = &self.0;
        let mut parts = vec![gradient_part("input", tokens.grad(&gradients))?];
        for (name, linear) in PROJECTIONS.iter().zip(layer.projections()) {
            parts.push(gradient_part(&format!("{name}.weight"), linear.weight.grad(&gradients))?);
            let bias = linear.bias.as_ref().and_then(|bias| bias.grad(&gradients));
            parts.push(gradient_part(&format!("{name}.bias"), bias)?);
        }
        Ok(parts)
    }
}

impl<B: Backend, L: Layer<B>> Decode<B, L> {
    fn new(ready: Ready<B, L>, length: usize) -> Self {
        let Ready { layer, tokens, .. } = ready;
        let cached = tokens.clone().narrow(1, 0, length);
        let cache = layer.fill(cached.clone());
        let token = tokens.clone().narrow(1, length, 1);
        Self { layer, all: tokens, cached, token, cache }
    }

    fn decode(&mut self) -> Tensor<B, 3> {
        self.layer.decode(self.token.clone(), self.all.clone(), &mut self.cache)
    }

    fn restore(&mut self) {
        self.layer.restore(&mut self.cache, self.cached.clone());
    }
}

impl<B: Backend, L: Layer<B>> Step for Decode<B, L> {
    fn run(&mut self) -> Result<f64, String> {
        let begin = Instant::now();
        let _output = self.decode();
        let seconds = begin.elapsed().as_secs_f64();
        self.restore();
        Ok(seconds)
    }

    fn outcome(&mut self) -> Result<Vec<Part>, String> {
        let output = part("output", self.decode());
        self.restore();
        Ok(vec![output?])
    }
}

fn gradient_part<B: Backend, const D: usize>(
    name: &str,
    gradient: Option<Tensor<B, D>>,
) -> Result<Part, String> {
    part(name, gradient.ok_or_else(|| format!("{name} got no gradient"))?)
}

fn part<B: Backend, const D: usize>(name: &str, tensor: Tensor<B, D>) -> Result<Part, String> {
    let values = tensor.into_data().into_vec().map_err(|error| format!("{name}: {error:?}"))?;
    Ok(Part::new(name, values))
}
