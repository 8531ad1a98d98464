//! Which path a call takes, and why.

use std::fmt;

use burn::tensor::{DType, Tensor, backend::Backend};
use serde::{Deserialize, Serialize};

use super::options::WantedWeights;
use super::plain::at_least_f32;
use super::table::lookup;
use super::{AttentionOptions, Masking, Sizes, distance};
use crate::Error;
use crate::backend::{Extent, TooLarge};

/// Which path calls are to take. All mean the same and differ in rounding, speed and memory alone.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Distribution, Tensor};
/// use mha::{MhaInput, MultiHeadAttentionConfig, Path, Weights};
///
/// let device = Default::default();
/// let attention =
///     MultiHeadAttentionConfig::new(8, 2).with_path(Path::Fused).init::<NdArray>(&device);
/// let tokens = Tensor::random([1, 5, 8], Distribution::Default, &device);
/// let input = MhaInput::self_attn(tokens).weights(Weights::PerHead);
/// let error = attention.try_forward(input.clone()).unwrap_err();
/// assert_eq!(error.to_string(), "path must be Auto or Plain: weights were asked for, got Fused");
/// assert!(attention.try_forward(input.path(Path::Auto)).is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Path {
    /// The kernels of the backend where they can compute the call, else tensor operations.
    #[default]
    Auto,
    /// The kernels; where they cannot compute the call, it is an error that says why.
    Fused,
    /// Burn's tensor operations, for the projections too.
    Plain,
}

/// The path that a call takes.
///
/// # Example
///
/// ```
/// use mha::{PathTaken, Reason};
///
/// let path = PathTaken::Plain(Reason::Weights);
/// assert_eq!(path.to_string(), "plain: weights were asked for");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathTaken {
    /// The kernels of the backend.
    Fused,
    /// Burn's tensor operations, for a reason.
    Plain(Reason),
}

/// Why a call runs in tensor operations, not in kernels.
///
/// # Example
///
/// ```
/// let reason = mha::Reason::NoKernels;
/// assert_eq!(reason.to_string(), "no kernels are known for this backend; see mha::register");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// [`Path::Plain`] was asked for.
    AskedFor,
    /// Weights were asked for: kernels never have all of them.
    Weights,
    /// [`Masking::Overwrite`] has the numbers of `burn::nn`, bit for bit.
    Overwrites,
    /// There is no pair of query and key, and so nothing to compute; no error with [`Path::Fused`].
    NoPairs,
    /// The backend has no kernels, or none that this crate knows of.
    NoKernels,
    /// The kernels do not take the call's element type.
    ElementType(DType),
    /// A tensor of the call is quantized, this one.
    Quantized(&'static str),
    /// The distances for T5's buckets are too many for a table.
    FarDistances,
    /// A size is beyond what the kernels and the device take.
    TooLarge {
        /// Which size.
        what: &'static str,
        /// What came.
        is: u64,
        /// The largest that is taken.
        most: u64,
    },
}

impl fmt::Display for PathTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fused => write!(f, "fused: kernels of the backend"),
            Self::Plain(reason) => write!(f, "plain: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AskedFor => write!(f, "it was asked for"),
            Self::Weights => write!(f, "weights were asked for"),
            Self::Overwrites => write!(f, "masking overwrites scores, as burn::nn does"),
            Self::NoPairs => write!(f, "there is no pair of query and key"),
            Self::NoKernels => {
                write!(f, "no kernels are known for this backend; see mha::register")
            }
            Self::ElementType(dtype) => write!(f, "the kernels do not take {dtype:?}"),
            Self::Quantized(name) => write!(f, "{name} is quantized"),
            Self::FarDistances => write!(f, "T5's buckets reach too far for a table"),
            Self::TooLarge { what, is, most } => {
                write!(f, "{what} is {is}, and kernels on this device take at most {most}")
            }
        }
    }
}

/// The path of a checked call with query, key and value of these types, or why it cannot take the one
/// asked for.
pub(crate) fn choose<B: Backend>(
    dtypes: [DType; 3],
    options: &AttentionOptions<B>,
    sizes: &Sizes,
    device: &B::Device,
) -> Result<PathTaken, Error> {
    let Err(reason) = kernels_can(dtypes, options, sizes, device) else {
        return Ok(PathTaken::Fused);
    };
    if options.path == Path::Fused && reason != Reason::NoPairs {
        return Err(Error::value("path", format!("be Auto or Plain: {reason}"), "Fused"));
    }
    Ok(PathTaken::Plain(reason))
}

fn kernels_can<B: Backend>(
    [query, key, value]: [DType; 3],
    options: &AttentionOptions<B>,
    sizes: &Sizes,
    device: &B::Device,
) -> Result<(), Reason> {
    let refuse = |refused: bool, reason| if refused { Err(reason) } else { Ok(()) };
    refuse(options.path == Path::Plain, Reason::AskedFor)?;
    let n_memory = options.memory.as_ref().map_or(0, |[key, _]| key.dims()[0]);
    refuse(sizes.batch * sizes.seq_q * (sizes.seq_k + n_memory) == 0, Reason::NoPairs)?;
    refuse(options.weights != WantedWeights::None, Reason::Weights)?;
    refuse(options.masking != Masking::Exclude, Reason::Overwrites)?;
    let kernels = lookup::<B>().ok_or(Reason::NoKernels)?;
    let given = [("query", query), ("key", key), ("value", value)];
    for (name, dtype) in given.into_iter().chain(options.dtypes()) {
        refuse(matches!(dtype, DType::QFloat(_)), Reason::Quantized(name))?;
    }
    refuse(!(kernels.takes)(at_least_f32(query)), Reason::ElementType(query))?;
    let own_keys = sizes.seq_k > 0;
    let frame = options.frame(sizes);
    if let Some((buckets, _)) = options.t5.as_ref().filter(|_| own_keys) {
        let reach = distance::reach(buckets, &frame);
        refuse(reach > distance::FARTHEST, Reason::FarDistances)?;
    }
    let masks = options.mask.dense_masks().map(|(_, mask)| mask.dims());
    let extent = Extent {
        sizes: *sizes,
        n_memory,
        pairs: masks.chain(options.bias.as_ref().map(Tensor::dims)).collect(),
        farthest: match own_keys && (options.alibi.is_some() || options.t5.is_some()) {
            true => distance::farthest(&frame),
            false => 0,
        },
    };
    (kernels.fits)(device, &extent).map_err(|TooLarge { what, is, most }| Reason::TooLarge {
        what,
        is,
        most,
    })
}
