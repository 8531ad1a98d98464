//! What PyTorch's own functions would make of their arguments, told without calling them.

use safetensors::Dtype;

use super::value::{Node, Pickle, Value};
use super::view::View;
use crate::error::{Problem, shorten};

/// The most axes that a tensor of PyTorch has.
const MOST_AXES: usize = 64;

/// A value, if it is a tensor.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'p> {
    Dense(View<'p>),
    /// A tensor of a kind that is not read, in words.
    Unread(String),
    NoTensor,
}

/// What a value is.
pub(super) fn tensor<'p>(pickle: &Pickle<'p>, mut value: Value) -> Result<Found<'p>, Problem> {
    // A parameter holds a tensor. More layers than that only a forged file has.
    for _ in 0..4 {
        let Some(&Node::Call(function, arguments)) = pickle.node(value) else { break };
        let mut function = Value::Node(function);
        let mut values = pickle.tuple(Value::Node(arguments));
        if pickle.global(function) == Some(("torch._tensor", "_rebuild_from_type_v2")) {
            // A function, the class that its tensor becomes, the function's arguments, attributes.
            let Some(&[inner, _, inner_arguments, ..]) = values else { break };
            (function, values) = (inner, pickle.tuple(inner_arguments));
        }
        let Some((module, name)) = pickle.global(function) else { break };
        match (module, name, values) {
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2", Some(values)) => {
                return dense(pickle, values, None, values.get(6));
            }
            ("torch._utils", "_rebuild_tensor_v3", Some(values)) => {
                return dense(pickle, values, values.get(6).copied(), values.get(7));
            }
            (
                "torch._utils",
                "_rebuild_parameter" | "_rebuild_parameter_with_state",
                Some(&[inner, ..]),
            ) => value = inner,
            (module, name, _) if module.starts_with("torch") && name.starts_with("_rebuild") => {
                return Ok(Found::Unread(shorten(format_args!("one of {module}.{name}"))));
            }
            _ => break,
        }
    }
    Ok(Found::NoTensor)
}

/// A tensor of a storage, an offset, sizes and strides. Its elements are the storage's, but for types
/// that PyTorch has no storage class of.
fn dense<'p>(
    pickle: &Pickle<'p>,
    values: &[Value],
    dtype: Option<Value>,
    metadata: Option<&Value>,
) -> Result<Found<'p>, Problem> {
    let &[storage, offset, shape, strides, ..] = values else {
        return Err(Problem::new("a storage, an offset, sizes and strides", values.len()));
    };
    if metadata.is_some_and(|&metadata| has_pending(pickle, metadata)) {
        return Ok(Found::Unread("one with its conjugate or its negative pending".to_owned()));
    }
    let name = match pickle.node(storage) {
        Some(&Node::Persistent(name)) => pickle.tuple(name).unwrap_or_default(),
        _ => &[],
    };
    let &[kind, class, key, _location, count] = name else {
        return Err(Problem::new("a storage", pickle.describe(storage)));
    };
    let (Some("storage"), Some(key)) = (pickle.text(kind), pickle.text(key)) else {
        return Err(Problem::new("a storage and its name", pickle.describe(key)));
    };
    let class = pickle.global(class).unwrap_or_default();
    let Some(stored) = storage_dtype(class) else {
        return Ok(Found::Unread(shorten(format_args!("one of {}.{}", class.0, class.1))));
    };
    let dtype = match dtype {
        None => stored,
        Some(value) => match pickle.global(value).and_then(self::dtype) {
            Some(dtype) => dtype,
            None => return Ok(Found::Unread(format!("one of {}", pickle.describe(value)))),
        },
    };
    let storage = size(pickle, count)?.checked_mul(stored.bitsize() / 8).ok_or_else(|| {
        Problem::new(
            "a storage that fits memory",
            format_args!("{} elements", pickle.describe(count)),
        )
    })?;
    let (offset, shape) = (size(pickle, offset)?, sizes(pickle, shape)?);
    let strides = sizes(pickle, strides)?;
    if shape.len() != strides.len() {
        let expected = format_args!("{} strides", shape.len());
        return Err(Problem::new(expected, strides.len()));
    }
    Ok(Found::Dense(View { key, storage, dtype, offset, shape, strides }))
}

/// Whether the storage holds other numbers than the tensor has.
fn has_pending(pickle: &Pickle<'_>, metadata: Value) -> bool {
    let Some(Node::Dict(pairs)) = pickle.node(metadata) else { return false };
    let pending = |&(key, on): &(Value, Value)| {
        matches!(pickle.text(key), Some("conj" | "neg")) && on != Value::Bool(false)
    };
    pairs.iter().any(pending)
}

fn sizes(pickle: &Pickle<'_>, value: Value) -> Result<Vec<usize>, Problem> {
    let values = match pickle.node(value) {
        Some(Node::Tuple(values)) => values,
        // torch.Size(..) of a tuple
        Some(&Node::Call(class, arguments))
            if pickle.global(Value::Node(class)) == Some(("torch", "Size")) =>
        {
            let inner = match pickle.tuple(Value::Node(arguments)) {
                Some(&[inner]) => inner,
                _ => value,
            };
            pickle.tuple(inner).ok_or_else(|| not_sizes(pickle, inner))?
        }
        _ => return Err(not_sizes(pickle, value)),
    };
    if values.len() > MOST_AXES {
        return Err(Problem::new(format_args!("at most {MOST_AXES} axes"), values.len()));
    }
    values.iter().map(|&value| size(pickle, value)).collect()
}

fn not_sizes(pickle: &Pickle<'_>, value: Value) -> Problem {
    Problem::new("a tuple of sizes", pickle.describe(value))
}

fn size(pickle: &Pickle<'_>, value: Value) -> Result<usize, Problem> {
    let size = match value {
        Value::Int(size) => usize::try_from(size).ok(),
        _ => None,
    };
    size.ok_or_else(|| Problem::new("a size or a step", pickle.describe(value)))
}

/// The elements of a storage class.
fn storage_dtype(class: (&str, &str)) -> Option<Dtype> {
    Some(match class {
        ("torch", "DoubleStorage") => Dtype::F64,
        ("torch", "FloatStorage") => Dtype::F32,
        ("torch", "HalfStorage") => Dtype::F16,
        ("torch", "BFloat16Storage") => Dtype::BF16,
        ("torch", "LongStorage") => Dtype::I64,
        ("torch", "IntStorage") => Dtype::I32,
        ("torch", "ShortStorage") => Dtype::I16,
        ("torch", "CharStorage") => Dtype::I8,
        ("torch", "ByteStorage") => Dtype::U8,
        ("torch", "BoolStorage") => Dtype::BOOL,
        ("torch", "ComplexFloatStorage") => Dtype::C64,
        // Bytes, of which `_rebuild_tensor_v3` says the type.
        ("torch" | "torch.storage", "UntypedStorage") => Dtype::U8,
        _ => return None,
    })
}

/// A type of elements by its name in PyTorch.
fn dtype((module, name): (&str, &str)) -> Option<Dtype> {
    if module != "torch" {
        return None;
    }
    Some(match name {
        "float64" => Dtype::F64,
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "float8_e4m3fn" => Dtype::F8_E4M3,
        "float8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
        "float8_e5m2" => Dtype::F8_E5M2,
        "float8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
        "float8_e8m0fnu" => Dtype::F8_E8M0,
        "complex64" => Dtype::C64,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::BOOL,
        _ => return None,
    })
}
