//! Grouped-query attention.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig, attention, try_attention};
use mha_tests::{assert_close, floats, numbers, on_every_backend, tensor, wide};

on_every_backend!(br_16_grouped_heads_read_their_own, br_16_as_with_keys_written_out);

/// tracel-ai/burn #5783 "attention: GQA, causal mask alignment, and softcap/bias order" (item 1)
/// and onnx/onnx PR #7274 (tile versus repeat).
fn br_16_grouped_heads_read_their_own<B: AutodiffBackend>() {
    let query = tensor::<B, 4, _>(&numbers(1, 3 * 4), [1, 3, 4, 1]);
    let key = tensor::<B, 4, _>(&numbers(2, 5 * 2), [1, 5, 2, 1]);
    let value = tensor::<B, 4, f32>(&[10.0, 20.0].repeat(5), [1, 5, 2, 1]);
    let expected = [10.0, 10.0, 20.0, 20.0].repeat(3);
    for options in [AttentionOptions::default(), AttentionOptions::default().causal()] {
        let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
        assert_close(&floats(out), &expected, 1e-5);
    }

    // In a module: a value projection that gives 10 and 20 whatever the token.
    let device = Default::default();
    let config = MultiHeadAttentionConfig::new(4, 4).with_n_kv_heads(2).with_dropout(0.0);
    let mut module = config.with_output_bias(false).init::<B>(&device);
    module.value.weight = Param::from_tensor(Tensor::zeros([4, 2], &device));
    module.value.bias = Some(Param::from_tensor(tensor(&[10.0f32, 20.0], [2])));
    module.output.weight = Param::from_tensor(Tensor::eye(4, &device));
    let tokens = tensor::<B, 3, _>(&numbers(3, 3 * 4), [1, 3, 4]);
    let out = module.forward(MhaInput::self_attn(tokens)).context;
    assert_close(&floats(out), &expected, 1e-5);

    // Heads that cannot be shared out evenly are refused.
    let config = MultiHeadAttentionConfig::new(4, 4).with_n_kv_heads(3);
    let said = "n_kv_heads must divide n_heads, got n_kv_heads 3 and n_heads 4";
    assert_eq!(config.try_init::<B>(&device).map(drop).unwrap_err().to_string(), said);
    let key = Tensor::zeros([1, 5, 3, 1], &device);
    let refused = try_attention(query, key.clone(), key, &AttentionOptions::default());
    assert_eq!(refused.map(drop).unwrap_err().to_string(), said);
}

/// The same report: values and gradients are those of keys and values written out for each query
/// head.
fn br_16_as_with_keys_written_out<B: AutodiffBackend>() {
    let (batch, seq_q, seq_k, n_heads, n_kv_heads, width) = (2, 3, 5, 6, 2, 4);
    let group = n_heads / n_kv_heads;
    let written_out = |x: Tensor<B, 4>| {
        x.reshape([batch, seq_k, n_kv_heads, 1, width])
            .expand([batch, seq_k, n_kv_heads, group, width])
            .reshape([batch, seq_k, n_heads, width])
    };
    for options in [AttentionOptions::default(), AttentionOptions::default().causal()] {
        let run = |write: bool| {
            let leaf = |seed, seq, heads| {
                let dims = [batch, seq, heads, width];
                tensor::<B, 4, _>(&numbers(seed, dims.iter().product()), dims).require_grad()
            };
            let query = leaf(1, seq_q, n_heads);
            let (key, value) = (leaf(2, seq_k, n_kv_heads), leaf(3, seq_k, n_kv_heads));
            let keys = [key.clone(), value.clone()];
            let [k, v] = if write { keys.map(written_out) } else { keys };
            let out = attention(query.clone(), k, v, &options).context;
            let gradients = out.clone().powi_scalar(2).sum().backward();
            let of = |x: Tensor<B, 4>| floats(x.grad(&gradients).unwrap());
            [floats(out), of(query), of(key), of(value)]
        };
        for (grouped, written) in run(false).iter().zip(&run(true)) {
            assert_close(grouped, &wide(written), 1e-5);
        }
    }
}
