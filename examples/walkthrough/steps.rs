//! The five steps as `explain` tells them, each with its formula, its shapes and a few of its numbers.

use std::io::{self, Write};

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use mha::{Explanation, MhaInput, MultiHeadAttention, Step, Weights};

use crate::attend::{Attended, attend};
use crate::show::{self, MAX_HEADS, heading, without_batch};
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
    let input = MhaInput::self_attn(x.clone()).weights(Weights::PerHead);
    let explanation = layer.explain(&input).expect("the sizes fit: they made the layer");
    let step = |name, symbol| find(&explanation, name, symbol);
    let x_shape = show::shape(&x);

    let [q, k, v] = ["Q", "K", "V"].map(|symbol| step("project", symbol));
    let projected = without_batch(&q.shape);
    heading(out, "1. project", &format!("{x_shape} → {projected}"))?;
    let formulas = [q, k, v].map(|step| format!("{} = {}", step.symbol, step.formula));
    writeln!(out, "  {}\n", formulas.join("    "))?;
    for projected in [q, k, v] {
        show::row(out, &format!("{} {first}", projected.symbol), &first_token(projected))?;
    }

    let heads = ["Q", "K", "V"].map(|symbol| step("split", symbol));
    let &[_, seq, n_heads, head_dim] = &heads[0].shape[..] else { panic!("split heads") };
    let split = without_batch(&heads[0].shape);
    let per_head = format!("({n_heads}, {seq}, {head_dim})");
    heading(out, "2. split", &format!("{projected} → {split} → {per_head}"))?;
    writeln!(out, "  each head takes its own {head_dim} of the features, in Q, K and V alike")?;
    writeln!(out, "  (token, feature) → (token, head, feature) → (head, token, feature)\n")?;
    for (i, features) in first_token(heads[0]).chunks(head_dim).take(MAX_HEADS).enumerate() {
        show::row(out, &format!("Q {first} [{}]", i + 1), features)?;
    }
    show::rest(out, n_heads, MAX_HEADS, "heads")?;

    let device = x.device();
    let heads = heads.map(|step| Tensor::from_data(step.data.clone(), &device));
    let Attended { weights, one_head } =
        attend(out, heads, step("attend", "C"), step("weights", "P"), tokens)?;

    let (contexts, merged) = (step("attend", "C"), step("merge", "C"));
    let (contexts, merged_shape) = (without_batch(&contexts.shape), without_batch(&merged.shape));
    heading(out, "4. merge", &format!("{contexts} → {merged_shape}"))?;
    let side_by_side = match n_heads {
        1 => "head 1".into(),
        2 => "[head 1 | head 2]".into(),
        _ => format!("[head 1 | … | head {n_heads}]"),
    };
    writeln!(out, "  C = {side_by_side}, what the heads gave side by side\n")?;
    show::row(out, &format!("C {first}"), &first_token(merged))?;

    let output = step("project out", "Y");
    let output_shape = without_batch(&output.shape);
    heading(out, "5. project out", &format!("{merged_shape} → {output_shape}"))?;
    writeln!(out, "  Y = {}, where the heads mix\n", output.formula)?;
    show::rows(out, "Y", tokens, &output.values())?;

    heading(out, "all five", "layer.forward(X), layer.explain(X)")?;
    let chain = [x_shape, split, per_head, one_head, contexts, merged_shape, output_shape];
    writeln!(out, "  {}", chain.join(" → "))?;
    let output = explanation.output.context.clone();
    let at_once = layer.forward(MhaInput::self_attn(x)).context;
    let difference = largest(values(&(at_once - output.clone())));
    let difference = show::scientific(difference);
    writeln!(out, "  in one call: largest difference from the steps above {difference}\n")?;
    show::table(out, &explanation)?;

    Ok(Outcome { weights, output })
}

fn find<'a, B: Backend>(explanation: &'a Explanation<B>, name: &str, symbol: &str) -> &'a Step {
    let found = |step: &&Step| step.name == name && step.symbol == symbol;
    explanation.steps.iter().find(found).expect("every call takes this step")
}

/// The numbers of the first token of a step whose result has the tokens behind the batch of one.
fn first_token(step: &Step) -> Vec<f64> {
    let width = step.shape[2..].iter().product();
    step.values().into_iter().take(width).collect()
}
