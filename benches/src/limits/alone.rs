//! `mha::attention` without the projections around it.

use std::{fmt, time::Instant};

use burn::{
    backend::{Autodiff, Flex, NdArray},
    tensor::{Tensor, TensorData, backend::Backend},
};
use mha::{AttentionOptions, attention};

use crate::{
    case::{Case, HEAD_DIM, N_HEADS, Visible},
    data,
    implementation::Implementation,
    layers,
    op::Op,
    plan::WINDOW,
};

/// One measured pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) direction: Direction,
    pub(crate) visible: Visible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Work {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let visible = [Visible::All, Visible::Causal, Visible::Window(WINDOW)];
        let both = [Direction::Forward, Direction::Backward];
        both.into_iter()
            .flat_map(move |direction| visible.map(|visible| Self { direction, visible }))
    }

    /// Floating-point operations over so many tokens, hidden pairs included: two matrix products
    /// forward, five backward, of which one computes the scores again.
    pub(crate) fn operations(&self, length: usize) -> f64 {
        let products = match self.direction {
            Direction::Forward => 2,
            Direction::Backward => 5,
        };
        2.0 * products as f64 * (N_HEADS * length * length * HEAD_DIM) as f64
    }
}

/// As `--only` meets it: `forward full`.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.direction {
            Direction::Forward => f.write_str("forward")?,
            Direction::Backward => f.write_str("backward")?,
        }
        match self.visible {
            Visible::All => f.write_str(" full"),
            Visible::Causal => f.write_str(" causal"),
            Visible::Window(window) => write!(f, " window{window}"),
        }
    }
}

/// One pass over `length` tokens each time, with its seconds.
pub(super) fn run_of(
    implementation: Implementation,
    work: Work,
    length: usize,
) -> Box<dyn FnMut() -> Result<f64, String>> {
    match (implementation, work.direction) {
        (Implementation::MhaFlex, Direction::Forward) => forward::<Flex>(work, length),
        (Implementation::MhaFlex, Direction::Backward) => backward::<Flex>(work, length),
        (_, Direction::Forward) => forward::<NdArray<f32>>(work, length),
        (_, Direction::Backward) => backward::<NdArray<f32>>(work, length),
    }
}

/// What the passes take.
struct Input<B: Backend> {
    /// Query, key and value.
    tensors: [Tensor<B, 4>; 3],
    options: AttentionOptions<B>,
}

impl<B: Backend> Input<B> {
    fn new(work: Work, length: usize) -> Self {
        let device = B::Device::default();
        let tokens = data::tokens(&Case::new(Op::Forward, 3, length, Visible::All));
        let mut parts = tokens.chunks(tokens.len() / 3);
        let tensors = std::array::from_fn(|_| {
            let values = parts.next().unwrap_or_default().to_vec();
            let data = TensorData::new(values, [1, length, N_HEADS, HEAD_DIM]);
            Tensor::from_data(data, &device)
        });
        let options = AttentionOptions::default().mask(layers::mask(work.visible));
        Self { tensors, options }
    }

    fn attend(&self) -> Tensor<B, 4> {
        let [query, key, value] = self.tensors.clone();
        attention(query, key, value, &self.options).context
    }
}

fn forward<B: Backend>(work: Work, length: usize) -> Box<dyn FnMut() -> Result<f64, String>> {
    let mut made = None;
    Box::new(move || {
        let input = made.get_or_insert_with(|| Input::<B>::new(work, length));
        let begin = Instant::now();
        let _context = input.attend();
        Ok(begin.elapsed().as_secs_f64())
    })
}

fn backward<B: Backend>(work: Work, length: usize) -> Box<dyn FnMut() -> Result<f64, String>> {
    let mut made = None;
    Box::new(move || {
        let input = made.get_or_insert_with(|| {
            let input = Input::<Autodiff<B>>::new(work, length);
            Input { tensors: input.tensors.map(Tensor::require_grad), ..input }
        });
        let context = input.attend();
        // The values stand for whatever gradient comes from the layers above.
        let loss = (context * input.tensors[2].clone().detach()).sum();
        let begin = Instant::now();
        let gradients = loss.backward();
        let seconds = begin.elapsed().as_secs_f64();
        let all = input.tensors.iter().all(|tensor| tensor.grad(&gradients).is_some());
        if all { Ok(seconds) } else { Err("an input got no gradient".into()) }
    })
}
