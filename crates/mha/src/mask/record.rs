//! Saving a mask, dense tensors too, with Burn's recorders.

use burn::record::{PrecisionSettings, Record};
use burn::tensor::{Bool, Tensor, backend::Backend};
use serde::{Deserialize, Serialize};

use super::Mask;
use super::dense::{Axes, DenseMask};
use super::rule::Rule;

/// A saved mask; `T` is a saved tensor of Booleans.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MaskItem<T> {
    rules: Vec<Rule>,
    dense: Vec<DenseItem<T>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct DenseItem<T> {
    name: String,
    axes: Axes,
    hidden: T,
}

/// Saves rules and dense masks alike; rules alone also go through serde.
impl<B: Backend> Record<B> for Mask<B> {
    type Item<S: PrecisionSettings> = MaskItem<<Tensor<B, 4, Bool> as Record<B>>::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        let item = |DenseMask { name, axes, hidden }: DenseMask<B>| DenseItem {
            name: name.to_string(),
            axes,
            hidden: hidden.into_item::<S>(),
        };
        MaskItem { rules: self.rules, dense: self.dense.into_iter().map(item).collect() }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        let mask = |DenseItem { name, axes, hidden }| DenseMask {
            name: name_of(&name),
            axes,
            hidden: Tensor::from_item::<S>(hidden, device),
        };
        Self { rules: item.rules, dense: item.dense.into_iter().map(mask).collect() }
    }
}

/// The names that errors call a dense mask by.
const NAMES: [&str; 8] = [
    "mask.block",
    "mask.keep",
    "mask.block_keys",
    "mask.keep_keys",
    "mask.from_fn",
    "mask_pad",
    "mask_attn",
    "mask_attn_heads",
];

/// A saved name, if this version knows it.
fn name_of(saved: &str) -> &'static str {
    NAMES.into_iter().find(|&name| name == saved).unwrap_or("mask")
}

#[cfg(test)]
mod tests {
    use burn::backend::NdArray;
    use burn::record::{BinBytesRecorder, FullPrecisionSettings, HalfPrecisionSettings, Recorder};

    use super::*;
    use crate::attention::Sizes;

    type B = NdArray;

    #[test]
    fn survives_a_recorder() {
        let device = Default::default();
        let sizes = Sizes { batch: 2, n_heads: 3, seq_q: 5, seq_k: 7, ..Sizes::ONE };
        let dense =
            Mask::<B>::from_fn([2, 3, 5, 7], &device, |b, h, i, j| (b + h + i * j) % 3 == 1);
        let pad = Tensor::<B, 2>::zeros([2, 7], &device).bool();
        let mask = Mask::window(3, None).and(dense).and(Mask::mask_pad(pad));
        let mask = mask.and(Mask::causal_at(vec![1, 2])).and(Mask::lengths(vec![7, 3]));

        let full = BinBytesRecorder::<FullPrecisionSettings>::default();
        let bytes = Recorder::<B>::record(&full, mask.clone(), ()).unwrap();
        let loaded: Mask<B> = full.load(bytes, &device).unwrap();
        assert_same(&loaded, &mask, &sizes);

        // Booleans and rules do not depend on the precision of floats.
        let half = BinBytesRecorder::<HalfPrecisionSettings>::default();
        let bytes = Recorder::<B>::record(&half, mask.clone(), ()).unwrap();
        let loaded: Mask<B> = half.load(bytes, &device).unwrap();
        assert_same(&loaded, &mask, &sizes);
    }

    fn assert_same(loaded: &Mask<B>, saved: &Mask<B>, sizes: &Sizes) {
        assert_eq!(loaded.rules(), saved.rules());
        assert_eq!(loaded.to_string(), saved.to_string());
        for (b, h) in (0..2).flat_map(|b| (0..3).map(move |h| (b, h))) {
            assert_eq!(loaded.draw(sizes, b, h).unwrap(), saved.draw(sizes, b, h).unwrap());
        }
    }
}
