//! `verify`: a layer against what its own library computed.

use std::{cell::Cell, error::Error, process::ExitCode};

use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha::weights::{Checkpoint, Layer};
use mha::{MhaInput, MultiHeadAttention, Weights};
use mha_examples::{backend::Job, print::print_line};

use crate::args::Verify;
use crate::differences::Differences;
use crate::fixture::Fixture;
use crate::words::{plain, said};
use crate::{open, parameters};

/// Runs the layer, prints a line for each result, and fails if one differs.
pub(crate) fn verify(args: &Verify) -> ExitCode {
    let differs = Cell::new(false);
    let status = args.backend.run_to_exit(Compare { args, differs: &differs });
    if differs.get() { ExitCode::FAILURE } else { status }
}

struct Compare<'a> {
    args: &'a Verify,
    differs: &'a Cell<bool>,
}

impl Job for Compare<'_> {
    type Output = Result<(), Box<dyn Error>>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        let args = self.args;
        let fixture = Fixture::open(&args.against)?;
        let checkpoint = with_heads(open::open(&args.weights)?, args, &fixture)?;
        let prefix = args.layer.as_deref().or(fixture.says("layer")).ok_or_else(|| {
            fixture.wrong("says nothing of a layer: --layer PREFIX names the layer of FILE")
        })?;
        let layer = checkpoint.layer(prefix).map_err(|error| said(&error))?;
        print_line(format_args!(
            "{}, layer {:?}, {}; on {}",
            plain(args.weights.file.display()),
            plain(layer.prefix()),
            layer.family(),
            args.backend,
        ));
        // In training it would drop weights.
        let config = layer.config().clone().with_dropout(0.0);
        let call = Call { checkpoint, layer: layer.with_config(config), fixture };
        let differences = call.differences::<B>(&device)?;
        for line in differences.lines() {
            print_line(format_args!("{line}"));
        }
        self.differs.set(!differences.pass());
        Ok(())
    }
}

/// The heads as the fixture says, where nothing else does.
fn with_heads(
    checkpoint: Checkpoint,
    args: &Verify,
    fixture: &Fixture,
) -> Result<Checkpoint, String> {
    let has_config = *checkpoint.model() != mha::weights::Model::default();
    if has_config || args.weights.heads.is_some() {
        return Ok(checkpoint);
    }
    let mut model = checkpoint.model().clone();
    if let Some(n_heads) = fixture.count("n_heads")? {
        model = model.with_heads(n_heads);
    }
    if let Some(n_kv_heads) = fixture.count("n_kv_heads")? {
        model = model.with_kv_heads(n_kv_heads);
    }
    Ok(checkpoint.with_model(model))
}

/// A layer and the call of it that is stored.
struct Call {
    checkpoint: Checkpoint,
    layer: Layer,
    fixture: Fixture,
}

/// The tensors of a call.
struct Inputs<B: AutodiffBackend> {
    query: Tensor<B, 3>,
    key: Option<Tensor<B, 3>>,
    value: Option<Tensor<B, 3>>,
    /// T5's table, where another layer has it, and its name there.
    table: Option<(String, Tensor<B, 2>)>,
    input: MhaInput<B>,
}

impl Call {
    fn differences<B: AutodiffBackend>(
        &self,
        device: &B::Device,
    ) -> Result<Differences<'_>, String> {
        let loaded =
            self.checkpoint.load::<B>(&self.layer, device).map_err(|error| said(&error))?;
        let module = loaded.attention;
        let inputs = self.inputs::<B>(device)?;
        let mut differences = Differences::from(&self.fixture);

        let context = module.try_forward(inputs.input.clone()).map_err(plain)?.context;
        differences.tensor("output", "output", context.clone())?;
        if self.fixture.stored("weights")?.is_some() {
            let input = inputs.input.clone().weights(Weights::PerHead);
            let weights = module.try_forward(input).map_err(plain)?.weights;
            let weights = weights.ok_or("the module returned no weights")?;
            differences.tensor("weights", "weights", weights)?;
        }
        self.gradients(&mut differences, &module, &inputs, context)?;
        Ok(differences)
    }

    fn inputs<B: AutodiffBackend>(&self, device: &B::Device) -> Result<Inputs<B>, String> {
        let leaf = |name| -> Result<Option<Tensor<B, 3>>, String> {
            Ok(self.fixture.tokens(name)?.map(Tensor::require_grad))
        };
        let query = leaf("query")?.ok_or_else(|| self.fixture.wrong("has no query"))?;
        let (key, value) = (leaf("key")?, leaf("value")?);
        let of_key = key.clone().unwrap_or_else(|| query.clone());
        let of_value = value.clone().unwrap_or_else(|| of_key.clone());
        let mut input =
            MhaInput::new(query.clone(), of_key, of_value).mask(self.fixture.mask::<B>()?);
        let mut table = None;
        if let Some((name, buckets)) = self.layer.shared_table() {
            let shape = [buckets.n_buckets, self.layer.config().n_heads];
            let tensor = self.checkpoint.tensor::<B, 2>(name, shape, device);
            let tensor = tensor.map_err(|error| said(&error))?.require_grad();
            input = input.t5(buckets, tensor.clone());
            table = Some((name.to_string(), tensor));
        }
        Ok(Inputs { query, key, value, table, input })
    }

    /// A tensor's name without that of the layer.
    fn below(&self, name: &str) -> String {
        let prefix = self.layer.prefix();
        let skip = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
        plain(name.get(skip..).unwrap_or(name))
    }

    fn gradients<B: AutodiffBackend>(
        &self,
        differences: &mut Differences<'_>,
        module: &MultiHeadAttention<B>,
        inputs: &Inputs<B>,
        context: Tensor<B, 3>,
    ) -> Result<(), String> {
        let d_output: Tensor<B, 3> = self.fixture.tokens("d_output")?.ok_or("no d_output")?;
        if d_output.dims() != context.dims() {
            let (expected, actual) = (context.dims(), d_output.dims());
            let wrong = format_args!("d_output: expected shape {expected:?}, got {actual:?}");
            return Err(self.fixture.wrong(wrong));
        }
        let gradients = (context * d_output).sum().backward();
        let tokens = [
            ("query", Some(&inputs.query)),
            ("key", inputs.key.as_ref()),
            ("value", inputs.value.as_ref()),
        ];
        for (name, leaf) in tokens {
            let Some(gradient) = leaf.and_then(|leaf| leaf.grad(&gradients)) else { continue };
            let stored = format!("d_{name}");
            differences.tensor(&format!("gradient of {name}"), &stored, gradient)?;
        }

        if let Some((name, table)) = &inputs.table
            && let Some(gradient) = table.grad(&gradients)
        {
            let shown = format!("gradient of {}", plain(name));
            differences.tensor(&shown, &format!("d.{name}"), gradient)?;
        }
        let ours = parameters::gradients(&self.checkpoint, &self.layer, module, &gradients)?;
        // A converted file has other names, or the same and another layout: all or none.
        let table = inputs.table.as_ref().map(|(name, _)| name.as_str());
        let stored = self.fixture.gradients().filter(|(name, _)| Some(*name) != table);
        let mut stored: Vec<_> = stored.collect();
        let mut there: Vec<_> = ours.iter().map(|one| (one.name.as_str(), &*one.shape)).collect();
        stored.sort_unstable();
        there.sort_unstable();
        if stored != there {
            print_line(format_args!(
                "gradients of parameters are not compared: FILE has other names or shapes"
            ));
            return Ok(());
        }
        for parameters::Gradient { name, shape, numbers, rounding } in &ours {
            let shown = format!("gradient of {}", self.below(name));
            differences.numbers(&shown, &format!("d.{name}"), shape, numbers, *rounding)?;
        }
        Ok(())
    }
}
