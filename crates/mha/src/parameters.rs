//! Whether a module's parameters are those that its configuration asked for.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{Tensor, backend::Backend};

use crate::attention::check::like;
use crate::error::check_shape;
use crate::norm::HeadNorm;
use crate::record::missing;
use crate::settings::Settings;
use crate::widths::Widths;
use crate::{Error, Gate, MultiHeadAttention, Position, Sink};

impl<B: Backend> MultiHeadAttention<B> {
    /// Whether every parameter is there that the configuration asked for, in its shape, and the layers
    /// agree: Burn's `load_record` takes those out that a record lacks and takes others in of any
    /// shape, and a mapper may have cast or moved some.
    pub(crate) fn check_parameters(&self) -> Result<(), Error> {
        let settings = &self.settings;
        let slots = settings.bias_kv > 0;
        let table = matches!(settings.position, Position::T5(_));
        let asked = [
            ("gate", settings.gate != Gate::None, self.gate.is_some()),
            ("query_norm", settings.qk_norm, self.query_norm.is_some()),
            ("key_norm", settings.qk_norm, self.key_norm.is_some()),
            ("bias_k", slots, self.bias_k.is_some()),
            ("bias_v", slots, self.bias_v.is_some()),
            ("relative_bias", table, self.relative_bias.is_some()),
            ("sinks", settings.sink == Sink::Learned, self.sinks.is_some()),
        ];
        match asked.into_iter().find(|(_, asked, there)| *asked && !there) {
            Some((name, ..)) => Err(missing(name)),
            None => self.check_shapes().and_then(|()| self.check_layers()),
        }
    }

    /// Whether all layers have the element type and the device of the query's weight.
    fn check_layers(&self) -> Result<(), Error> {
        let first = self.query.weight.val();
        let layers = [
            ("query.weight", "query.bias", Some(&self.query)),
            ("key.weight", "key.bias", Some(&self.key)),
            ("value.weight", "value.bias", Some(&self.value)),
            ("output.weight", "output.bias", Some(&self.output)),
            ("gate.weight", "gate.bias", self.gate.as_ref()),
        ];
        for (weight, bias, layer) in layers {
            let Some(layer) = layer else { continue };
            like(weight, &layer.weight.val(), "query.weight", &first)?;
            if let Some(tensor) = &layer.bias {
                like(bias, &tensor.val(), "query.weight", &first)?;
            }
        }
        Ok(())
    }

    fn check_shapes(&self) -> Result<(), Error> {
        let Settings { widths, gate, bias_kv, position, .. } = &self.settings;
        let &Widths { d_model, n_heads, n_kv_heads, head_dim, value_dim, .. } = widths;
        let layers = [&self.query, &self.key, &self.value, &self.output];
        let names = ["query", "key", "value", "output"];
        for ((name, layer), dims) in names.into_iter().zip(layers).zip(widths.projections()) {
            check_layer(name, layer, dims)?;
        }
        if let Some(layer) = &self.gate {
            let width = if *gate == Gate::PerHead { n_heads } else { n_heads * value_dim };
            check_layer("gate", layer, [d_model, width])?;
        }
        for (name, norm) in [("query_norm", &self.query_norm), ("key_norm", &self.key_norm)] {
            let Some(HeadNorm { gamma, beta, .. }) = norm else { continue };
            check_dims(&format!("{name}.gamma"), ["head_dim"], [head_dim], Some(gamma))?;
            check_dims(&format!("{name}.beta"), ["head_dim"], [head_dim], beta.as_ref())?;
        }
        let axes = ["bias_kv", "features"];
        check_dims("bias_k", axes, [*bias_kv, n_kv_heads * head_dim], self.bias_k.as_ref())?;
        check_dims("bias_v", axes, [*bias_kv, n_kv_heads * value_dim], self.bias_v.as_ref())?;
        if let Position::T5(buckets) = position {
            let (axes, dims) = (["n_buckets", "n_heads"], [buckets.n_buckets, n_heads]);
            check_dims("relative_bias", axes, dims, self.relative_bias.as_ref())?;
        }
        check_dims("sinks", ["n_heads"], [n_heads], self.sinks.as_ref())
    }
}

fn check_layer<B: Backend>(
    name: &str,
    layer: &Linear<B>,
    [d_input, d_output]: [usize; 2],
) -> Result<(), Error> {
    let axes = ["d_input", "d_output"];
    check_dims(&format!("{name}.weight"), axes, [d_input, d_output], Some(&layer.weight))?;
    check_dims(&format!("{name}.bias"), ["d_output"], [d_output], layer.bias.as_ref())
}

fn check_dims<B: Backend, const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    parameter: Option<&Param<Tensor<B, D>>>,
) -> Result<(), Error> {
    match parameter {
        Some(parameter) => check_shape(name, axes, expected, parameter.dims()),
        None => Ok(()),
    }
}
