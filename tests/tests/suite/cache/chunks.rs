//! Any chunking of a sequence against the single full pass.

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, backend::Backend};
use mha::{KvCache, Mask, Masking, MhaInput, MhaOutput, MultiHeadAttention, Path, Sink, Weights};
use mha_tests::{assert_close, floats, on_every_backend, paths, wide};

use super::variants::{BATCH, Piece, SEQ, Variant, index, variants};
use super::{SINKS, WINDOW, kinds, module, part, tokens, whole};

on_every_backend!(every_chunking_is_the_full_pass, gradients_pass_through_a_cache);

fn chunkings() -> [Vec<usize>; 6] {
    let of = |n: usize| {
        let rest = SEQ % n;
        let pieces = std::iter::repeat_n(n, SEQ / n);
        pieces.chain((rest > 0).then_some(rest)).collect::<Vec<usize>>()
    };
    [of(1), of(2), of(3), of(5), of(SEQ), vec![0, 4, 0, 7, 0]]
}

/// The positions that a cache has before `start`.
fn kept(kind: usize, start: usize) -> Vec<usize> {
    let sinks = [0, 0, 0, SINKS][kind];
    if kind < 2 || start <= WINDOW + sinks {
        return (0..start).collect();
    }
    (0..sinks).chain(start - WINDOW..start).collect()
}

/// The full pass of the first `end` tokens: with some scalings later tokens change what was before.
fn so_far<B: Backend>(
    module: &MultiHeadAttention<B>,
    variant: &Variant<B>,
    rule: &Mask<B>,
    end: usize,
) -> MhaOutput<B> {
    let input = MhaInput::self_attn(part(&tokens(1, BATCH, SEQ), 0, end));
    let input = input.mask(rule.clone()).weights(Weights::PerHead).lse();
    module.forward((variant.bring)(input, &Piece { start: 0, end, keys: (0..end).collect() }))
}

fn every_chunking_is_the_full_pass<B: AutodiffBackend>() {
    for variant in variants::<B::InnerBackend>() {
        let module = module(&variant.config);
        for (kind, (cache, rule)) in kinds(SEQ).into_iter().enumerate() {
            let expected: Vec<_> =
                (0..=SEQ).map(|end| so_far(&module, &variant, &rule, end)).collect();
            // The kernels do not overwrite scores, as burn-nn does.
            let can =
                |path: &Path| *path == Path::Plain || variant.config.masking == Masking::Exclude;
            let paths = paths::<B::InnerBackend>().into_iter().filter(can);
            for (path, chunking) in
                paths.flat_map(|path| chunkings().map(|chunking| (path, chunking)))
            {
                let mut cache = cache.clone();
                let mut start = 0;
                for n in chunking.iter().copied() {
                    let end = start + n;
                    let keys = kept(kind, start).into_iter().chain(start..end).collect();
                    let piece = Piece { start, end, keys };
                    let name =
                        format!("{}, kind {kind}, {chunking:?}: {start}..{end}", variant.name);
                    let out = run(path, &module, &variant, &piece, &mut cache);
                    compare(&name, &variant, &out, &expected[end], &piece);
                    if variant.stable && n > 0 {
                        let whole = part(&expected[SEQ].context, start, n);
                        super::assert_near(&name, &out.context, &whole);
                    }
                    start = end;
                    assert_eq!(cache.lengths(), [end; BATCH]);
                    assert_eq!((cache.len(), cache.is_empty()), (end, end == 0));
                }
            }
        }
    }
}

/// On the plain path with weights.
fn run<B: Backend>(
    path: Path,
    module: &MultiHeadAttention<B>,
    variant: &Variant<B>,
    piece: &Piece,
    cache: &mut KvCache<B>,
) -> MhaOutput<B> {
    let tokens = part(&tokens(1, BATCH, SEQ), piece.start, piece.end - piece.start);
    let weights = if path == Path::Plain { Weights::PerHead } else { Weights::None };
    let input = MhaInput::self_attn(tokens).path(path).weights(weights).lse();
    module.forward_cached((variant.bring)(input, piece), cache)
}

/// The piece's rows and, of the weights, its columns; what the cache has forgotten weighs nothing.
fn compare<B: Backend>(
    name: &str,
    variant: &Variant<B>,
    out: &MhaOutput<B>,
    expected: &MhaOutput<B>,
    piece: &Piece,
) {
    let &Piece { start, end, ref keys } = piece;
    let extra = variant.config.bias_kv + usize::from(variant.config.sink == Sink::ZeroKey);
    let lse = out.lse.clone().unwrap();
    assert_eq!(lse.dims(), [BATCH, variant.config.n_heads, end - start], "{name}");
    if let Some(weights) = &out.weights {
        assert_eq!(weights.dims()[2..], [end - start, keys.len() + extra], "{name}");
    }
    assert_eq!(out.context.dims()[1], end - start, "{name}");
    if start == end {
        return;
    }
    if let Some(weights) = out.weights.clone() {
        let columns: Vec<usize> = keys.iter().copied().chain(end..end + extra).collect();
        let all = expected.weights.clone().unwrap().narrow(2, start, end - start);
        super::assert_near(name, &weights, &all.clone().select(3, index(&columns)));
        super::assert_near(name, &weights.sum_dim(3), &all.sum_dim(3));
    }
    super::assert_near(name, &lse, &expected.lse.clone().unwrap().narrow(2, start, end - start));
    super::assert_near(name, &out.context, &part(&expected.context, start, end - start));
}

/// Training on pieces, as with a memory of the text before, gives the gradients of the full pass.
fn gradients_pass_through_a_cache<B: AutodiffBackend>() {
    let module = module::<B>(&super::config().with_n_kv_heads(2));
    for (mut cache, rule) in kinds::<B>(SEQ) {
        let all = tokens::<B>(1, BATCH, SEQ).require_grad();
        let pieces = [[0, 4], [4, 1], [5, 6]]
            .map(|[start, n]| super::step(&module, part(&all, start, n), &mut cache).context);
        let in_pieces = Tensor::cat(pieces.to_vec(), 1).powi_scalar(2).sum().backward();
        let at_once = tokens::<B>(1, BATCH, SEQ).require_grad();
        let expected = whole(&module, &at_once, &rule).powi_scalar(2).sum().backward();
        let close = |a: Vec<f32>, b: Vec<f32>| assert_close(&a, &wide(&b), 2e-4);
        close(floats(all.grad(&in_pieces).unwrap()), floats(at_once.grad(&expected).unwrap()));
        for linear in [&module.query, &module.key, &module.value, &module.output] {
            let gradient = |of| floats(linear.weight.grad(of).unwrap());
            close(gradient(&in_pieces), gradient(&expected));
        }
    }
}
