//! The gate behind each head.

use burn::tensor::{Tensor, backend::Backend};

use crate::attention::plain::in_f32;

/// The context `[batch, seq_q, n_heads, value_dim]` times the sigmoid of the gate's logits, tokens times
/// W_gate, which are a number for each head or each of its features.
pub(crate) fn gated<B: Backend>(context: Tensor<B, 4>, logits: Tensor<B, 3>) -> Tensor<B, 4> {
    let [batch, seq, n_heads, _] = context.dims();
    if batch * seq == 0 {
        return context;
    }
    let (logits, dtype) = (in_f32(logits), context.dtype());
    let [_, _, width] = logits.dims();
    let gate = sigmoid(logits.reshape([batch, seq, n_heads, width / n_heads]));
    let context = in_f32(context) * gate;
    if context.dtype() == dtype { context } else { context.cast(dtype) }
}

/// 1 / (1 + e^-x), in the precision of x, where Burn's own is in f32.
///
/// Its derivative is sigmoid(x) sigmoid(-x), from a term that is 0 and has it: no gradient passes a
/// reciprocal, which is approximate on NdArray.
fn sigmoid<B: Backend>(x: Tensor<B, 4>) -> Tensor<B, 4> {
    let values = x.clone().detach();
    let one_over = |x: Tensor<B, 4>| x.ones_like() / x;
    let up = one_over(values.clone().neg().exp().add_scalar(1.0));
    if !B::ad_enabled(&x.device()) {
        return up;
    }
    let down = one_over(values.exp().add_scalar(1.0));
    let zero = x.clone() - x.detach();
    up.clone() + zero * (up * down)
}
