//! The numbers that every implementation gets: the same weights and the same tokens.

use std::{fs, io, path::Path};

use mha_examples::random::SplitMix64;

use crate::case::{Case, D_MODEL};

/// Names of the four projections, in the order of [`Weights::projections`].
pub(crate) const PROJECTIONS: [&str; 4] = ["query", "key", "value", "output"];

/// A layer's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// Of [`PROJECTIONS`].
    pub(crate) projections: [Projection; 4],
}

/// One linear map.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    /// `[in, out]`, row by row.
    pub(crate) weight: Vec<f32>,
    /// `[out]`
    pub(crate) bias: Vec<f32>,
}

impl Weights {
    /// Uniform within ±1/√d_model, as layers start.
    pub(crate) fn draw() -> Self {
        let bound = 1.0 / (D_MODEL as f32).sqrt();
        Self {
            projections: std::array::from_fn(|i| Projection {
                weight: uniform([1, i as u64], D_MODEL * D_MODEL, bound),
                bias: uniform([2, i as u64], D_MODEL, bound),
            }),
        }
    }

    /// Writes each projection's weight and bias, little-endian, one behind the other.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let parts = self.projections.iter().flat_map(|p| [&p.weight, &p.bias]);
        write_floats(file, parts.flatten())
    }
}

/// The tokens of a case, `[batch, tokens, d_model]`, of variance 1.
pub(crate) fn tokens(case: &Case) -> Vec<f32> {
    uniform([3, 0], case.batch * case.tokens() * D_MODEL, 3_f32.sqrt())
}

/// Writes numbers as little-endian f32.
pub(crate) fn write_floats<'a>(
    file: &Path,
    values: impl IntoIterator<Item = &'a f32>,
) -> io::Result<()> {
    let bytes: Vec<u8> = values.into_iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(file, bytes)
}

/// Reads what [`write_floats`] wrote.
pub(crate) fn read_floats(file: &Path) -> io::Result<Vec<f32>> {
    let bytes = fs::read(file)?;
    Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

fn uniform(stream: [u64; 2], n: usize, bound: f32) -> Vec<f32> {
    let mut random = SplitMix64::from_words(stream);
    let mut draw = || (random.next_bits() >> 40) as f32 / (1 << 23) as f32 - 1.0;
    (0..n).map(|_| draw() * bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_variance_1_and_are_the_same_again() {
        let case = Case::decode(31);
        let drawn = tokens(&case);
        assert_eq!(drawn.len(), 32 * D_MODEL);
        assert_eq!(drawn, tokens(&case));
        let variance = drawn.iter().map(|x| x * x).sum::<f32>() / drawn.len() as f32;
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn floats_survive_a_file() {
        let file = std::env::temp_dir().join(format!("mha-bench-floats-{}", std::process::id()));
        let values = [1.5, -0.0, f32::MIN_POSITIVE];
        write_floats(&file, &values).unwrap();
        let read = read_floats(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), values);
    }
}
