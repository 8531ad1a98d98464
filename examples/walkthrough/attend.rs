//! Step 3, where the tokens look at each other: head by head, and all heads at once.

use std::io::{self, Write};

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use burn::tensor::backend::Backend;
use mha::Step;
use mha_examples::heatmap::{self, Heatmap};

use crate::show::{self, MAX_HEADS, heading, shape};
use crate::tensors::{largest, values};

/// What attention gives.
#[derive(Debug)]
pub(crate) struct Attended<B: Backend> {
    /// `[1, n_heads, seq, seq]`
    pub(crate) weights: Tensor<B, 4>,
    /// The shape of one head's context, as printed.
    pub(crate) one_head: String,
}

/// Attends head by head, beside what the layer's step gave at once; `q`, `k` and `v` are `[1, seq,
/// n_heads, head_dim]`.
pub(crate) fn attend<B: Backend>(
    out: &mut impl Write,
    [q, k, v]: [Tensor<B, 4>; 3],
    at_once: &Step,
    at_once_weights: &Step,
    tokens: &[String],
) -> io::Result<Attended<B>> {
    let [_, _, n_heads, head_dim] = q.dims();
    let pick = |heads: &Tensor<B, 4>, i| heads.clone().narrow(2, i, 1).squeeze_dim::<3>(2);
    let one_by_one = (0..n_heads).map(|i| one_head(pick(&q, i), pick(&k, i), pick(&v, i)));
    let (weights, contexts): (Vec<_>, Vec<_>) = one_by_one.unzip();
    let (one_weights, one_head) = (shape(&weights[0]), shape(&contexts[0]));
    let weights: Tensor<B, 4> = Tensor::stack(weights, 1);
    let context: Tensor<B, 4> = Tensor::stack(contexts, 2);

    let tensor = |step: &Step| Tensor::<B, 4>::from_data(step.data.clone(), &q.device());
    let (at_once, at_once_weights) = (tensor(at_once), tensor(at_once_weights));

    heading(out, "3. attend", &format!("per head {one_head} → {one_weights} → {one_head}"))?;
    writeln!(out, "  P = softmax(Q Kᵀ / √{head_dim})    C = P V")?;
    writeln!(out, "  a row per query, a column per key; in percent, 100 to a row")?;
    writeln!(out, "  (W_Q and W_K are random here; training would give the pattern a meaning)\n")?;
    maps(out, &at_once_weights, tokens)?;

    let weights_difference = values(&(weights - at_once_weights.clone()));
    let context_difference = values(&(context.clone() - at_once.clone()));
    let difference = largest(weights_difference.into_iter().chain(context_difference));
    let [stacked, together] = [&context, &at_once].map(shape);
    writeln!(out, "\n  head by head, then stacked  {stacked}")?;
    writeln!(
        out,
        "  all heads at once           {together}   largest difference {}",
        show::scientific(difference)
    )?;

    Ok(Attended { weights: at_once_weights, one_head })
}

/// One head on its own, as the textbook has it; `q`, `k` and `v` are `[1, seq, head_dim]`.
///
/// Returns the weights, `[1, seq, seq]`, and the context, `[1, seq, head_dim]`.
fn one_head<B: Backend>(
    q: Tensor<B, 3>,
    k: Tensor<B, 3>,
    v: Tensor<B, 3>,
) -> (Tensor<B, 3>, Tensor<B, 3>) {
    let head_dim = q.dims()[2] as f64;
    let scores = q.matmul(k.transpose()) / head_dim.sqrt();
    let weights = softmax(scores, 2);
    let context = weights.clone().matmul(v);
    (weights, context)
}

/// Draws the weights of each head.
fn maps<B: Backend>(
    out: &mut impl Write,
    weights: &Tensor<B, 4>,
    tokens: &[String],
) -> io::Result<()> {
    let [_, n_heads, seq, _] = weights.dims();
    let weights = values(weights);
    // At most four maps one below the other: the page is to be read.
    let drawn = MAX_HEADS.min(4 * heatmap::beside(seq));
    let heads: Vec<&[f64]> = weights.chunks(seq * seq).take(drawn).collect();
    let maps: Vec<_> = (1..)
        .zip(&heads)
        .map(|(i, head)| Heatmap::new(format!("head {i}"), tokens, head.to_vec()))
        .collect();
    for line in heatmap::draw(&maps, heatmap::colour_wanted()).lines() {
        writeln!(out, "{}", format!("  {line}").trim_end())?;
    }
    show::rest(out, seq, heatmap::MAX_TOKENS, "tokens")?;
    show::rest(out, n_heads, drawn, "heads")
}
