//! One attention call whose parts have been checked: what every path computes.

use burn::tensor::{DType, Tensor, backend::Backend};

use super::AttentionOptions;
use super::sizes::Sizes;
use crate::Error;
use crate::error::{check_broadcast, check_shape};

/// A checked call: shapes, element types and devices agree.
pub(crate) struct Problem<'a, B: Backend> {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub(crate) query: Tensor<B, 4>,
    /// `[batch, seq_k, n_kv_heads, head_dim]`
    pub(crate) key: Tensor<B, 4>,
    /// `[batch, seq_k, n_kv_heads, value_dim]`
    pub(crate) value: Tensor<B, 4>,
    pub(crate) sizes: Sizes,
    pub(crate) options: &'a AttentionOptions<B>,
}

impl<'a, B: Backend> Problem<'a, B> {
    pub(crate) fn new(
        query: Tensor<B, 4>,
        key: Tensor<B, 4>,
        value: Tensor<B, 4>,
        options: &'a AttentionOptions<B>,
    ) -> Result<Self, Error> {
        let [batch, seq_q, n_heads, head_dim] = query.dims();
        let [_, seq_k, n_kv_heads, _] = key.dims();
        let [_, _, _, value_dim] = value.dims();
        let sizes = Sizes { batch, seq_q, seq_k, n_heads, n_kv_heads, head_dim, value_dim };

        let axes = ["batch", "seq_k", "n_kv_heads", "head_dim"];
        check_shape("key", axes, [batch, seq_k, n_kv_heads, head_dim], key.dims())?;
        let axes = ["batch", "seq_k", "n_kv_heads", "value_dim"];
        check_shape("value", axes, [batch, seq_k, n_kv_heads, value_dim], value.dims())?;
        if n_heads == 0 || n_kv_heads == 0 || head_dim == 0 || value_dim == 0 {
            let heads = format!("n_heads {n_heads}, n_kv_heads {n_kv_heads}");
            let actual = format!("{heads}, head_dim {head_dim}, value_dim {value_dim}");
            return Err(Error::value("query, key and value", "have heads and features", actual));
        }
        check_groups(n_heads, n_kv_heads)?;
        check_like("key", &key, "query", &query)?;
        check_like("value", &value, "query", &query)?;
        options.check(&sizes, "query", &query)?;
        Ok(Self { query, key, value, sizes, options })
    }
}

impl<B: Backend> AttentionOptions<B> {
    /// Checks the options against the sizes of a call, and against the tensor called `like`.
    pub(crate) fn check<const D: usize>(
        &self,
        sizes: &Sizes,
        like: &'static str,
        tensor: &Tensor<B, D>,
    ) -> Result<(), Error> {
        self.masks.check(sizes)?;
        if let Some(bias) = &self.bias {
            let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
            let axes = ["batch", "n_heads", "seq_q", "seq_k"];
            check_broadcast("bias", axes, [batch, n_heads, seq_q, seq_k], bias.dims())?;
            check_like("bias", bias, like, tensor)?;
        }
        let device = tensor.device();
        if let Some(mask) = &self.masks.pad {
            check_device::<B>("mask_pad", &mask.device(), like, &device)?;
        }
        if let Some(mask) = &self.masks.attn {
            check_device::<B>("mask_attn", &mask.device(), like, &device)?;
        }
        if let Some(mask) = &self.masks.heads {
            check_device::<B>("mask_attn_heads", &mask.device(), like, &device)?;
        }
        check_scale(self.scale)?;
        check_softcap(self.softcap)?;
        self.masking.check()?;
        check_dropout(self.dropout.probability)
    }
}

/// Checks that the heads of keys and values, at least one, share out the query heads.
pub(crate) fn check_groups(n_heads: usize, n_kv_heads: usize) -> Result<(), Error> {
    if n_heads.is_multiple_of(n_kv_heads) {
        return Ok(());
    }
    let actual = format!("n_kv_heads {n_kv_heads} and n_heads {n_heads}");
    Err(Error::value("n_kv_heads", "divide n_heads", actual))
}

pub(crate) fn check_dropout(probability: f64) -> Result<(), Error> {
    if (0.0..1.0).contains(&probability) {
        return Ok(());
    }
    Err(Error::value("dropout", "be a probability in [0, 1)", probability))
}

pub(crate) fn check_scale(scale: Option<f64>) -> Result<(), Error> {
    match scale {
        Some(scale) if !(scale as f32).is_finite() => {
            Err(Error::value("scale", "be finite in f32", scale))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_softcap(softcap: Option<f64>) -> Result<(), Error> {
    match softcap {
        // Within these bounds neither the cap nor its reciprocal is 0 or infinite in f32.
        Some(cap) if !(1e-30..=1e30).contains(&cap) => {
            Err(Error::value("softcap", "be in [1e-30, 1e30]", cap))
        }
        _ => Ok(()),
    }
}

/// Checks that a float tensor has the element type and the device of the one called `like`.
pub(crate) fn check_like<B: Backend, const D1: usize, const D2: usize>(
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
    check_device::<B>(name, &tensor.device(), like, &other.device())
}

fn check_device<B: Backend>(
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
