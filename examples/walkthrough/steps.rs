//! The five steps, each with its formula, its shapes and a few of its numbers.

use std::io::{self, Write};

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use mha::{MhaInput, MultiHeadAttention, Weights};

use crate::attend::{Attended, attend};
use crate::show::{self, MAX_HEADS, heading, shape};
use crate::tensors::{largest, values};

/// What the steps computed.
#[derive(Debug)]
pub(crate) struct Outcome<B: Backend> {
    /// `[1, n_heads, seq, seq]`
    pub(crate) weights: Tensor<B, 4>,
    /// `[1, seq, d_model]`
    pub(crate) output: Tensor<B, 3>,
}

/// Walks the five steps that `layer.forward` takes; `x` is `[1, seq, d_model]`.
pub(crate) fn five<B: Backend>(
    out: &mut impl Write,
    layer: &MultiHeadAttention<B>,
    x: Tensor<B, 3>,
    tokens: &[String],
) -> io::Result<Outcome<B>> {
    let first = &tokens[0];

    let [q, k, v] = layer.project(x.clone(), x.clone(), x.clone());
    heading(out, "1. project", &format!("{} → {}", shape(&x), shape(&q)))?;
    writeln!(out, "  Q = X W_Q    K = X W_K    V = X W_V\n")?;
    for (name, projected) in [("Q", &q), ("K", &k), ("V", &v)] {
        show::row(out, &format!("{name} {first}"), &first_token(projected))?;
    }

    let projected = shape(&q);
    let q_first = first_token(&q);
    let [q, k, v] = layer.split_heads(q, k, v);
    let [_, _, n_heads, head_dim] = q.dims();
    let (split, per_head) = (shape(&q), shape(&q.clone().swap_dims(1, 2)));
    heading(out, "2. split", &format!("{projected} → {split} → {per_head}"))?;
    writeln!(out, "  each head takes its own {head_dim} of the features, in Q, K and V alike")?;
    writeln!(out, "  (token, feature) → (token, head, feature) → (head, token, feature)\n")?;
    for (i, features) in q_first.chunks(head_dim).take(MAX_HEADS).enumerate() {
        show::row(out, &format!("Q {first} [{}]", i + 1), features)?;
    }
    show::rest(out, n_heads, MAX_HEADS, "heads")?;

    let Attended { weights, context, one_head } = attend(out, [q, k, v], tokens)?;

    let contexts = shape(&context);
    let merged = layer.merge_heads(context);
    heading(out, "4. merge", &format!("{contexts} → {}", shape(&merged)))?;
    let side_by_side = match n_heads {
        1 => "head 1".into(),
        2 => "[head 1 | head 2]".into(),
        _ => format!("[head 1 | … | head {n_heads}]"),
    };
    writeln!(out, "  context = {side_by_side}, what the heads gave side by side\n")?;
    show::row(out, &format!("context {first}"), &first_token(&merged))?;

    let merged_shape = shape(&merged);
    let output = layer.output.forward(merged);
    heading(out, "5. project out", &format!("{merged_shape} → {}", shape(&output)))?;
    writeln!(out, "  Y = context W_O, where the heads mix\n")?;
    show::rows(out, "Y", tokens, &values(&output))?;

    let chain = [shape(&x), split, per_head, one_head, contexts, merged_shape, shape(&output)];
    heading(out, "all five", "layer.forward(X)")?;
    writeln!(out, "  {}", chain.join(" → "))?;
    let at_once = layer.forward(MhaInput::self_attn(x).weights(Weights::PerHead));
    let difference = largest(values(&(at_once.context - output.clone())));
    let difference = show::scientific(difference);
    writeln!(out, "  in one call: largest difference from the steps above {difference}")?;

    Ok(Outcome { weights, output })
}

fn first_token<B: Backend>(tensor: &Tensor<B, 3>) -> Vec<f64> {
    values(&tensor.clone().narrow(1, 0, 1))
}
