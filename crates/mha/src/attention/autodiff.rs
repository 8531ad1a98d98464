//! The gradients of the kernels, for Burn's autodiff: one backward for attention, one for a linear
//! layer.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Shape, TensorMetadata};

use super::fused::linear_kernels;
use crate::backend::{KernelCall, Kernels, Parts, Saved};

/// What the backward pass of an attention needs.
#[derive(Debug, Clone)]
struct Kept<B: Kernels> {
    call: KernelCall<B>,
    /// Where the checkpoints of the inputs are.
    inputs: Parts<NodeId>,
    context: FloatTensor<B>,
    lse: FloatTensor<B>,
    rest: FloatTensor<B>,
}

#[derive(Debug)]
struct AttentionBackward;

/// `N` counts the parts that the call has.
impl<B: Kernels, const N: usize> Backward<B, N> for AttentionBackward {
    type State = Kept<B>;

    fn backward(
        self,
        ops: Ops<Kept<B>, N>,
        gradients: &mut Gradients,
        checkpoints: &mut Checkpointer,
    ) {
        let d_context = gradients.consume::<B>(&ops.node);
        let Kept { call, inputs, context, lse, rest } = ops.state;
        let parts = inputs.map(|id| checkpoints.retrieve_node_output::<FloatTensor<B>>(id));
        // Only what Burn tracks has a parent.
        let mut parents = ops.parents.iter();
        let wanted = parts.as_ref().map(|_| parents.next().is_some_and(Option::is_some));
        let saved = Saved { context, lse, rest, d_context };
        let found = B::attention_backward(&parts, &call, &saved, &wanted);
        let Saved { context, lse, rest, d_context } = saved;
        B::recycle(parts.list().into_iter().chain([context, lse, rest, d_context]));
        for (parent, gradient) in ops.parents.iter().zip(found.list()) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// The context on the graph, and the log-sum-exps off it.
pub(super) fn attention<B: Kernels, C: CheckpointStrategy>(
    parts: Parts<FloatTensor<Autodiff<B, C>>>,
    call: KernelCall<B>,
) -> [FloatTensor<Autodiff<B, C>>; 2] {
    match parts.as_ref().list().len() {
        3 => attention_of::<B, C, 3>(parts, call),
        4 => attention_of::<B, C, 4>(parts, call),
        5 => attention_of::<B, C, 5>(parts, call),
        _ => attention_of::<B, C, 6>(parts, call),
    }
}

fn attention_of<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parts: Parts<FloatTensor<Autodiff<B, C>>>,
    call: KernelCall<B>,
) -> [FloatTensor<Autodiff<B, C>>; 2] {
    let nodes: Vec<_> = parts.as_ref().list().into_iter().map(|part| part.node.clone()).collect();
    let nodes = nodes.try_into().expect("as many as there are parts");
    let prepared = Backward::<B, N>::prepare::<C>(AttentionBackward, nodes);
    let primitives = parts.as_ref().map(|part| part.primitive.clone());
    let [context, lse, rest] = B::attention_forward(&primitives, &call);
    let tracked = match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prepared) => {
            let inputs = parts.as_ref().map(|part| prepared.checkpoint(part));
            let kept = Kept { call, inputs, context: context.clone(), lse: lse.clone(), rest };
            prepared.finish(kept, context)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(context),
    };
    // Not before the step is on the graph: a backward pass on another thread takes what no tensor
    // holds and no step leads to off the graph.
    drop(parts);
    [tracked, FloatTensor::<Autodiff<B, C>>::new(lse)]
}

#[derive(Debug)]
struct LinearBackward;

/// Of input, weight and, if there are three, bias.
impl<B: Kernels, const N: usize> Backward<B, N> for LinearBackward {
    type State = [NodeId; 2];

    fn backward(
        self,
        ops: Ops<[NodeId; 2], N>,
        gradients: &mut Gradients,
        checkpoints: &mut Checkpointer,
    ) {
        let d_output = gradients.consume::<B>(&ops.node);
        let [input, weight] =
            ops.state.map(|id| checkpoints.retrieve_node_output::<FloatTensor<B>>(id));
        let mut wanted = [false; 3];
        for (wanted, parent) in wanted.iter_mut().zip(&ops.parents) {
            *wanted = parent.is_some();
        }
        let found = (linear_kernels::<B>().gradients)(&input, &weight, &d_output, wanted);
        B::recycle([input, d_output]);
        for (parent, gradient) in ops.parents.iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}

pub(super) fn linear<B: Kernels, C: CheckpointStrategy>(
    input: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
) -> FloatTensor<Autodiff<B, C>> {
    match bias {
        Some(bias) => linear_of::<B, C, 3>([&input, &weight, &bias]),
        None => linear_of::<B, C, 2>([&input, &weight]),
    }
}

fn linear_of<B: Kernels, C: CheckpointStrategy, const N: usize>(
    parts: [&FloatTensor<Autodiff<B, C>>; N],
) -> FloatTensor<Autodiff<B, C>> {
    let [input, weight] = [parts[0], parts[1]];
    let bias = parts.get(2).map(|bias| &bias.primitive);
    let output = (linear_kernels::<B>().forward)(&input.primitive, &weight.primitive, bias);
    let nodes = parts.map(|part| part.node.clone());
    let prepared = Backward::<B, N>::prepare::<C>(LinearBackward, nodes);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prepared) => {
            let kept = [input, weight].map(|part| prepared.checkpoint(part));
            prepared.finish(kept, output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

#[derive(Debug)]
struct ReshapeBackward;

impl<B: Kernels> Backward<B, 1> for ReshapeBackward {
    /// The shape that the tensor had.
    type State = Shape;

    fn backward(self, ops: Ops<Shape, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        if let [Some(parent)] = ops.parents {
            gradients.register::<B>(parent.id, B::reshape(gradient, ops.state));
        }
    }
}

pub(super) fn reshape<B: Kernels, C: CheckpointStrategy>(
    tensor: FloatTensor<Autodiff<B, C>>,
    shape: Shape,
) -> FloatTensor<Autodiff<B, C>> {
    let before = tensor.primitive.shape();
    let prepared = ReshapeBackward.prepare::<C>([tensor.node.clone()]).compute_bound().stateful();
    let reshaped = B::reshape(tensor.primitive.clone(), shape);
    match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(before, reshaped),
        OpsKind::UnTracked(prepared) => prepared.finish(reshaped),
    }
}
