//! Two facts about the layer: heads cost no parameters, and layers stack.

use std::io::{self, Write};

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use mha::{MhaInput, MultiHeadAttention};

use crate::layer;
use crate::show::{heading, shape};
use crate::tensors::{largest, values};

/// Counts the parameters with 1, 2, 4 and 8 heads, and with the chosen number.
pub(crate) fn parameters<B: Backend>(
    out: &mut impl Write,
    d_model: usize,
    n_heads: usize,
    device: &B::Device,
) -> io::Result<()> {
    let mut counts = vec![1, 2, 4, 8, n_heads];
    counts.sort_unstable();
    counts.dedup();
    counts.retain(|count| d_model.is_multiple_of(*count));

    let [mut heads, mut dims, mut parameters] = [const { String::new() }; 3];
    for count in counts {
        let layer = layer::random::<B>(d_model, count, device);
        heads += &format!("{count:>10}");
        dims += &format!("{:>10}", d_model / count);
        parameters += &format!("{:>10}", layer.num_params());
    }
    heading(
        out,
        "more heads, no more parameters",
        &format!("4 matrices of ({d_model}, {d_model})"),
    )?;
    writeln!(out, "  n_heads   {heads}\n  head_dim  {dims}\n  parameters{parameters}")
}

/// Applies the layer three times, each to what the one before gave.
pub(crate) fn stack<B: Backend>(
    out: &mut impl Write,
    layer: &MultiHeadAttention<B>,
    x: Tensor<B, 3>,
) -> io::Result<()> {
    let once = layer.forward(MhaInput::self_attn(x.clone())).context;
    let twice = layer.forward(MhaInput::self_attn(once.clone())).context;
    let thrice = layer.forward(MhaInput::self_attn(twice.clone())).context;
    let stages = [x, once, twice, thrice];

    heading(out, "stack three times", &stages.each_ref().map(shape).join(" → "))?;
    writeln!(out, "  layer(layer(layer(X))): what comes out has the shape of what went in")?;
    let sizes = stages.each_ref().map(|stage| format!("{:.1}", largest(values(stage))));
    writeln!(out, "  largest |value| {}", sizes.join(" → "))
}
