//! Shards: several files, and an index that says which of them has a tensor.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;

use crate::error::Problem;
use crate::header::LONGEST;
use crate::source::Source;
use crate::store::{Contents, contents};
use crate::unique::Unique;
use crate::{Error, Store};

#[derive(Deserialize)]
struct Index {
    /// From a tensor's name to the name of its shard.
    weight_map: Unique<String>,
}

/// Opens an index and its shards.
pub(crate) fn open(path: &Path) -> Result<Store, Error> {
    let source = Source::open(path)?;
    if source.len() > LONGEST {
        let expected = format_args!("an index of at most {LONGEST} bytes");
        return Err(source.refuse(Problem::new(expected, source.len())));
    }
    let bytes = source.read(0, source.len() as usize)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| source.refuse(Problem::new("an index in UTF-8", error)))?;
    let index: Index = serde_json::from_str(text)
        .map_err(|error| source.refuse(Problem::new("an index with a `weight_map`", error)))?;

    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, shard) in &index.weight_map.0 {
        if !is_plain(shard) {
            let expected = "a shard in the folder of the index, by its plain name";
            let actual = format_args!("`{shard}`");
            return Err(source.refuse_tensor(tensor, Problem::new(expected, actual)));
        }
        shards.entry(shard).or_default().push(tensor);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut sources = Vec::new();
    let (mut tensors, mut unread) = (BTreeMap::new(), BTreeMap::new());
    let mut metadata: Option<BTreeMap<String, String>> = None;
    for (shard, names) in shards {
        let file = Source::open(&folder.join(shard))?;
        let mut found: Contents = contents(&file)?;
        for name in names {
            if let Some(tensor) = found.tensors.remove(name) {
                tensors.insert(name.to_owned(), (sources.len(), tensor));
            } else if let Some(kind) = found.unread.remove(name) {
                unread.insert(name.to_owned(), kind);
            } else {
                let actual = format_args!("`{shard}`, which lacks it");
                let problem = Problem::new("a shard that has it", actual);
                return Err(source.refuse_tensor(name, problem));
            }
        }
        match &mut metadata {
            Some(common) => common.retain(|key, text| found.metadata.get(key) == Some(text)),
            None => metadata = Some(found.metadata),
        }
        sources.push(file);
    }
    let name = source.name().to_owned();
    Ok(Store::from_shards(name, sources, tensors, unread, metadata.unwrap_or_default()))
}

/// Whether this names a file beside the index and nothing else, on any operating system.
fn is_plain(shard: &str) -> bool {
    let mut parts = Path::new(shard).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !shard.contains(['/', '\\', ':'])
        && !shard.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_plain_names_are_shards() {
        for plain in ["a.safetensors", "model-00001-of-00002.safetensors", "..a", "é b"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "", ".", "..", "/a", "a/", "./a", "../a", "a/b", "\\a", "a\\b", "C:a", "C:\\a", "a\0",
            "a:b",
        ] {
            assert!(!is_plain(other), "{other:?}");
        }
    }
}
