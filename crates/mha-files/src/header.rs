//! The header of a safetensors file: <https://github.com/huggingface/safetensors#format>.

use std::collections::BTreeMap;
use std::fmt;

use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::error::{Problem, shorten};
use crate::layout::{Layout, Tensor};
use crate::source::Source;
use crate::store::Contents;
use crate::unique::{Unique, insert};
use crate::{Entry, Error};

/// The longest header that the format allows, in bytes.
pub(crate) const LONGEST: u64 = 100_000_000;

/// The name that is no tensor's.
pub(crate) const METADATA: &str = "__metadata__";

/// Before the header: its length, little-endian.
pub(crate) const LENGTH: u64 = 8;

/// What the header says, and that the file agrees.
pub(crate) fn open(source: &Source) -> Result<Contents, Error> {
    let of_file = |problem| source.refuse(problem);
    let Some(rest) = source.len().checked_sub(LENGTH) else {
        let expected = format_args!("{LENGTH} bytes with the length of the header");
        return Err(of_file(Problem::new(expected, format_args!("{} bytes", source.len()))));
    };
    let length = source.read(0, LENGTH as usize)?;
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    if length > rest.min(LONGEST) {
        let (most, why) = if rest < LONGEST {
            (rest, "what follows its length")
        } else {
            (LONGEST, "what the format allows")
        };
        let expected = format_args!("a header of at most {most} bytes ({why})");
        return Err(of_file(Problem::new(expected, length)));
    }
    let bytes = source.read(LENGTH, length as usize)?;
    if bytes.first() != Some(&b'{') {
        let actual = bytes.first().map_or("nothing".to_owned(), |byte| format!("byte {byte:#04x}"));
        return Err(of_file(Problem::new("a header that begins with `{`", actual)));
    }
    // Checked as a whole: what is skipped below it would not be.
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| of_file(Problem::new("a header in UTF-8", error)))?;
    let header: Header = serde_json::from_str(text)
        .map_err(|error| of_file(Problem::new("a safetensors header", error)))?;
    place(source, header, rest - length)
}

/// Checks that the tensors fill the `data` bytes after the header, each once.
fn place(source: &Source, header: Header, data: u64) -> Result<Contents, Error> {
    let mut tensors: Vec<(String, TensorInfo)> = header.tensors.into_iter().collect();
    // Not the name as well: tensors without bytes share their place with another.
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let mut end = 0;
    let mut contents = Contents { metadata: header.metadata, ..Contents::default() };
    for (name, TensorInfo { dtype, shape, data_offsets: (from, to) }) in tensors {
        let entry = Entry { dtype, shape };
        let refuse = |problem| Err(source.refuse_tensor(&name, problem));
        let Some(len) = entry.byte_len() else {
            let expected = "a shape of whole bytes whose number fits memory";
            return refuse(Problem::new(expected, &entry));
        };
        if from.checked_add(len) != Some(to) {
            let expected = format_args!("{len} bytes for {entry}");
            let actual = format_args!("bytes {from} to {to}");
            return refuse(Problem::new(expected, actual));
        }
        if from != end {
            let expected = format_args!("bytes from {end} on, where the tensor before it ends");
            return refuse(Problem::new(expected, format_args!("bytes {from} to {to}")));
        }
        end = to;
        let start = source.len() - data + from as u64;
        contents.tensors.insert(name, Tensor { entry, start, layout: Layout::Rows });
    }
    if end as u64 != data {
        let expected = format_args!("{end} bytes of tensors after the header");
        return Err(source.refuse(Problem::new(expected, data)));
    }
    Ok(contents)
}

/// The header as it is written.
#[derive(Default)]
struct Header {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut seen = false;
        while let Some(name) = object.next_key::<String>()? {
            if name != METADATA {
                let info = object.next_value().map_err(|error| {
                    A::Error::custom(format_args!("tensor `{}`: {error}", shorten(&name)))
                })?;
                insert(&mut header.tensors, name, info)?;
            } else if std::mem::replace(&mut seen, true) {
                return Err(A::Error::custom(format_args!("the name `{METADATA}` twice")));
            } else {
                header.metadata = object.next_value::<Unique<String>>()?.0;
            }
        }
        Ok(header)
    }
}
