//! Whether the parts of a call fit together, and in which words they do not.

use burn::tensor::{DType, Tensor, backend::Backend};

use super::sink::SinkInput;
use super::sizes::Sizes;
use super::{AttentionOptions, Masking};
use crate::error::{check_broadcast, check_shape};
use crate::{Error, Sink};

/// The sizes of a call, if query, key and value fit together.
pub(crate) fn sizes<B: Backend>(
    query: &Tensor<B, 4>,
    key: &Tensor<B, 4>,
    value: &Tensor<B, 4>,
) -> Result<Sizes, Error> {
    let [batch, seq_q, n_heads, head_dim] = query.dims();
    let [_, seq_k, n_kv_heads, _] = key.dims();
    let [_, _, _, value_dim] = value.dims();
    let axes = ["batch", "seq_k", "n_kv_heads", "head_dim"];
    check_shape("key", axes, [batch, seq_k, n_kv_heads, head_dim], key.dims())?;
    let axes = ["batch", "seq_k", "n_kv_heads", "value_dim"];
    check_shape("value", axes, [batch, seq_k, n_kv_heads, value_dim], value.dims())?;
    if n_heads == 0 || n_kv_heads == 0 || head_dim == 0 || value_dim == 0 {
        let heads = format!("n_heads {n_heads}, n_kv_heads {n_kv_heads}");
        let actual = format!("{heads}, head_dim {head_dim}, value_dim {value_dim}");
        return Err(Error::value("query, key and value", "have heads and features", actual));
    }
    groups(n_heads, n_kv_heads)?;
    like("key", key, "query", query)?;
    like("value", value, "query", query)?;
    Ok(Sizes { batch, seq_q, seq_k, n_heads, n_kv_heads, head_dim, value_dim })
}

impl<B: Backend> AttentionOptions<B> {
    /// Checks the options against the sizes of a call, and against the tensor called `like`.
    pub(crate) fn check<const D: usize>(
        &self,
        sizes: &Sizes,
        name: &'static str,
        tensor: &Tensor<B, D>,
    ) -> Result<(), Error> {
        let &Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = sizes;
        self.offset.check("query_offset", batch)?;
        self.mask.check(&self.frame(sizes), n_heads)?;
        let expected = tensor.device();
        for (mask, tensor) in self.mask.dense_masks() {
            device::<B>(mask, &tensor.device(), name, &expected)?;
        }
        if let Some(bias) = &self.bias {
            let axes = ["batch", "n_heads", "seq_q", "seq_k"];
            check_broadcast("bias", axes, [batch, n_heads, seq_q, seq_k], bias.dims())?;
            like("bias", bias, name, tensor)?;
        }
        if let Some(slopes) = &self.alibi {
            check_slopes(slopes, n_heads)?;
        }
        if let Some((buckets, table)) = &self.t5 {
            buckets.check()?;
            let expected = [buckets.n_buckets, n_heads];
            check_shape("t5 table", ["n_buckets", "n_heads"], expected, table.dims())?;
            like("t5 table", table, name, tensor)?;
        }
        if let Some([key, value]) = &self.memory {
            let [n, ..] = key.dims();
            let axes = ["n", "n_kv_heads", "head_dim"];
            check_shape("memory key", axes, [n, n_kv_heads, head_dim], key.dims())?;
            let axes = ["n", "n_kv_heads", "value_dim"];
            check_shape("memory value", axes, [n, n_kv_heads, value_dim], value.dims())?;
            like("memory key", key, name, tensor)?;
            like("memory value", value, name, tensor)?;
        }
        if let SinkInput::Learned(logits) = &self.sink {
            check_shape("sink", ["n_heads"], [n_heads], logits.dims())?;
            like("sink", logits, name, tensor)?;
        }
        if let Some(scale) = &self.head_scale {
            check_shape("head_scale", ["n_heads"], [n_heads], scale.dims())?;
            like("head_scale", scale, name, tensor)?;
        }
        scale(self.scale)?;
        softcap(self.softcap)?;
        self.masking.check()?;
        masking(self.masking, self.sink.kind())?;
        dropout(self.dropout.probability)
    }
}

/// Overwriting is there to give the numbers of `burn::nn`, which has but the quiet sink.
pub(crate) fn masking(masking: Masking, sink: Sink) -> Result<(), Error> {
    match (masking, sink) {
        (Masking::Exclude, _) | (Masking::Overwrite { .. }, Sink::None | Sink::Quiet) => Ok(()),
        (Masking::Overwrite { .. }, Sink::ZeroKey | Sink::Learned) => {
            let expected = format!("be Exclude with the sink {sink:?}");
            Err(Error::value("masking", expected, "Overwrite"))
        }
    }
}

fn check_slopes(slopes: &[f64], n_heads: usize) -> Result<(), Error> {
    if slopes.len() != n_heads {
        let expected = format!("have {n_heads} (n_heads) slopes");
        return Err(Error::value("alibi", expected, slopes.len()));
    }
    match slopes.iter().find(|slope| !(**slope as f32).is_finite()) {
        Some(slope) => Err(Error::number("alibi", "have slopes that are finite in f32", *slope)),
        None => Ok(()),
    }
}

/// Checks that the heads of keys and values, at least one, share out the query heads.
pub(crate) fn groups(n_heads: usize, n_kv_heads: usize) -> Result<(), Error> {
    if n_heads.is_multiple_of(n_kv_heads) {
        return Ok(());
    }
    let actual = format!("n_kv_heads {n_kv_heads} and n_heads {n_heads}");
    Err(Error::value("n_kv_heads", "divide n_heads", actual))
}

pub(crate) fn dropout(probability: f64) -> Result<(), Error> {
    if (0.0..1.0).contains(&probability) {
        return Ok(());
    }
    Err(Error::number("dropout", "be a probability in [0, 1)", probability))
}

pub(crate) fn scale(scale: Option<f64>) -> Result<(), Error> {
    match scale {
        Some(scale) if !(scale as f32).is_finite() => {
            Err(Error::number("scale", "be finite in f32", scale))
        }
        _ => Ok(()),
    }
}

pub(crate) fn softcap(softcap: Option<f64>) -> Result<(), Error> {
    match softcap {
        // Within these bounds neither the cap nor its reciprocal is 0 or infinite in f32.
        Some(cap) if !(1e-30..=1e30).contains(&cap) => {
            Err(Error::number("softcap", "be in [1e-30, 1e30]", cap))
        }
        _ => Ok(()),
    }
}

/// Checks that every entry has a length, none of which exceeds that of the axis.
pub(crate) fn lengths(
    name: &'static str,
    lengths: &[usize],
    batch: usize,
    (seq, what): (usize, &str),
) -> Result<(), Error> {
    if lengths.len() == batch && lengths.iter().all(|&length| length <= seq) {
        return Ok(());
    }
    let expected = format!("be {batch} (batch) numbers of at most {seq} {what}");
    Err(Error::value(name, expected, format!("{lengths:?}")))
}

/// Checks that all indices are below the size of their axis.
pub(crate) fn indices(
    name: &'static str,
    indices: &[usize],
    size: usize,
    axis: &str,
) -> Result<(), Error> {
    match indices.iter().find(|&&index| index >= size) {
        Some(index) => Err(Error::value(name, format!("be below {size} ({axis})"), index)),
        None => Ok(()),
    }
}

/// Checks that a float tensor has the element type and the device of the one called `like`.
pub(crate) fn like<B: Backend, const D1: usize, const D2: usize>(
    name: &'static str,
    tensor: &Tensor<B, D1>,
    like: &'static str,
    other: &Tensor<B, D2>,
) -> Result<(), Error> {
    let (actual, expected) = (tensor.dtype(), other.dtype());
    // Quantised parameters hold another type than the numbers that they take and give.
    let quantised = |dtype| matches!(dtype, DType::QFloat(_));
    if actual != expected && !quantised(actual) && !quantised(expected) {
        let (expected, actual) = (format!("{expected:?}"), format!("{actual:?}"));
        return Err(Error::DType { name, like, expected, actual });
    }
    device::<B>(name, &tensor.device(), like, &other.device())
}

fn device<B: Backend>(
    name: &'static str,
    actual: &B::Device,
    like: &'static str,
    expected: &B::Device,
) -> Result<(), Error> {
    if actual == expected {
        return Ok(());
    }
    let (expected, actual) = (format!("{expected:?}"), format!("{actual:?}"));
    Err(Error::Device { name, like, expected, actual })
}
