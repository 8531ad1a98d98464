//! Parameters into a module, and out of it.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Tensor, TensorData, backend::Backend};
use mha_files::Array;

use super::layer::{Parameters, to_data};
use super::numbers::{check_finite, from_data};
use super::{Error, Family};
use crate::norm::HeadNorm;
use crate::{MultiHeadAttention, MultiHeadAttentionConfig, ProjectionBias};

/// A module with these parameters, every one of them.
pub(super) fn module<B: Backend>(
    prefix: &str,
    config: &MultiHeadAttentionConfig,
    parameters: &Parameters,
    device: &B::Device,
) -> Result<MultiHeadAttention<B>, Error> {
    let refused = |error| Error::Config { prefix: prefix.to_string(), error };
    let mut module = config.try_init::<B>(device).map_err(refused)?;
    let read = Read { parameters, device };
    read.linear("query.weight", "query.bias", &mut module.query)?;
    read.linear("key.weight", "key.bias", &mut module.key)?;
    read.linear("value.weight", "value.bias", &mut module.value)?;
    read.linear("output.weight", "output.bias", &mut module.output)?;
    if let Some(gate) = &mut module.gate {
        read.linear("gate.weight", "gate.bias", gate)?;
    }
    read.norm("query_norm.gamma", "query_norm.beta", &mut module.query_norm)?;
    read.norm("key_norm.gamma", "key_norm.beta", &mut module.key_norm)?;
    read.optional("bias_k", &mut module.bias_k)?;
    read.optional("bias_v", &mut module.bias_v)?;
    read.optional("relative_bias", &mut module.relative_bias)?;
    read.optional("sinks", &mut module.sinks)?;
    Ok(module)
}

struct Read<'a, B: Backend> {
    parameters: &'a Parameters,
    device: &'a B::Device,
}

impl<B: Backend> Read<'_, B> {
    fn linear(
        &self,
        weight: &'static str,
        bias: &'static str,
        layer: &mut Linear<B>,
    ) -> Result<(), Error> {
        self.parameter(weight, &mut layer.weight)?;
        self.optional(bias, &mut layer.bias)
    }

    fn norm(
        &self,
        gamma: &'static str,
        beta: &'static str,
        norm: &mut Option<HeadNorm<B>>,
    ) -> Result<(), Error> {
        let Some(norm) = norm else { return Ok(()) };
        self.parameter(gamma, &mut norm.gamma)?;
        self.optional(beta, &mut norm.beta)
    }

    fn optional<const D: usize>(
        &self,
        name: &'static str,
        slot: &mut Option<Param<Tensor<B, D>>>,
    ) -> Result<(), Error> {
        slot.as_mut().map_or(Ok(()), |slot| self.parameter(name, slot))
    }

    fn parameter<const D: usize>(
        &self,
        name: &'static str,
        slot: &mut Param<Tensor<B, D>>,
    ) -> Result<(), Error> {
        let what =
            || Error::NoPlace { family: Family::Mha, what: format!("a module without {name}") };
        let array = self.parameters.get(name).ok_or_else(what)?;
        *slot = Param::from_tensor(tensor(name, array, self.device)?);
        Ok(())
    }
}

/// A tensor in the float type of the device.
pub(super) fn tensor<B: Backend, const D: usize>(
    name: &str,
    array: &Array,
    device: &B::Device,
) -> Result<Tensor<B, D>, Error> {
    let tensor = Tensor::<B, D>::from_data(to_data(array)?, device);
    // A narrower type may not reach as far.
    if tensor.dtype().size() * 8 < array.dtype().bitsize() {
        check_finite(name, &from_data(name, tensor.to_data())?)?;
    }
    Ok(tensor)
}

/// The parameters of a module, in its element type.
pub(super) fn parameters<B: Backend>(module: &MultiHeadAttention<B>) -> Result<Parameters, Error> {
    let mut parameters = Parameters::new();
    let mut put = |name: &'static str, data: Option<TensorData>| -> Result<(), Error> {
        if let Some(data) = data {
            parameters.insert(name, from_data(name, data)?);
        }
        Ok(())
    };
    let layers = [
        ("query.weight", "query.bias", Some(&module.query)),
        ("key.weight", "key.bias", Some(&module.key)),
        ("value.weight", "value.bias", Some(&module.value)),
        ("output.weight", "output.bias", Some(&module.output)),
        ("gate.weight", "gate.bias", module.gate.as_ref()),
    ];
    for (weight, bias, layer) in layers {
        put(weight, layer.map(|layer| layer.weight.val().into_data()))?;
        put(bias, layer.and_then(|layer| data(&layer.bias)))?;
    }
    let norms = [
        ("query_norm.gamma", "query_norm.beta", &module.query_norm),
        ("key_norm.gamma", "key_norm.beta", &module.key_norm),
    ];
    for (gamma, beta, norm) in norms {
        put(gamma, norm.as_ref().map(|norm| norm.gamma.val().into_data()))?;
        put(beta, norm.as_ref().and_then(|norm| data(&norm.beta)))?;
    }
    put("bias_k", data(&module.bias_k))?;
    put("bias_v", data(&module.bias_v))?;
    put("relative_bias", data(&module.relative_bias))?;
    put("sinks", data(&module.sinks))?;
    Ok(parameters)
}

fn data<B: Backend, const D: usize>(parameter: &Option<Param<Tensor<B, D>>>) -> Option<TensorData> {
    parameter.as_ref().map(|parameter| parameter.val().into_data())
}

/// The configuration that a module was built from, as far as it computes with it.
pub(super) fn config_of<B: Backend>(module: &MultiHeadAttention<B>) -> MultiHeadAttentionConfig {
    let (settings, widths) = (&module.settings, &module.settings.widths);
    let bias = |layer: &Linear<B>| layer.bias.is_some();
    let other = |width, usual| (width != usual).then_some(width);
    let mut config = MultiHeadAttentionConfig::new(widths.d_model, widths.n_heads)
        .with_dropout(settings.dropout)
        .with_position(settings.position.clone())
        .with_bias_kv(settings.bias_kv)
        .with_sink(settings.sink)
        .with_gate(settings.gate)
        .with_masking(settings.masking)
        .with_path(settings.path);
    config.n_kv_heads = other(widths.n_kv_heads, widths.n_heads);
    config.head_dim =
        (widths.head_dim * widths.n_heads != widths.d_model).then_some(widths.head_dim);
    config.value_dim = other(widths.value_dim, widths.head_dim);
    config.d_key = other(widths.d_key, widths.d_model);
    config.d_value = other(widths.d_value, widths.d_model);
    config.d_output = other(widths.d_output, widths.d_model);
    config.scale = settings.scale;
    config.softcap = settings.softcap;
    config.qk_norm = module.query_norm.as_ref().map(|norm| norm.norm);
    config.bias = ProjectionBias {
        query: bias(&module.query),
        key: bias(&module.key),
        value: bias(&module.value),
        output: bias(&module.output),
        gate: module.gate.as_ref().is_none_or(bias),
    };
    config
}
