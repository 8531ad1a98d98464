//! Elements of one type as those of another.

use burn::tensor::{DType, TensorData};
use mha_files::{Array, Dtype};

use super::Error;
use super::layer::to_data;

// Files are little-endian, and their bytes become tensors as they are.
const _: () = assert!(cfg!(target_endian = "little"), "weights are read on little-endian machines");

const FLOATS: [(Dtype, DType); 4] = [
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
];

pub(super) fn burn_dtype(dtype: Dtype) -> Option<DType> {
    FLOATS.iter().find(|(file, _)| *file == dtype).map(|(_, burn)| *burn)
}

fn file_dtype(dtype: DType) -> Option<Dtype> {
    FLOATS.iter().find(|(_, burn)| *burn == dtype).map(|(file, _)| *file)
}

pub(super) fn wrong_dtype(name: &str, actual: impl std::fmt::Debug) -> Error {
    let expected = "f16, bf16, f32 or f64".to_string();
    Error::Dtype { name: name.to_string(), expected, actual: format!("{actual:?}") }
}

pub(super) fn check_dtype(name: &str, dtype: Dtype) -> Result<(), Error> {
    burn_dtype(dtype).map(|_| ()).ok_or_else(|| wrong_dtype(name, dtype))
}

/// Checks that no element is NaN or infinite.
pub(super) fn check_finite(name: &str, array: &Array) -> Result<(), Error> {
    let values = array.to_f64().ok_or_else(|| wrong_dtype(name, array.dtype()))?;
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => {
            Err(Error::NotFinite { name: name.to_string(), index, value: values[index] })
        }
        None => Ok(()),
    }
}

/// The same numbers in another type, rounded to it.
pub(super) fn cast(array: &Array, dtype: Dtype) -> Result<Array, Error> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let target = burn_dtype(dtype).ok_or_else(|| wrong_dtype("the file", dtype))?;
    from_data("the file", to_data(array)?.convert_dtype(target))
}

/// Numbers plus `by`, in f32, in f64 if they are f64.
pub(super) fn shifted(array: &Array, by: f64) -> Result<Array, Error> {
    let values = array.to_f64().ok_or_else(|| wrong_dtype("the file", array.dtype()))?;
    let values: Vec<f64> = values.into_iter().map(|value| value + by).collect();
    let data = TensorData::new(values, array.shape().to_vec());
    let wide = array.dtype() == Dtype::F64;
    from_data("the file", data.convert_dtype(if wide { DType::F64 } else { DType::F32 }))
}

/// A tensor's data as a file has it.
pub(super) fn from_data(name: &str, data: TensorData) -> Result<Array, Error> {
    let dtype = file_dtype(data.dtype).ok_or_else(|| wrong_dtype(name, data.dtype))?;
    Ok(Array::new(dtype, data.shape.to_vec(), data.bytes.to_vec())?)
}
