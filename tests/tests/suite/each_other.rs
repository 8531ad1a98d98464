//! Backends against each other: the same module, the same call, the same numbers up to rounding,
//! dropped weights included. How much each may round is tested against the oracle; here a backend
//! that computes something else would be far outside.

use burn::module::Module;
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{MhaInput, MultiHeadAttention, Weights};
use mha_tests::{Case, Layer, cases, floats, largest, max_error, wide};

type Bytes = BinBytesRecorder<FullPrecisionSettings>;

/// Output, weights and the gradient of the query, from parameters saved by another backend.
fn run<B: AutodiffBackend>(case: &Case, bytes: &[u8]) -> [Vec<f32>; 3] {
    let record = Bytes::default().load(bytes.to_vec(), &B::Device::default()).expect("loads");
    let module = case.config().init::<B>(&Default::default());
    let module = module.try_load_record(record).expect("it fits");
    let [query, key, value] = Layer::<f32>::new(case).tensors::<B>();
    let input = case.apply(MhaInput::new(query.clone(), key, value));
    let out = module.forward(input.weights(Weights::PerHead));
    let gradients = out.context.clone().powi_scalar(2).mean().backward();
    let gradient = query.grad(&gradients).expect("a gradient");
    [floats(out.context), floats(out.weights.expect("asked for")), floats(gradient)]
}

fn save<B: Backend>(case: &Case) -> Vec<u8> {
    let module: MultiHeadAttention<B> =
        Layer::<f32>::new(case).fill(case.config().init(&Default::default()));
    Bytes::default().record(module.into_record(), ()).expect("saves")
}

type Run = fn(&Case, &[u8]) -> [Vec<f32>; 3];

#[test]
fn backends_agree() {
    use burn::backend::Autodiff;
    let backends: &[(&str, Run)] = &[
        #[cfg(feature = "ndarray")]
        ("ndarray", run::<Autodiff<burn::backend::NdArray>>),
        #[cfg(feature = "flex")]
        ("flex", run::<Autodiff<burn::backend::Flex>>),
        #[cfg(feature = "wgpu")]
        ("wgpu", run::<Autodiff<burn::backend::Wgpu>>),
    ];
    for case in cases() {
        let bytes = save::<mha_tests::AnyBackend>(&case);
        let results: Vec<_> = backends.iter().map(|(_, run)| run(&case, &bytes)).collect();
        for (index, (name, _)) in backends.iter().enumerate() {
            for (ours, first) in results[index].iter().zip(&results[0]) {
                let first = wide(first);
                let error = max_error(ours, &first);
                assert!(
                    error <= 1e-4 * largest(&first),
                    "{}: {name} is {error:e} off {}",
                    case.name,
                    backends[0].0
                );
            }
        }
    }
}
