//! Files for other processes, in a folder that goes away.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    case::Case,
    data::{self, Weights},
};

/// The folder, with the weights in it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn create(weights: &Weights) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("mha-bench-{}", std::process::id()));
        let scratch = Self(path);
        fs::create_dir_all(&scratch.0)
            .and_then(|()| weights.write(&scratch.weights()))
            .map_err(|error| scratch.error(error))?;
        Ok(scratch)
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn weights(&self) -> PathBuf {
        self.file("weights.f32")
    }

    /// Writes the tokens of a case, in place of another's.
    pub(crate) fn write_tokens(&self, case: &Case) -> Result<PathBuf, String> {
        self.write(&data::tokens(case))
    }

    /// Writes these tokens in place of others.
    pub(crate) fn write(&self, tokens: &[f32]) -> Result<PathBuf, String> {
        let file = self.file("tokens.f32");
        data::write_floats(&file, tokens).map_err(|error| self.error(error))?;
        Ok(file)
    }

    fn error(&self, error: io::Error) -> String {
        format!("cannot write to {}: {error}", Path::display(&self.0))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
