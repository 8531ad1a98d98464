//! The file of weights, with what the command line says besides.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use mha::weights::{Checkpoint, Error, Model, Store};

use crate::args::Weights;
use crate::words::{plain, said};

/// More than any config.json has: some hundred thousand bytes.
const LONGEST_CONFIG: u64 = 16 << 20;

/// Opens the file. No tensor is read yet.
pub(crate) fn open(weights: &Weights) -> Result<Checkpoint, String> {
    let checkpoint = match &weights.config {
        // What lies beside FILE is not read then, and may be damaged.
        Some(config) => {
            let model = read_config(config)?;
            Checkpoint::new(store(&weights.file)?, model)
        }
        None => Checkpoint::open(&weights.file).map_err(|error| said(&error))?,
    };
    let mut model = checkpoint.model().clone();
    if let Some(n_heads) = weights.heads {
        model = model.with_heads(n_heads);
    }
    if let Some(n_kv_heads) = weights.kv_heads {
        model = model.with_kv_heads(n_kv_heads);
    }
    Ok(checkpoint.with_model(model))
}

/// The tensors of a file alone.
pub(crate) fn store(file: &Path) -> Result<Store, String> {
    Store::open(file).map_err(plain)
}

fn read_config(file: &Path) -> Result<Model, String> {
    let in_file = |what: String| plain(format_args!("{}: {what}", file.display()));
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(file)?.take(LONGEST_CONFIG + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| in_file(error.to_string()))?;
    if text.len() as u64 > LONGEST_CONFIG {
        return Err(in_file(format!("expected at most {LONGEST_CONFIG} bytes")));
    }
    Model::from_json(&text).map_err(|error| match &error {
        Error::Model { expected, actual, .. } => {
            in_file(format!("expected {expected}, got {actual}"))
        }
        _ => in_file(error.to_string()),
    })
}
