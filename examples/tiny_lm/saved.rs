//! The directory of a model: what is needed to write with it again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use burn::{
    module::{Module, ModuleVisitor, Param},
    record::{FullPrecisionSettings, NamedMpkFileRecorder, Recorder},
    tensor::{Tensor, backend::Backend},
};
use serde::{Deserialize, Serialize};

use crate::{args::Training, model::TinyLm, sizes::Sizes, vocabulary::Vocabulary};

type FileFormat = NamedMpkFileRecorder<FullPrecisionSettings>;

/// What `config.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) characters: Vocabulary,
    pub(crate) sizes: Sizes,
    pub(crate) training: Training,
    pub(crate) seed: u64,
    pub(crate) backend: String,
}

/// A directory that holds a model or is going to.
#[derive(Clone, Debug)]
pub(crate) struct ModelDir {
    path: PathBuf,
}

impl ModelDir {
    /// Readies `path` for a new model. One that holds something else than an earlier model is
    /// refused, before anything in it is replaced.
    pub(crate) fn prepare(path: &Path) -> Result<Self, String> {
        let (dir, shown) = (Self { path: path.to_path_buf() }, path.display());
        fs::create_dir_all(path).map_err(|error| format!("cannot make {shown}: {error}"))?;
        let mut entries = fs::read_dir(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
        if entries.next().is_some() && dir.read_config().is_err() {
            return Err(format!(
                "{shown} is not empty and holds no model of this version of the example: give \
                 another directory with --out"
            ));
        }
        Ok(dir)
    }

    /// Writes the model and its config.
    pub(crate) fn save<B: Backend>(
        &self,
        config: &Config,
        model: &TinyLm<B>,
    ) -> Result<(), String> {
        let file = self.config_file();
        let text = serde_json::to_string_pretty(config).expect("plain data has a JSON form");
        fs::write(&file, text + "\n")
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let file = self.path.join("model");
        FileFormat::default()
            .record(model.clone().into_record(), file.clone())
            .map_err(|error| format!("cannot write {}.mpk: {error}", file.display()))
    }

    /// The model in `path`, or why it cannot be read.
    pub(crate) fn load<B: Backend>(
        path: &Path,
        device: &B::Device,
    ) -> Result<(Config, TinyLm<B>), String> {
        let dir = Self { path: path.to_path_buf() };
        let config = dir.read_config()?;
        let shown = path.join("model.mpk").display().to_string();
        let empty = config.sizes.try_init::<B>(config.characters.len(), 0.0, device);
        let empty = empty.map_err(|error| format!("{}: {error}", dir.config_file().display()))?;
        let record = FileFormat::default()
            .load(path.join("model"), device)
            .map_err(|error| format!("cannot read {shown}: {}", one_line(&error.to_string())))?;
        let model = load_fitting(empty, record);
        let model =
            model.ok_or_else(|| format!("{shown} does not fit the config.json beside it"))?;
        Ok((config, model))
    }

    fn config_file(&self) -> PathBuf {
        self.path.join("config.json")
    }

    fn read_config(&self) -> Result<Config, String> {
        let (file, shown) = (self.config_file(), self.path.display());
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{shown} holds no model: it has no config.json"),
            _ => format!("cannot read {}: {error}", file.display()),
        })?;
        let config: Config = serde_json::from_str(&text)
            .map_err(|error| format!("{} is not this example's: {error}", file.display()))?;
        if config.characters.len() == 0 || config.sizes.context == 0 {
            return Err(format!("{} has no characters or a context of 0", file.display()));
        }
        Ok(config)
    }
}

/// Burn takes parameters of any shape, and panics over a wrong number of blocks.
fn load_fitting<B: Backend>(
    model: TinyLm<B>,
    record: <TinyLm<B> as Module<B>>::Record,
) -> Option<TinyLm<B>> {
    if record.blocks.len() != model.blocks.len() {
        return None;
    }
    let expected = shapes(&model);
    let model = model.load_record(record);
    (shapes(&model) == expected).then_some(model)
}

fn shapes<B: Backend>(model: &TinyLm<B>) -> Vec<Vec<usize>> {
    struct Shapes(Vec<Vec<usize>>);
    impl<B: Backend> ModuleVisitor<B> for Shapes {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.push(param.val().dims().to_vec());
        }
    }
    let mut shapes = Shapes(Vec::new());
    model.visit(&mut shapes);
    shapes.0
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
