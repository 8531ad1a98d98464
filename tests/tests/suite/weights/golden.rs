//! Small layers of every family against what their own libraries computed:
//! `tests/fixtures/weights/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Tensor, backend::AutodiffBackend};
use mha::weights::{Array, Checkpoint, Dtype, Layer, Model, Store};
use mha::{Mask, MhaInput, Weights};
use mha_tests::{assert_close, bools, floats, on_every_path, tensor};

on_every_path!(every_family);

/// A layer as its library has it, and what the library computed.
pub(super) struct Golden {
    pub(super) checkpoint: Checkpoint,
    pub(super) layer: Layer,
    numbers: Store,
    said: BTreeMap<String, String>,
}

/// Every folder that has a case.
pub(super) fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/weights");
    let entries = std::fs::read_dir(all).expect("the fixtures");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<_> = folders.filter(|f| f.join("case.safetensors").exists()).collect();
    folders.sort();
    folders
}

impl Golden {
    pub(super) fn open(folder: &Path) -> Self {
        let numbers = Store::open(folder.join("case.safetensors")).expect("a case");
        let said = numbers.metadata().clone();
        let pt = folder.join("model.pt");
        let checkpoint = Checkpoint::open(if pt.exists() { &pt } else { folder }).expect("a model");
        let has_config = ["config.json", "params.json"].iter().any(|n| folder.join(n).exists());
        let checkpoint = if has_config {
            checkpoint
        } else {
            let count = |name: &str| said.get(name).map(|n| n.parse().expect("a count"));
            let model = Model::default().with_heads(count("n_heads").expect("heads"));
            checkpoint.with_model(match count("n_kv_heads") {
                Some(n) => model.with_kv_heads(n),
                None => model,
            })
        };
        let layer = checkpoint.layer(&said["layer"]).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        let config = layer.config().clone().with_dropout(0.0);
        Self { checkpoint, layer: layer.with_config(config), numbers, said }
    }

    fn array(&self, name: &str) -> Option<Array> {
        self.numbers.entry(name).map(|_| self.numbers.read(name).expect("readable"))
    }

    fn expected(&self, name: &str) -> Option<Vec<f64>> {
        self.array(name).map(|array| array.to_f64().expect("floats"))
    }

    fn input<B: AutodiffBackend>(&self, name: &str) -> Option<Tensor<B, 3>> {
        let array = self.array(name)?;
        let dims = <[usize; 3]>::try_from(array.shape()).expect("3 axes");
        let numbers: Vec<f32> = array.to_f64()?.iter().map(|&x| x as f32).collect();
        Some(tensor::<B, 3, _>(&numbers, dims).require_grad())
    }

    /// The mask of the layer, where the file says it, else that of the case.
    fn mask<B: AutodiffBackend>(&self) -> Mask<B> {
        let (causal, window) = (self.said["causal"] == "true", self.said.get("window"));
        let expected = match window {
            Some(left) => Mask::window(left.parse::<usize>().expect("a count"), 0),
            None if causal => Mask::causal(),
            None => Mask::none(),
        };
        if self.checkpoint.model().model_type().is_some() {
            let (ours, theirs) = (self.layer.mask::<B>(), expected.to_string());
            assert_eq!(ours.to_string(), theirs);
        }
        let keep = self.array("keep").map(|array| {
            let dims = <[usize; 4]>::try_from(array.shape()).expect("4 axes");
            let values: Vec<bool> = array.bytes().iter().map(|&byte| byte != 0).collect();
            let keep: Tensor<B, 4, Bool> = bools(&values, dims);
            Mask::keep(keep)
        });
        expected.and(keep.unwrap_or_else(Mask::none))
    }
}

fn every_family<B: AutodiffBackend>(path: mha::Path) {
    let folders = folders();
    assert!(folders.len() >= 46, "{} folders", folders.len());
    for folder in folders {
        println!("{}", folder.display());
        one::<B>(&Golden::open(&folder), path);
    }
}

fn one<B: AutodiffBackend>(golden: &Golden, path: mha::Path) {
    let Golden { checkpoint, layer, .. } = golden;
    let device = Default::default();
    let module = checkpoint.load::<B>(layer, &device).expect("loads").attention;
    let query = golden.input::<B>("query").expect("a query");
    let key = golden.input::<B>("key");
    let value = golden.input::<B>("value");
    let input = MhaInput::new(
        query.clone(),
        key.clone().unwrap_or(query.clone()),
        value.clone().or(key.clone()).unwrap_or(query.clone()),
    );
    let mut input = input.mask(golden.mask()).path(path);
    if let Some((name, buckets)) = layer.shared_table() {
        let shape = [buckets.n_buckets, layer.config().n_heads];
        input = input.t5(buckets, checkpoint.tensor(name, shape, &device).expect("a table"));
    }
    if path == mha::Path::Plain && golden.array("weights").is_some() {
        input = input.weights(Weights::PerHead);
    }
    let out = module.forward(input);
    assert_close(&floats(out.context.clone()), &golden.expected("output").expect("there"), 1e-5);
    if let Some(weights) = out.weights {
        assert_close(&floats(weights), &golden.expected("weights").expect("there"), 1e-5);
    }

    let d_output = golden.input::<B>("d_output").expect("there");
    let gradients = (out.context * d_output.detach()).sum().backward();
    for (name, tensor) in [("d_query", Some(query)), ("d_key", key), ("d_value", value)] {
        let Some(expected) = golden.expected(name) else { continue };
        let gradient = tensor.expect("an input").grad(&gradients).expect("a gradient");
        assert_close(&floats(gradient), &expected, 1e-5 * scale(&expected));
    }
    // Exported with its gradients for parameters, the module gives them under the names of the file,
    // in the file's types.
    let module = module.map(&mut Gradients { gradients: &gradients });
    let mut compared = 0;
    for (name, array) in checkpoint.export::<B>(layer, &module).expect("a place") {
        let expected = golden.expected(&format!("d.{name}")).expect("a gradient");
        // A factor that is stored less 1.
        let less = if name.ends_with("_norm.weight") && golden.said["family"] == "qwen3_next" {
            1.0
        } else {
            0.0
        };
        let found: Vec<f32> =
            array.to_f64().expect("floats").iter().map(|&x| (x + less) as f32).collect();
        let rounding = match array.dtype() {
            Dtype::F16 => 2f64.powi(-11),
            Dtype::BF16 => 2f64.powi(-8),
            _ => 0.0,
        };
        println!("  {name}");
        assert_close(&found, &expected, (1e-5 + rounding) * scale(&expected));
        compared += 1;
    }
    let names = golden.numbers.entries().map(|(name, _)| name);
    let there: Vec<&str> = names.filter(|name| name.starts_with("d.")).collect();
    // The table of another layer is an input of this one.
    let inputs = usize::from(layer.shared_table().is_some());
    assert_eq!(compared + inputs, there.len(), "{there:?}");
}

/// At least 1: what errors are relative to.
fn scale(numbers: &[f64]) -> f64 {
    mha_tests::largest(numbers).max(1.0)
}

/// Puts each parameter's gradient in its place.
struct Gradients<'a, B: AutodiffBackend> {
    gradients: &'a B::Gradients,
}

impl<B: AutodiffBackend> ModuleMapper<B> for Gradients<'_, B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let gradient = param.val().grad(self.gradients).expect("every parameter has a gradient");
        Param::from_tensor(Tensor::from_inner(gradient))
    }
}
