//! JSON objects in which no name comes twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::error::shorten;

/// An object; a name that comes twice is an error, where most readers take either.
pub(crate) struct Unique<V>(pub(crate) BTreeMap<String, V>);

impl<V> Default for Unique<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

struct Pairs<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
    type Value = Unique<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Unique<V>, A::Error> {
        let mut pairs = Unique::default();
        while let Some(name) = object.next_key::<String>()? {
            let value = object.next_value()?;
            insert(&mut pairs.0, name, value)?;
        }
        Ok(pairs)
    }
}

/// Adds a pair whose name must be new.
pub(crate) fn insert<V, E: Error>(
    pairs: &mut BTreeMap<String, V>,
    name: String,
    value: V,
) -> Result<(), E> {
    if pairs.contains_key(&name) {
        return Err(E::custom(format_args!("the name `{}` twice", shorten(name))));
    }
    pairs.insert(name, value);
    Ok(())
}
