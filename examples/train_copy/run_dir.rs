//! The directory of a run: what belongs in it, and never two runs in one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mha_examples::print::print_line;
use serde::{Deserialize, Serialize};

use crate::args::Hyperparameters;

/// The directory `--out`.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
}

/// What `config.json` holds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    pub(crate) backend: String,
    pub(crate) hyperparameters: Hyperparameters,
}

/// Everything a run writes beside `config.json`.
const CONTENTS: [&str; 9] = [
    "checkpoint",
    "train",
    "valid",
    "experiment.log",
    "model.mpk",
    "loss.svg",
    "loss.png",
    "attention.svg",
    "attention.png",
];

impl RunDir {
    /// Readies `path` for a new run and removes an earlier one's files.
    pub(crate) fn begin(path: &Path, config: &RunConfig) -> Result<Self, String> {
        let dir = Self { path: path.to_path_buf() };
        if dir.read_config()?.is_some() {
            print_line(format_args!("replacing the earlier run in {}", path.display()));
            CONTENTS.iter().try_for_each(|name| remove(&path.join(name)))?;
        }
        dir.write_config(config)?;
        Ok(dir)
    }

    /// Opens the run in `path` to go on with it; `None` when there is none.
    pub(crate) fn open(path: &Path, config: &RunConfig) -> Result<Option<Self>, String> {
        let dir = Self { path: path.to_path_buf() };
        let Some(saved) = dir.read_config()? else { return Ok(None) };
        if saved != *config {
            let differences = differences(&saved, config).join(", ");
            return Err(format!(
                "cannot resume the run in {}: it began with {differences}",
                path.display()
            ));
        }
        Ok(Some(dir))
    }

    /// Removes what was written after `epoch`, of which no complete checkpoint is left.
    pub(crate) fn forget_after(&self, epoch: usize) -> Result<(), String> {
        for folder in ["checkpoint", "train", "valid"].map(|name| self.path.join(name)) {
            for path in entries(&folder)? {
                // `model-7.mpk` and `epoch-7` alike
                if epoch_of(&path).is_some_and(|of| of > epoch) {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    /// Epochs of which a checkpoint has at least one file, from the newest down.
    pub(crate) fn checkpoint_epochs(&self) -> Result<Vec<usize>, String> {
        let files = entries(&self.checkpoints())?;
        let mut epochs: Vec<_> = files.iter().filter_map(|path| epoch_of(path)).collect();
        epochs.sort_unstable_by(|a, b| b.cmp(a));
        epochs.dedup();
        Ok(epochs)
    }

    /// The config of the run in this directory, `None` for an empty or missing directory.
    fn read_config(&self) -> Result<Option<RunConfig>, String> {
        let file = self.path.join("config.json");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if entries(&self.path)?.is_empty() {
                    return Ok(None);
                }
                return Err(self.foreign());
            }
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        serde_json::from_str(&text).map(Some).map_err(|_| self.foreign())
    }

    /// A directory that this example did not fill may hold anything, so nothing in it is removed.
    fn foreign(&self) -> String {
        format!(
            "{} is not empty and not a run of this version of the example: give another directory \
             with --out",
            self.path.display()
        )
    }

    /// Written beside and renamed, so that it is never seen half written.
    fn write_config(&self, config: &RunConfig) -> Result<(), String> {
        let [file, draft] = ["config.json", "config.json.new"].map(|name| self.path.join(name));
        let text = serde_json::to_string_pretty(config).expect("plain data has a JSON form");
        fs::create_dir_all(&self.path)
            .and_then(|()| fs::write(&draft, text + "\n"))
            .and_then(|()| fs::rename(&draft, &file))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
}

/// The fields that differ, as "heads 4 (not 8)".
fn differences(saved: &RunConfig, now: &RunConfig) -> Vec<String> {
    let fields = |config: &RunConfig| {
        let mut fields = serde_json::to_value(&config.hyperparameters).expect("plain data");
        fields["backend"] = config.backend.clone().into();
        fields.as_object().expect("a struct is an object").clone()
    };
    let now = fields(now);
    fields(saved)
        .iter()
        .filter(|(name, value)| now[*name] != **value)
        .map(|(name, value)| format!("{} {value} (not {})", name.replace('_', "-"), now[name]))
        .collect()
}

/// The number after the last dash of a file's name.
fn epoch_of(path: &Path) -> Option<usize> {
    path.file_stem()?.to_str()?.rsplit_once('-')?.1.parse().ok()
}

/// What is in `folder`; nothing when it is missing.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("cannot read {}: {error}", folder.display())),
        Ok(paths) => Ok(paths),
    }
}

fn remove(path: &Path) -> Result<(), String> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
