//! Backends under Burn's fusion: the kernels of what is below, as operations that wait in its queue.

use std::fmt;
use std::marker::PhantomData;

use burn::backend::ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Shape, TensorMetadata};
use burn_fusion::stream::{Operation, OperationStreams};
use burn_fusion::{Fusion, FusionBackend, FusionRuntime, FusionTensor};

use super::{Extent, InPlace, KernelCall, Kernels, Parts, Saved, TooLarge};

impl<B: FusionBackend + Kernels> InPlace for Fusion<B> {}

impl<B: FusionBackend + Kernels> Kernels for Fusion<B> {
    fn computes(dtype: DType) -> bool {
        B::computes(dtype)
    }

    fn fits(device: &B::Device, extent: &Extent) -> Result<(), TooLarge> {
        B::fits(device, extent)
    }

    fn attention_forward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
    ) -> [FloatTensor<Self>; 3] {
        let [batch, seq_q, n_heads, _] = parts.query.shape().dims();
        let [.., value_dim] = parts.value.shape().dims::<4>();
        let outputs = [
            (vec![batch, seq_q, n_heads, value_dim], parts.query.dtype()),
            (vec![batch, n_heads, seq_q], DType::F32),
            (vec![3, batch, n_heads, seq_q], DType::F32),
        ];
        let run = |parts: Parts<_>, call: KernelCall<B>, _| {
            B::attention_forward(&parts, &call).into_iter().map(Some).collect()
        };
        let outputs = wait::<B>("mha_forward", parts, call, [], &outputs, run);
        outputs.try_into().expect("three outputs")
    }

    fn attention_backward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
        saved: &Saved<FloatTensor<Self>>,
        wanted: &Parts<bool>,
    ) -> Parts<Option<FloatTensor<Self>>> {
        let all = parts.as_ref().list().into_iter().zip(wanted.clone().list());
        let outputs = all.filter(|(_, wanted)| *wanted);
        let outputs: Vec<_> =
            outputs.map(|(part, _)| (part.shape().to_vec(), part.dtype())).collect();
        let given = [&saved.context, &saved.lse, &saved.rest, &saved.d_context];
        let which = wanted.clone();
        let run = move |parts: Parts<_>, call: KernelCall<B>, saved: Vec<_>| {
            let [context, lse, rest, d_context] = saved.try_into().expect("four were given");
            let saved = Saved { context, lse, rest, d_context };
            B::attention_backward(&parts, &call, &saved, &which).list()
        };
        let mut outputs = wait::<B>("mha_backward", parts, call, given, &outputs, run).into_iter();
        wanted.clone().map(|wanted| wanted.then(|| outputs.next().expect("one for each wanted")))
    }
}

type Task<B> = dyn Fn(Parts<FloatTensor<B>>, KernelCall<B>, Vec<FloatTensor<B>>) -> Vec<Option<FloatTensor<B>>>
    + Send
    + Sync;

/// An operation that the queue knows by its tensors alone: parts, masks, seed, and what was saved.
struct Waiting<B: FusionBackend> {
    tensors: CustomOpIr,
    /// The call, with places in the list of tensors for tensors.
    parts: Parts<usize>,
    hidden: std::ops::Range<usize>,
    seed: Option<usize>,
    numbers: std::sync::Arc<super::Numbers>,
    task: Box<Task<B>>,
    backend: PhantomData<B>,
}

impl<B: FusionBackend> fmt::Debug for Waiting<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

impl<B: FusionBackend> Operation<B::FusionRuntime> for Waiting<B> {
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let inputs = &self.tensors.inputs;
        // Each is fetched once, whether it is used or not: that is what frees it.
        let parts = self.parts.clone().map(|at| handles.get_float_tensor::<B>(&inputs[at]));
        let hidden = self.hidden.clone().map(|at| handles.get_bool_tensor::<B>(&inputs[at]));
        let call = KernelCall {
            numbers: self.numbers.clone(),
            hidden: hidden.collect(),
            seed: self.seed.map(|at| handles.get_int_tensor::<B>(&inputs[at])),
        };
        let before = self.hidden.end + usize::from(self.seed.is_some());
        let saved = inputs[before..].iter().map(|ir| handles.get_float_tensor::<B>(ir));
        let outputs = (self.task)(parts, call, saved.collect());
        for (ir, output) in self.tensors.outputs.iter().zip(outputs.into_iter().flatten()) {
            handles.register_float_tensor::<B>(&ir.id, output);
        }
    }
}

/// Puts a task into the queue; the outputs, of these shapes and types, are there when it has run.
fn wait<'a, B: FusionBackend>(
    name: &'static str,
    parts: &Parts<FloatTensor<Fusion<B>>>,
    call: &KernelCall<Fusion<B>>,
    saved: impl IntoIterator<Item = &'a FusionTensor<B::FusionRuntime>>,
    outputs: &[(Vec<usize>, DType)],
    task: impl Fn(
        Parts<FloatTensor<B>>,
        KernelCall<B>,
        Vec<FloatTensor<B>>,
    ) -> Vec<Option<FloatTensor<B>>>
    + Send
    + Sync
    + 'static,
) -> Vec<FusionTensor<B::FusionRuntime>> {
    let client = parts.query.client.clone();
    let mut tensors: Vec<_> = parts.as_ref().list().into_iter().cloned().collect();
    let mut places = 0..tensors.len();
    let parts = parts.as_ref().map(|_| places.next().expect("a place for each part"));
    let hidden = tensors.len()..tensors.len() + call.hidden.len();
    tensors.extend(call.hidden.iter().cloned());
    let seed = call.seed.as_ref().map(|_| tensors.len());
    tensors.extend(call.seed.iter().cloned());
    tensors.extend(saved.into_iter().cloned());
    // Before the tensors become descriptions, which lets go of them.
    let streams = OperationStreams::with_inputs(tensors.iter());
    let inputs: Vec<TensorIr> = tensors.into_iter().map(FusionTensor::into_ir).collect();
    let outputs: Vec<TensorIr> = outputs
        .iter()
        .map(|(dims, dtype)| {
            let shape = Shape::from(dims.clone());
            TensorIr::uninit(client.create_empty_handle(), shape, *dtype)
        })
        .collect();
    let tensors = CustomOpIr::new(name, &inputs, &outputs);
    let waiting = Waiting::<B> {
        tensors: tensors.clone(),
        parts,
        hidden,
        seed,
        numbers: call.numbers.clone(),
        task: Box::new(task),
        backend: PhantomData,
    };
    client.register(streams, OperationIr::Custom(tensors), waiting)
}
