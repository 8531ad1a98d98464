//! Whether a module's parameters are those that its configuration asked for.

use burn::module::Param;
use burn::tensor::{Tensor, backend::Backend};

use crate::attention::check::like;
use crate::error::check_shape;
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
            None => self.check_layers().and_then(|()| self.check_others()),
        }
    }

    /// Whether all layers have their shapes, and the element type and device of the query's weight.
    fn check_layers(&self) -> Result<(), Error> {
        let Settings { widths, gate, .. } = &self.settings;
        let [query, key, value, output] = widths.projections();
        let gate_dims = [widths.d_model, gate.width(widths).unwrap_or(0)];
        let first = self.query.weight.val();
        let layers = [
            ("query.weight", "query.bias", Some(&self.query), query),
            ("key.weight", "key.bias", Some(&self.key), key),
            ("value.weight", "value.bias", Some(&self.value), value),
            ("output.weight", "output.bias", Some(&self.output), output),
            ("gate.weight", "gate.bias", self.gate.as_ref(), gate_dims),
        ];
        for (weight, bias, layer, [d_input, d_output]) in layers {
            let Some(layer) = layer else { continue };
            let axes = ["d_input", "d_output"];
            check_shape(weight, axes, [d_input, d_output], layer.weight.dims())?;
            check_dims(bias, ["d_output"], [d_output], &layer.bias)?;
            like(weight, &layer.weight.val(), "query.weight", &first)?;
            if let Some(tensor) = &layer.bias {
                like(bias, &tensor.val(), "query.weight", &first)?;
            }
        }
        Ok(())
    }

    /// Whether all other parameters have their shapes.
    fn check_others(&self) -> Result<(), Error> {
        let Settings { widths, bias_kv, position, .. } = &self.settings;
        let &Widths { n_heads, n_kv_heads, head_dim, value_dim, .. } = widths;
        let norms = [
            ("query_norm.gamma", "query_norm.beta", &self.query_norm),
            ("key_norm.gamma", "key_norm.beta", &self.key_norm),
        ];
        for (gamma, beta, norm) in norms {
            let Some(norm) = norm else { continue };
            check_shape(gamma, ["head_dim"], [head_dim], norm.gamma.dims())?;
            check_dims(beta, ["head_dim"], [head_dim], &norm.beta)?;
        }
        let axes = ["bias_kv", "features"];
        check_dims("bias_k", axes, [*bias_kv, n_kv_heads * head_dim], &self.bias_k)?;
        check_dims("bias_v", axes, [*bias_kv, n_kv_heads * value_dim], &self.bias_v)?;
        if let Position::T5(buckets) = position {
            let (axes, dims) = (["n_buckets", "n_heads"], [buckets.n_buckets, n_heads]);
            check_dims("relative_bias", axes, dims, &self.relative_bias)?;
        }
        check_dims("sinks", ["n_heads"], [n_heads], &self.sinks)
    }
}

fn check_dims<B: Backend, const D: usize>(
    name: &str,
    axes: [&'static str; D],
    expected: [usize; D],
    parameter: &Option<Param<Tensor<B, D>>>,
) -> Result<(), Error> {
    match parameter {
        Some(parameter) => check_shape(name, axes, expected, parameter.dims()),
        None => Ok(()),
    }
}
