//! One configuration on one backend, path by path.

use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha::{MhaInput, Path};
use mha_examples::backend::{BackendName, Job};
use mha_tests::{Call, Layer, Measure, Yardstick, explained_steps, floats, paths, tensor};

use crate::{judge, memory, record::Record, subject::Subject, timing};

/// The weights and inputs of a subject on a backend, and what its results are held against.
pub(crate) struct Compare<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) backend: BackendName,
    pub(crate) layer: &'a Layer<f32>,
    pub(crate) yardstick: &'a Yardstick<'a>,
}

/// What came of one path.
pub(crate) enum Outcome {
    Compared(Record),
    /// The path cannot take this call, for a reason.
    LeftOut(String),
}

impl Job for Compare<'_> {
    type Output = Result<Vec<Outcome>, String>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        let on_path = |path| {
            self.on_path::<B>(path, &device).map_err(|error| {
                format!("{} on {}, {path:?}: {error}", self.subject.case.name, self.backend)
            })
        };
        paths::<B>().into_iter().map(on_path).collect()
    }
}

impl Compare<'_> {
    fn on_path<B: AutodiffBackend>(
        &self,
        path: Path,
        device: &B::Device,
    ) -> Result<Outcome, Box<dyn std::error::Error>> {
        let case = &self.subject.case;
        let call = Call::<B>::new(self.layer, self.subject.config.try_init(device)?);
        let input = call.input.clone().path(path);
        if let Err(reason) = call.module.attention_path(&input) {
            return Ok(Outcome::LeftOut(format!("{} on {}: {reason}", case.name, self.backend)));
        }

        let context = call.module.try_forward(input.clone())?.context;
        let d_output: Tensor<B, 3> = tensor(&case.d_output(), context.dims());
        let mut results = vec![("context".to_string(), floats(context.clone()))];
        results.extend(call.gradients(&(context * d_output.clone()).sum().backward()));
        let measures = judge::measure(self.yardstick, &results);
        let first_divergence = match measures.iter().all(Measure::passes) {
            true => None,
            false => Some(self.first_divergence(path, &call, &input, &measures)?),
        };

        let step = || {
            let context = call.module.forward(input.clone()).context;
            (context * d_output.clone()).sum()
        };
        let times = timing::median_ms::<B>(device, step)?;
        let peak_bytes = self.backend.is_on_cpu().then(|| memory::peak(|| step().backward()));
        Ok(Outcome::Compared(Record {
            configuration: case.name.clone(),
            sizes: case.sizes,
            backend: self.backend,
            path,
            measures,
            times,
            peak_bytes,
            first_divergence,
        }))
    }

    /// Where the call first goes wrong; its steps are measured like its results.
    fn first_divergence<B: AutodiffBackend>(
        &self,
        path: Path,
        call: &Call<B>,
        input: &MhaInput<B>,
        measures: &[Measure],
    ) -> Result<String, mha::Error> {
        let Subject { case, .. } = self.subject;
        let steps = explained_steps(case, &call.module.explain(input)?);
        let steps = Yardstick::of_steps(case, self.subject.neighbours()).measure(&steps);
        Ok(judge::first_divergence(path, measures, &steps))
    }
}
