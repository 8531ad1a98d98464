//! Softcap.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{assert_close, bools, floats, on_every_backend, tensor};

use super::core_of;

on_every_backend!(br_28_softcap_before_mask_and_bias);

/// The weights of the first of two keys with these raw scores, cap 2, scale 1: as the function and
/// the module give them, asked for and as the context of the values 1 and 0.
fn first_weights<B: AutodiffBackend>(
    scores: [f32; 2],
    mask: &Mask<B>,
    bias: Option<[f32; 2]>,
) -> Vec<f32> {
    let bias: Option<Tensor<B, 4>> = bias.map(|bias| tensor(&bias, [1, 1, 1, 2]));
    let mut all = Vec::new();

    let (key, value) = (tensor(&scores, [1, 2, 1, 1]), tensor(&[1.0f32, 0.0], [1, 2, 1, 1]));
    let options = AttentionOptions::default().scale(1.0).softcap(2.0).mask(mask.clone());
    let options = bias.clone().into_iter().fold(options, AttentionOptions::bias);
    let query = tensor::<B, 4, f32>(&[1.0], [1, 1, 1, 1]);
    let context = attention(query.clone(), key.clone(), value.clone(), &options).context;
    all.push(floats(context)[0]);
    let weights = attention(query, key, value, &options.return_weights()).weights;
    all.push(floats(weights.unwrap())[0]);

    let config = MultiHeadAttentionConfig::new(1, 1).with_scale(1.0).with_softcap(2.0);
    let module = core_of(&config.with_dropout(0.0));
    for weights in [Weights::None, Weights::PerHead] {
        let query = tensor::<B, 3, f32>(&[1.0], [1, 1, 1]);
        let (key, value) = (tensor(&scores, [1, 2, 1]), tensor(&[1.0f32, 0.0], [1, 2, 1]));
        let input = MhaInput::new(query, key, value).mask(mask.clone()).weights(weights);
        let out = module.forward(bias.clone().into_iter().fold(input, MhaInput::bias));
        all.push(floats(out.context)[0]);
        all.extend(out.weights.map(|weights| floats(weights)[0]));
    }
    all
}

/// onnx/onnx #7865 "Softcap in Attention op", microsoft/onnxruntime #28215 and tracel-ai/burn #5783
/// (item 3); onnx/onnx #7829 wants the bias inside the cap, which it is not.
fn br_28_softcap_before_mask_and_bias<B: AutodiffBackend>() {
    // Exactly 1, where capping behind the mask would give 0.982011.
    let hidden = bools::<B, 2>(&[false, true], [1, 2]);
    for mask in [
        Mask::block_keys(hidden),
        Mask::lengths(vec![1]),
        Mask::window(None, 0).and(Mask::top_left()),
    ] {
        for second in [0.0, 10.0, -1e9] {
            assert_eq!(first_weights([10.0, second], &mask, None), [1.0; 5]);
        }
    }
    let minus_infinity = Some([0.0, f32::NEG_INFINITY]);
    assert_eq!(first_weights::<B>([10.0, 0.0], &Mask::none(), minus_infinity), [1.0; 5]);

    // The bias outside the cap; inside it would give 0.529406.
    let out = first_weights::<B>([4.0, 0.0], &Mask::none(), Some([0.0, 3.0]));
    assert_close(&out, &[0.255033; 5], 1e-6);
}
