//! A layer made of candle's operations.
//!
//! candle also has an attention for the CPU that stores no scores, `candle_nn::attention::flash_attn`.
//! In candle 0.11 it took longer than these products wherever it was tried: on 4 x 128, 1 x 1024 and
//! 1 x 4096 tokens, with and without a causal mask, and decoding on 4096.

use std::time::Instant;

use candle_core::{D, Device, Error, Result, Tensor, Var, backprop::GradStore};
use candle_nn::ops::softmax_last_dim;

use crate::{
    case::{Case, D_MODEL, HEAD_DIM, N_HEADS},
    data::{PROJECTIONS, Weights},
    op::Op,
    step::{Part, Step},
};

/// The layer, ready for a case.
pub(super) fn prepare(case: &Case, weights: &Weights, tokens: &[f32]) -> Result<Box<dyn Step>> {
    let tokens = Tensor::from_slice(tokens, (case.batch, case.tokens(), D_MODEL), &Device::Cpu)?;
    match case.op {
        Op::Forward => {
            let layer = Layer::new(weights, Ok)?;
            Ok(Box::new(Forward { layer, hidden: hidden(case)?, tokens }))
        }
        Op::TrainStep => {
            let layer = Layer::new(weights, leaf)?;
            Ok(Box::new(TrainStep { layer, hidden: hidden(case)?, tokens: leaf(tokens)? }))
        }
        Op::Decode => Ok(Box::new(Decode::new(Layer::new(weights, Ok)?, tokens, case.length)?)),
    }
}

/// A tensor that gets a gradient.
fn leaf(tensor: Tensor) -> Result<Tensor> {
    Var::from_tensor(&tensor).map(Var::into_inner)
}

struct Layer {
    /// Weight `[in, out]` and bias of each of [`PROJECTIONS`].
    projections: [(Tensor, Tensor); 4],
}

struct Forward {
    layer: Layer,
    hidden: Option<Tensor>,
    tokens: Tensor,
}

struct TrainStep {
    layer: Layer,
    hidden: Option<Tensor>,
    tokens: Tensor,
}

/// Keys and values `[1, heads, tokens, head_dim]`, whose last place is the new token's.
struct Decode {
    layer: Layer,
    token: Tensor,
    cached: usize,
    keys: Tensor,
    values: Tensor,
}

impl Layer {
    /// Parameters go through `leaf` where they get gradients: candle keeps what those need.
    fn new(weights: &Weights, leaf: fn(Tensor) -> Result<Tensor>) -> Result<Self> {
        let mut projections = Vec::new();
        for projection in &weights.projections {
            let weight = Tensor::from_slice(&projection.weight, (D_MODEL, D_MODEL), &Device::Cpu)?;
            let bias = Tensor::from_slice(&projection.bias, D_MODEL, &Device::Cpu)?;
            projections.push((leaf(weight)?, leaf(bias)?));
        }
        let projections = projections.try_into();
        Ok(Self { projections: projections.map_err(|_| Error::msg("not four projections"))? })
    }

    fn project(&self, which: usize, tokens: &Tensor) -> Result<Tensor> {
        let (weight, bias) = &self.projections[which];
        let (batch, length, _) = tokens.dims3()?;
        // One product of all tokens; candle would make one per sequence.
        let rows = tokens.reshape((batch * length, D_MODEL))?;
        rows.matmul(weight)?.broadcast_add(bias)?.reshape((batch, length, D_MODEL))
    }

    /// `[batch, heads, length, head_dim]`
    fn project_heads(&self, which: usize, tokens: &Tensor) -> Result<Tensor> {
        let (batch, length, _) = tokens.dims3()?;
        let heads = self.project(which, tokens)?.reshape((batch, length, N_HEADS, HEAD_DIM))?;
        heads.transpose(1, 2)?.contiguous()
    }

    fn forward(
        &self,
        tokens: &Tensor,
        hidden: Option<&Tensor>,
        softmax: fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let [query, key, value] = [0, 1, 2].map(|which| self.project_heads(which, tokens));
        self.attend(&query?, &key?, &value?, hidden, softmax)
    }

    fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        hidden: Option<&Tensor>,
        softmax: fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let scores = (query * (1.0 / (HEAD_DIM as f64).sqrt()))?.matmul(&key.t()?)?;
        let scores = match hidden {
            Some(hidden) => scores.broadcast_add(hidden)?,
            None => scores,
        };
        let context = softmax(&scores)?.matmul(value)?.transpose(1, 2)?;
        let (batch, length, ..) = context.dims4()?;
        self.project(3, &context.reshape((batch, length, D_MODEL))?)
    }
}

impl Step for Forward {
    fn run(&mut self) -> std::result::Result<f64, String> {
        let begin = Instant::now();
        let output = self.layer.forward(&self.tokens, self.hidden.as_ref(), softmax_last_dim);
        timed(begin, output)
    }

    fn outcome(&mut self) -> std::result::Result<Vec<Part>, String> {
        let output = self.layer.forward(&self.tokens, self.hidden.as_ref(), softmax_last_dim);
        Ok(vec![part("output", output)?])
    }
}

impl TrainStep {
    fn backward(&self) -> Result<GradStore> {
        let output = self.layer.forward(&self.tokens, self.hidden.as_ref(), softmax)?;
        output.sqr()?.mean_all()?.backward()
    }
}

impl Step for TrainStep {
    fn run(&mut self) -> std::result::Result<f64, String> {
        let begin = Instant::now();
        timed(begin, self.backward())
    }

    fn outcome(&mut self) -> std::result::Result<Vec<Part>, String> {
        let gradients = self.backward().map_err(|error| error.to_string())?;
        let gradient = |name: &str, leaf: &Tensor| {
            let gradient = gradients.get(leaf).cloned();
            part(name, gradient.ok_or_else(|| Error::msg("there is no gradient")))
        };
        let mut parts = vec![gradient("input", &self.tokens)?];
        for (name, (weight, bias)) in PROJECTIONS.iter().zip(&self.layer.projections) {
            parts.push(gradient(&format!("{name}.weight"), weight)?);
            parts.push(gradient(&format!("{name}.bias"), bias)?);
        }
        Ok(parts)
    }
}

impl Decode {
    fn new(layer: Layer, tokens: Tensor, cached: usize) -> Result<Self> {
        // Copies, as the last place is written to.
        let keys = layer.project_heads(1, &tokens)?.copy()?;
        let values = layer.project_heads(2, &tokens)?.copy()?;
        Ok(Self { layer, token: tokens.narrow(1, cached, 1)?, cached, keys, values })
    }

    fn decode(&self) -> Result<Tensor> {
        for (which, cache) in [(1, &self.keys), (2, &self.values)] {
            let new = self.layer.project_heads(which, &self.token)?;
            cache.slice_set(&new, 2, self.cached)?;
        }
        let query = self.layer.project_heads(0, &self.token)?;
        self.layer.attend(&query, &self.keys, &self.values, None, softmax_last_dim)
    }
}

impl Step for Decode {
    fn run(&mut self) -> std::result::Result<f64, String> {
        let begin = Instant::now();
        timed(begin, self.decode())
    }

    fn outcome(&mut self) -> std::result::Result<Vec<Part>, String> {
        Ok(vec![part("output", self.decode())?])
    }
}

/// What to add to the scores: -∞ where a key is hidden.
fn hidden(case: &Case) -> Result<Option<Tensor>> {
    if !case.causal() {
        return Ok(None);
    }
    let n = case.length;
    let hidden = |query, key| if key > query { f32::NEG_INFINITY } else { 0.0 };
    let bias = (0..n).flat_map(|query| (0..n).map(move |key| hidden(query, key)));
    Tensor::from_iter(bias, &Device::Cpu)?.reshape((1, 1, n, n)).map(Some)
}

/// candle's fast softmax has no gradient, and its other one also derives the maximum, which
/// changes nothing.
fn softmax(scores: &Tensor) -> Result<Tensor> {
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)
}

fn timed<T>(begin: Instant, result: Result<T>) -> std::result::Result<f64, String> {
    let seconds = begin.elapsed().as_secs_f64();
    result.map(|_| seconds).map_err(|error| error.to_string())
}

fn part(name: &str, tensor: Result<Tensor>) -> std::result::Result<Part, String> {
    let values = tensor.and_then(|tensor| tensor.flatten_all()?.to_vec1());
    Ok(Part::new(name, values.map_err(|error| format!("{name}: {error}"))?))
}
