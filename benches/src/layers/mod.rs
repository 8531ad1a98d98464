//! The layers that are measured in this process.

mod burn_nn;
#[cfg(feature = "candle")]
mod candle;
mod layer;
mod on_burn;
mod ours;

use burn::backend::{Flex, NdArray};

pub(crate) use ours::mask;

use crate::{case::Case, data::Weights, implementation::Implementation, step::Step};

/// Makes `implementation` ready for a case on these tokens, or says why it is none of these layers.
pub(crate) fn prepare(
    implementation: Implementation,
    case: &Case,
    weights: &Weights,
    tokens: &[f32],
) -> Result<Box<dyn Step>, String> {
    match implementation {
        Implementation::MhaNdarray => {
            Ok(on_burn::prepare::<ours::Ours, NdArray<f32>>(case, weights, tokens))
        }
        Implementation::MhaFlex => Ok(on_burn::prepare::<ours::Ours, Flex>(case, weights, tokens)),
        Implementation::BurnNnNdarray => {
            Ok(on_burn::prepare::<burn_nn::BurnNn, NdArray<f32>>(case, weights, tokens))
        }
        Implementation::BurnNnFlex => {
            Ok(on_burn::prepare::<burn_nn::BurnNn, Flex>(case, weights, tokens))
        }
        #[cfg(feature = "candle")]
        Implementation::Candle => {
            candle::prepare(case, weights, tokens).map_err(|error| error.to_string())
        }
        #[cfg(not(feature = "candle"))]
        Implementation::Candle => {
            Err("built without it; `cargo run --release -p mha-bench --features candle`".into())
        }
        Implementation::Torch | Implementation::Onnxruntime | Implementation::GemmLimit => {
            Err(format!("{} does not run in this process", implementation.name()))
        }
    }
}
