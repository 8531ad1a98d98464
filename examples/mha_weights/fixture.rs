//! A stored call of a layer: its inputs and what the layer's own library made of them.

use std::{fmt::Display, path::Path};

use burn::tensor::{Tensor, backend::Backend};
use mha::Mask;
use mha::weights::{Dtype, Store};
use mha_tests::{bools, tensor};

use crate::open;
use crate::words::plain;

/// The file, whose tensors are read as they are asked for.
#[derive(Debug)]
pub(crate) struct Fixture {
    name: String,
    store: Store,
}

/// A tensor of floats: its shape and its numbers, all of them finite.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f64>,
}

impl Fixture {
    pub(crate) fn open(file: &Path) -> Result<Self, String> {
        let fixture = Self { name: plain(file.display()), store: open::store(file)? };
        for needed in ["query", "output", "d_output"] {
            if fixture.store.entry(needed).is_none() {
                return Err(
                    fixture.wrong(format_args!("is no fixture: it has no tensor `{needed}`"))
                );
            }
        }
        Ok(fixture)
    }

    /// A sentence about this file.
    pub(crate) fn wrong(&self, what: impl Display) -> String {
        plain(format_args!("{}: {what}", self.name))
    }

    /// What the file says about itself.
    pub(crate) fn says(&self, field: &str) -> Option<&str> {
        self.store.metadata().get(field).map(String::as_str)
    }

    /// A whole number that it says.
    pub(crate) fn count(&self, field: &str) -> Result<Option<usize>, String> {
        let count = self.says(field).map(|text| {
            text.parse().map_err(|_| {
                self.wrong(format_args!("{field}: expected a whole number, got {text:?}"))
            })
        });
        count.transpose()
    }

    /// The parameters whose gradients it has, and their shapes.
    pub(crate) fn gradients(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.store
            .entries()
            .filter_map(|(name, entry)| Some((name.strip_prefix("d.")?, entry.shape.as_slice())))
    }

    /// A tensor of floats, if it is there.
    pub(crate) fn stored(&self, name: &str) -> Result<Option<Stored>, String> {
        let Some(entry) = self.store.entry(name) else { return Ok(None) };
        let shape = entry.shape.clone();
        let array = self.store.read(name).map_err(plain)?;
        let numbers = array.to_f64().ok_or_else(|| {
            self.wrong(format_args!("{name}: expected floats, got {}", array.dtype()))
        })?;
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(at) => Err(self.wrong(format_args!("{name}: element {at} is {}", numbers[at]))),
            None => Ok(Some(Stored { shape, numbers })),
        }
    }

    /// A tensor of tokens, `[batch, seq, features]`, if it is there.
    pub(crate) fn tokens<B: Backend>(&self, name: &str) -> Result<Option<Tensor<B, 3>>, String> {
        let Some(Stored { shape, numbers }) = self.stored(name)? else { return Ok(None) };
        let dims = self.dims(name, &shape, "batch, seq, features")?;
        let numbers: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
        Ok(Some(tensor(&numbers, dims)))
    }

    /// What the call hides.
    pub(crate) fn mask<B: Backend>(&self) -> Result<Mask<B>, String> {
        let causal = match self.says("causal") {
            None | Some("false") => Mask::none(),
            Some("true") => Mask::causal(),
            Some(other) => {
                return Err(
                    self.wrong(format_args!("causal: expected true or false, got {other:?}"))
                );
            }
        };
        let window = self.count("window")?.map_or(Mask::none(), |left| Mask::window(left, 0));
        Ok(causal.and(window).and(self.keep()?.unwrap_or_else(Mask::none)))
    }

    fn keep<B: Backend>(&self) -> Result<Option<Mask<B>>, String> {
        let Some(entry) = self.store.entry("keep") else { return Ok(None) };
        if entry.dtype != Dtype::BOOL {
            return Err(self.wrong(format_args!("keep: expected BOOL, got {}", entry.dtype)));
        }
        let dims = self.dims::<4>("keep", &entry.shape, "batch, heads, seq_q, seq_k")?;
        let array = self.store.read("keep").map_err(plain)?;
        let keep: Vec<bool> = array.bytes().iter().map(|&byte| byte != 0).collect();
        Ok(Some(Mask::keep(bools::<B, 4>(&keep, dims))))
    }

    /// The shape with as many axes as there should be, none of them empty.
    fn dims<const D: usize>(
        &self,
        name: &str,
        shape: &[usize],
        axes: &str,
    ) -> Result<[usize; D], String> {
        let dims = <[usize; D]>::try_from(shape).ok().filter(|dims| !dims.contains(&0));
        dims.ok_or_else(|| {
            let expected = format_args!("{D} axes ({axes}), none of them empty");
            self.wrong(format_args!("{name}: expected {expected}, got shape {shape:?}"))
        })
    }
}
