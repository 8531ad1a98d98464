//! What works on each token alone, on some tokens after the others.

use burn::tensor::{Tensor, backend::Backend};

/// Tokens that go through together. A processor's cache holds what a feed-forward network makes of
/// them (1.5 MB of 1,536 features), so that the next operation finds it there. transformers has the
/// same as `chunk_size_feed_forward`.
const TOKENS: usize = 256;

/// `f` of both, each `[batch, seq, d_model]`, as `f` of `[1, tokens, d_model]` gives it.
pub(super) fn in_chunks<B: Backend>(
    [x, y]: [Tensor<B, 3>; 2],
    f: impl Fn([Tensor<B, 3>; 2]) -> Tensor<B, 3>,
) -> Tensor<B, 3> {
    let [batch, seq, d_model] = x.dims();
    // A GPU has many processors to keep busy, and every launch costs.
    let on_gpu = B::name(&x.device()).contains("cubecl");
    if on_gpu || batch * seq <= TOKENS {
        return f([x, y]);
    }
    let [x, y] = [x, y].map(|all| all.reshape([1, batch * seq, d_model]).split(TOKENS, 1));
    let chunks = x.into_iter().zip(y).map(|(x, y)| f([x, y])).collect();
    Tensor::cat(chunks, 1).reshape([batch, seq, d_model])
}
