//! Lengths of 0: nothing to attend to is no error.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{
    AttentionOptions, Gate, KvCache, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
    Position, QkNorm, Rotary, Sink, T5Buckets, Weights, attention,
};
use mha_tests::{floats, on_every_backend, paths};

on_every_backend!(module, function, every_option, caches, dense_masks, unbatched);

fn module<B: AutodiffBackend>() {
    let device = Default::default();
    let module = MultiHeadAttentionConfig::new(6, 2).init::<B>(&device);
    for [batch, seq_q, seq_k] in [[0, 3, 5], [2, 0, 5], [2, 3, 0], [0, 0, 0]] {
        let query = Tensor::<B, 3>::ones([batch, seq_q, 6], &device);
        let memory = Tensor::<B, 3>::ones([batch, seq_k, 6], &device);
        let input = MhaInput::new(query, memory.clone(), memory).causal();
        for path in paths::<B>() {
            let out = module.try_forward(input.clone().path(path)).expect("no error");
            assert_eq!(out.context.dims(), [batch, seq_q, 6]);
        }
        let out = module.try_forward(input.weights(Weights::PerHead)).expect("no error");
        assert_eq!(out.context.dims(), [batch, seq_q, 6]);
        assert_eq!(out.weights.expect("asked for").dims(), [batch, 2, seq_q, seq_k]);
        // Without a key the output is the output projection's bias, in every row.
        if batch * seq_q > 0 {
            let bias = floats(module.output.bias.as_ref().expect("a bias").val());
            assert_eq!(floats(out.context), bias.repeat(batch * seq_q));
        }
    }
}

fn function<B: AutodiffBackend>() {
    let device = Default::default();
    let ones = |seq, width| Tensor::<B, 4>::ones([2, seq, 3, width], &device);
    let options = AttentionOptions::default().return_weights();
    let out = attention(ones(5, 4), ones(0, 4), ones(0, 7), &options);
    assert_eq!(out.context.dims(), [2, 5, 3, 7]);
    assert!(floats(out.context).iter().all(|&x| x == 0.0));
    assert_eq!(out.weights.expect("asked for").dims(), [2, 3, 5, 0]);
}

/// Modules that have everything between them.
fn modules<B: Backend>() -> Vec<MultiHeadAttention<B>> {
    let config = || MultiHeadAttentionConfig::new(8, 2);
    let configs = [
        config(),
        config()
            .with_position(Rotary::half(10.0))
            .with_gate(Gate::Elementwise)
            .with_qk_norm(QkNorm::Layer { epsilon: 1e-6 })
            .with_sink(Sink::Learned)
            .with_softcap(2.0),
        config()
            .with_position(Position::Alibi)
            .with_gate(Gate::PerHead)
            .with_bias_kv(2)
            .with_sink(Sink::ZeroKey),
        config().with_position(T5Buckets::causal()).with_bias_kv(1),
        config().burn_nn_compat(),
    ];
    configs.map(|config| config.init(&Default::default())).into()
}

fn ones<B: Backend>(batch: usize, seq: usize) -> Tensor<B, 3> {
    Tensor::ones([batch, seq, 8], &Default::default())
}

fn every_option<B: AutodiffBackend>() {
    let device = Default::default();
    for module in modules::<B>() {
        for [batch, seq_q, seq_k] in [[0, 3, 5], [2, 0, 5], [2, 3, 0], [0, 0, 0]] {
            let memory = || ones(batch, seq_k);
            let input = MhaInput::new(ones::<B>(batch, seq_q), memory(), memory())
                .causal()
                .lse()
                .head_scale(Tensor::ones([2], &device))
                .bias(Tensor::ones([1; 4], &device));
            let out = module.try_forward(input.clone()).expect("no error");
            assert_eq!(out.context.dims(), [batch, seq_q, 8]);
            assert_eq!(out.lse.expect("asked for").dims(), [batch, 2, seq_q]);
            let input = input.weights(Weights::AveragedAfterDropout);
            let out = module.try_forward(input.clone()).expect("no error");
            assert_eq!(out.context.dims(), [batch, seq_q, 8]);
            assert_eq!(out.lse.expect("asked for").dims(), [batch, 2, seq_q]);
            assert_eq!(out.weights.expect("asked for").dims()[..3], [batch, 1, seq_q]);
            assert!(module.explain(&input).is_ok());
            assert!(module.weights_of(input, &[1], &[]).is_ok());
        }
    }
}

fn caches<B: AutodiffBackend>() {
    for module in modules::<B>() {
        for [batch, new] in [[0, 3], [2, 0]] {
            for mut cache in [KvCache::growing(), KvCache::preallocated(6), KvCache::rolling(2)] {
                for _ in 0..2 {
                    let input = MhaInput::self_attn(ones::<B>(batch, new)).causal();
                    let out = module.try_forward_cached(input, &mut cache).expect("no error");
                    assert_eq!(out.context.dims(), [batch, new, 8]);
                }
            }
            let memory = module.cache_memory(ones(batch, new), ones(batch, new));
            let input = MhaInput::query(ones::<B>(batch, 2));
            let out = module.try_forward_cached(input, &mut memory.expect("no error"));
            assert_eq!(out.expect("no error").context.dims(), [batch, 2, 8]);
        }
    }
}

/// In Burn's reshape a 0 means "as it was", which is another number once axes were put in.
fn dense_masks<B: AutodiffBackend>() {
    let device = Default::default();
    let module = MultiHeadAttentionConfig::new(8, 2).init::<B>(&device);
    for [seq_q, seq_k] in [[0, 5], [3, 0], [0, 0]] {
        let pairs = || Tensor::<B, 2, Bool>::empty([seq_q, seq_k], &device);
        let entries = || Tensor::<B, 3, Bool>::empty([2, seq_q, seq_k], &device);
        let keys = || Tensor::<B, 2, Bool>::empty([2, seq_k], &device);
        let mask = Mask::block(pairs()).and(Mask::keep(pairs())).and(Mask::keep(entries()));
        let mask = mask.and(Mask::block_keys(keys())).and(Mask::keep_keys(keys()));
        let input = MhaInput::new(ones::<B>(2, seq_q), ones(2, seq_k), ones(2, seq_k)).mask(mask);
        let out = module.try_forward(input.mask_pad(keys()).mask_attn(entries()));
        assert_eq!(out.expect("no error").context.dims(), [2, seq_q, 8]);
    }
}

fn unbatched<B: AutodiffBackend>() {
    let module = MultiHeadAttentionConfig::new(8, 2).init::<B>(&Default::default());
    for seq in [0, 1, 3] {
        let tokens = Tensor::<B, 2>::ones([seq, 8], &Default::default());
        let out = module.forward(MhaInput::unbatched(tokens)).context;
        assert_eq!(out.dims(), [1, seq, 8]);
    }
}
