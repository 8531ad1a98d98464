//! Loading a record with its names and shapes compared first.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearRecord};
use burn::tensor::{Tensor, backend::Backend};

use crate::error::check_shape;
use crate::module::MultiHeadAttentionRecord;
use crate::norm::{HeadNorm, HeadNormRecord};
use crate::{Error, MultiHeadAttention};

impl<B: Backend> MultiHeadAttention<B> {
    /// A copy of this module with the record's parameters, or an error that names the parameter
    /// that does not fit. Burn's own `load_record` takes weights of any shape, drops what the module
    /// lacks and takes out what the record lacks.
    ///
    /// A record holds parameters only: the number of heads and the other options stay this
    /// module's, so save the configuration beside the record.
    ///
    /// # Errors
    ///
    /// When a shape differs, or a parameter is in the record and not in the module or the other way
    /// round.
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use burn::module::Module;
    /// use mha::MultiHeadAttentionConfig;
    ///
    /// let device = Default::default();
    /// let small = MultiHeadAttentionConfig::new(6, 2).init::<NdArray>(&device);
    /// let large = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
    /// let error = large.try_load_record(small.into_record()).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "query.weight: expected shape [8, 8] (d_input, d_output), got [6, 6]"
    /// );
    /// ```
    pub fn try_load_record(&self, record: MultiHeadAttentionRecord<B>) -> Result<Self, Error> {
        let pairs = [
            ("query", &self.query, &record.query),
            ("key", &self.key, &record.key),
            ("value", &self.value, &record.value),
            ("output", &self.output, &record.output),
        ];
        for (name, module, record) in pairs {
            check_linear(name, module, record)?;
        }
        if let Some((module, record)) = both("gate", &self.gate, &record.gate)? {
            check_linear("gate", module, record)?;
        }
        check_norm("query_norm", &self.query_norm, &record.query_norm)?;
        check_norm("key_norm", &self.key_norm, &record.key_norm)?;
        let axes = ["bias_kv", "features"];
        check_optional("bias_k", axes, &self.bias_k, &record.bias_k)?;
        check_optional("bias_v", axes, &self.bias_v, &record.bias_v)?;
        let axes = ["n_buckets", "n_heads"];
        check_optional("relative_bias", axes, &self.relative_bias, &record.relative_bias)?;
        check_optional("sinks", ["n_heads"], &self.sinks, &record.sinks)?;
        Ok(self.clone().load_record(record))
    }
}

pub(crate) fn missing(name: impl Into<String>) -> Error {
    Error::Record { name: name.into(), expected: "a parameter", actual: "none" }
}

/// What both have, or an error when only one has it.
fn both<'a, M, R>(
    name: &str,
    module: &'a Option<M>,
    record: &'a Option<R>,
) -> Result<Option<(&'a M, &'a R)>, Error> {
    match (module, record) {
        (Some(module), Some(record)) => Ok(Some((module, record))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(missing(name)),
        (None, Some(_)) => {
            Err(Error::Record { name: name.to_string(), expected: "none", actual: "one" })
        }
    }
}

fn check_optional<B: Backend, const D: usize>(
    name: &str,
    axes: [&'static str; D],
    module: &Option<Param<Tensor<B, D>>>,
    record: &Option<Param<Tensor<B, D>>>,
) -> Result<(), Error> {
    match both(name, module, record)? {
        Some((module, record)) => check_shape(name, axes, module.dims(), record.dims()),
        None => Ok(()),
    }
}

fn check_linear<B: Backend>(
    name: &str,
    module: &Linear<B>,
    record: &LinearRecord<B>,
) -> Result<(), Error> {
    let axes = ["d_input", "d_output"];
    check_shape(&format!("{name}.weight"), axes, module.weight.dims(), record.weight.dims())?;
    check_optional(&format!("{name}.bias"), ["d_output"], &module.bias, &record.bias)
}

fn check_norm<B: Backend>(
    name: &str,
    module: &Option<HeadNorm<B>>,
    record: &Option<HeadNormRecord<B>>,
) -> Result<(), Error> {
    let Some((module, record)) = both(name, module, record)? else { return Ok(()) };
    let axes = ["head_dim"];
    check_shape(&format!("{name}.gamma"), axes, module.gamma.dims(), record.gamma.dims())?;
    check_optional(&format!("{name}.beta"), axes, &module.beta, &record.beta)
}
