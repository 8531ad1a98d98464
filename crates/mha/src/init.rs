//! How the parameters start: named presets, or any of Burn's initializers.

use burn::module::{Initializer, Param};
use burn::nn::Linear;
use burn::tensor::{Tensor, backend::Backend};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;

/// How the parameters are initialized.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::module::Initializer;
/// use mha::{MhaInitializer, MultiHeadAttentionConfig};
///
/// let config = MultiHeadAttentionConfig::new(8, 2);
/// let as_pytorch = config.clone().with_initializer(MhaInitializer::PyTorch);
/// let as_you_like = config.with_initializer(Initializer::Normal { mean: 0.0, std: 0.02 });
/// # let device = Default::default();
/// # as_pytorch.init::<NdArray>(&device);
/// # as_you_like.init::<NdArray>(&device);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MhaInitializer {
    /// As `burn::nn`: every weight and every bias uniform in ±1/√d_in.
    #[default]
    BurnNn,
    /// As `torch.nn.MultiheadAttention`: where query, key and value take tokens of one width, their
    /// weights are one stacked matrix to Xavier's rule, so uniform in ±√(6 / (d_in + d_out)) with
    /// the d_out of all three; elsewhere each is a matrix of its own. For 64 features the bound is
    /// 0.153093 in the stacked matrix and 0.216506 in one of its own. The output weight is uniform
    /// in ±1/√d_in; biases are 0.
    PyTorch,
    /// As GPT-2: every weight normal with standard deviation 0.02, that of the output projection
    /// divided by √(2 · `n_layers`), since each layer adds two branches to the residual stream; biases
    /// are 0 (Radford et al. 2019, section 2.3).
    Gpt2 {
        /// Layers of the whole model, at least 1.
        n_layers: usize,
    },
    /// As [`PyTorch`](Self::PyTorch), with weight and bias of the output projection 0: a residual
    /// branch that starts as nothing.
    ZeroOutput,
    /// The same initializer for every weight and bias, as `burn::nn` does with its `initializer`.
    /// With [`Initializer::Orthogonal`], which has no meaning for a vector, biases are 0.
    Each(Initializer),
}

impl From<Initializer> for MhaInitializer {
    fn from(initializer: Initializer) -> Self {
        Self::Each(initializer)
    }
}

/// Which of the four projections a matrix belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// Query, key or value; `stacked` is the output width of the matrix that PyTorch has for it.
    Input {
        stacked: usize,
    },
    Output,
}

/// The standard deviation of GPT-2's weights.
const GPT2_STD: f64 = 0.02;

impl MhaInitializer {
    /// A linear layer from `d_input` to `d_output` features; its tensors are drawn at first use.
    pub(crate) fn linear<B: Backend>(
        &self,
        role: Role,
        [d_input, d_output]: [usize; 2],
        bias: bool,
        device: &B::Device,
    ) -> Linear<B> {
        let weight = self.weight(role, d_input);
        let start = self.bias();
        let weight = weight.init_with([d_input, d_output], Some(d_input), Some(d_output), device);
        let bias: Option<Param<Tensor<B, 1>>> =
            bias.then(|| start.init_with([d_output], Some(d_input), Some(d_output), device));
        Linear { weight, bias }
    }

    /// Learned keys, values or biases by distance: one normal row per slot, with the variance of a
    /// projected token (PyTorch's `bias_k` and `bias_v`).
    pub(crate) fn slots<B: Backend>(
        &self,
        [n, width]: [usize; 2],
        device: &B::Device,
    ) -> Param<Tensor<B, 2>> {
        let normal = |std: f64| Initializer::Normal { mean: 0.0, std };
        let initializer = match self {
            Self::BurnNn | Self::PyTorch | Self::ZeroOutput => normal(1.0 / (width as f64).sqrt()),
            Self::Gpt2 { .. } => normal(GPT2_STD),
            Self::Each(initializer) => initializer.clone(),
        };
        initializer.init_with([n, width], Some(n), Some(width), device)
    }

    fn weight(&self, role: Role, d_input: usize) -> Initializer {
        let uniform = |bound: f64| Initializer::Uniform { min: -bound, max: bound };
        match (self, role) {
            (Self::BurnNn, _) => burn_nn_default(),
            (Self::PyTorch | Self::ZeroOutput, Role::Input { stacked }) => {
                uniform((6.0 / (d_input + stacked) as f64).sqrt())
            }
            (Self::PyTorch, Role::Output) => uniform(1.0 / (d_input as f64).sqrt()),
            (Self::Gpt2 { n_layers }, role) => {
                let branches = match role {
                    Role::Input { .. } => 1,
                    Role::Output => 2 * n_layers,
                };
                Initializer::Normal { mean: 0.0, std: GPT2_STD / (branches as f64).sqrt() }
            }
            (Self::ZeroOutput, Role::Output) => Initializer::Zeros,
            (Self::Each(initializer), _) => initializer.clone(),
        }
    }

    fn bias(&self) -> Initializer {
        match self {
            Self::BurnNn => burn_nn_default(),
            Self::PyTorch | Self::Gpt2 { .. } | Self::ZeroOutput => Initializer::Zeros,
            Self::Each(Initializer::Orthogonal { .. }) => Initializer::Zeros,
            Self::Each(initializer) => initializer.clone(),
        }
    }

    /// Refuses numbers that Burn's random generators would panic on.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let initializer = match self {
            Self::Gpt2 { n_layers: 0 } => {
                return Err(Error::value("initializer", "have at least one layer", "n_layers 0"));
            }
            Self::BurnNn | Self::PyTorch | Self::Gpt2 { .. } | Self::ZeroOutput => return Ok(()),
            Self::Each(initializer) => initializer,
        };
        // Wide enough for any use, narrow enough that no bound rounds to 0 or infinity in f32.
        let moderate = |x: f64| x.abs() <= 1e30;
        let (fits, expected) = match *initializer {
            Initializer::Constant { value } => (moderate(value), "have a value within ±1e30"),
            Initializer::Ones | Initializer::Zeros => (true, ""),
            Initializer::Uniform { min, max } => (
                moderate(min) && moderate(max) && (min as f32) < (max as f32),
                "have min < max as f32, both within ±1e30",
            ),
            Initializer::Normal { mean, std } => (
                moderate(mean) && (0.0..=1e30).contains(&std),
                "have a mean within ±1e30 and a std in [0, 1e30]",
            ),
            Initializer::KaimingUniform { gain, .. }
            | Initializer::KaimingNormal { gain, .. }
            | Initializer::XavierUniform { gain }
            | Initializer::XavierNormal { gain }
            | Initializer::Orthogonal { gain } => {
                ((1e-30..=1e30).contains(&gain), "have a gain in [1e-30, 1e30]")
            }
        };
        if fits {
            Ok(())
        } else {
            Err(Error::value("initializer", expected, format!("{initializer:?}")))
        }
    }
}

fn burn_nn_default() -> Initializer {
    Initializer::KaimingUniform { gain: 1.0 / 3.0f64.sqrt(), fan_out_only: false }
}

/// Reads ours, or the bare Burn initializer of a `burn::nn` file.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<MhaInitializer, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected \"BurnNn\", \"PyTorch\", \"ZeroOutput\", {\"Gpt2\": {\"n_layers\": n}} \
                     or one of Burn's initializers"
    )]
    enum Either {
        Ours(MhaInitializer),
        Burn(Initializer),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Ours(initializer) => initializer,
        Either::Burn(initializer) => MhaInitializer::Each(initializer),
    })
}
