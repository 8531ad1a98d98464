//! Loading a record with its names and shapes compared first.

use burn::module::{Module, Param};
use burn::nn::LinearRecord;
use burn::tensor::{Tensor, backend::Backend};

use crate::error::check_shape;
use crate::module::MultiHeadAttentionRecord;
use crate::{Error, MultiHeadAttention};

impl<B: Backend> MultiHeadAttention<B> {
    /// A copy of this module with the record's parameters, or an error that names the parameter
    /// that does not fit. Burn's own `load_record` takes weights of any shape and drops a bias
    /// that the module lacks.
    ///
    /// A record holds parameters only: the number of heads and the other options stay this
    /// module's, so save the configuration beside the record.
    ///
    /// # Errors
    ///
    /// When a shape differs, or a bias is in the record and not in the module or the other way
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
        Ok(self.clone().load_record(record))
    }
}

fn check_linear<B: Backend>(
    name: &str,
    module: &burn::nn::Linear<B>,
    record: &LinearRecord<B>,
) -> Result<(), Error> {
    let axes = ["d_input", "d_output"];
    let weight = format!("{name}.weight");
    check_shape(&weight, axes, module.weight.dims(), record.weight.dims())?;

    let bias = format!("{name}.bias");
    let dims = |bias: &Param<Tensor<B, 1>>| bias.dims();
    match (module.bias.as_ref().map(dims), record.bias.as_ref().map(dims)) {
        (Some(expected), Some(actual)) => check_shape(&bias, ["d_output"], expected, actual),
        (Some(_), None) => {
            Err(Error::Record { name: bias, expected: "a parameter", actual: "none" })
        }
        (None, Some(_)) => Err(Error::Record { name: bias, expected: "none", actual: "one" }),
        (None, None) => Ok(()),
    }
}
