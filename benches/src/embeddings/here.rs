//! Our model in this process.

use std::{path::Path, time::Instant};

use burn::tensor::{Tensor, backend::Backend};
use mha::MhaInput;

use super::{
    Entrant,
    work::{Part, Work},
};
use crate::{
    bert::{Batch, Bert, Config, Loaded},
    turn::{self, Turn},
};

/// The model on a backend, and what it is to do.
pub(super) struct Here<B: Backend> {
    name: &'static str,
    n_tokens: usize,
    padding: u32,
    model: Bert<B>,
    device: B::Device,
    step: Option<Step<B>>,
}

enum Step<B: Backend> {
    Embed(Batch<B>),
    /// Tokens as they come to the first layer: `[batch, seq, d_model]`.
    Attend(Tensor<B, 3>),
}

impl<B: Backend> Here<B> {
    pub(super) fn load(name: &'static str, dir: &Path, config: &Config) -> Result<Self, String> {
        let device = B::Device::default();
        let loaded = Loaded::open(dir, config, &device).map_err(|error| error.to_string())?;
        let &Config { n_tokens, padding, .. } = config;
        Ok(Self { name, n_tokens, padding, model: loaded.model, device, step: None })
    }

    /// What each layer makes of the tokens.
    fn attend<'a>(&'a self, tokens: &'a Tensor<B, 3>) -> impl Iterator<Item = Tensor<B, 3>> + 'a {
        let attend = |tokens| MhaInput::self_attn(tokens);
        self.model
            .blocks
            .iter()
            .map(move |block| block.attention.forward(attend(tokens.clone())).context)
    }

    fn run(&self) -> Result<f64, String> {
        let begin = Instant::now();
        match self.step()? {
            Step::Embed(batch) => drop(self.model.embed(batch)),
            Step::Attend(tokens) => drop(self.attend(tokens).collect::<Vec<_>>()),
        }
        B::sync(&self.device).map_err(|error| error.to_string())?;
        Ok(begin.elapsed().as_secs_f64())
    }

    fn step(&self) -> Result<&Step<B>, String> {
        self.step.as_ref().ok_or_else(|| "nothing is prepared".into())
    }
}

impl<B: Backend> Entrant for Here<B> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, work: &Work) -> Result<(), String> {
        let batch = Batch::new(&work.tokens(self.n_tokens), self.padding, &self.device);
        self.step = Some(match work.part {
            Part::Embed => Step::Embed(batch),
            Part::Attend => Step::Attend(self.model.embeddings.forward(batch.tokens)),
        });
        Ok(())
    }

    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String> {
        turn::take_turn(|| self.run(), turn)
    }

    fn outcome(&mut self) -> Result<Vec<f32>, String> {
        let vectors = match self.step()? {
            Step::Embed(batch) => self.model.embed(batch),
            Step::Attend(tokens) => {
                let sum = self.attend(tokens).reduce(|sum, one| sum + one);
                sum.ok_or("the model has no layers")?.mean_dim(1).squeeze_dim(1)
            }
        };
        vectors.into_data().convert::<f32>().into_vec().map_err(|error| format!("{error:?}"))
    }
}
