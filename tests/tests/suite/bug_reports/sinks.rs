//! Attention sinks.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Sink, attention};
use mha_tests::{assert_close, bools, floats, on_every_backend, tensor};

use super::{assert_finite, core_of, parameter_gradients};

on_every_backend!(
    br_30_sink_and_its_gradient,
    br_30_sink_of_each_head,
    br_30_sink_without_keys,
    br_30_sink_against_scores,
);

/// Dao-AILab/flash-attention #1973 "Learnable sink gradient support in flash_attn.cute" and
/// NVIDIA/TransformerEngine #2541 (the gradient is exactly 0): two equal scores, values 3 and 6.
fn br_30_sink_and_its_gradient<B: AutodiffBackend>() {
    let device = Default::default();
    for (logit, expected, gradient) in
        [(0.0, 3.0, -1.0), (2.0f32.ln(), 2.25, -1.125), (100.0, 0.0, 0.0)]
    {
        let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device).require_grad();
        let (query, key) = (zeros(1), zeros(2));
        let value = tensor::<B, 4, f32>(&[3.0, 6.0], [1, 2, 1, 1]).require_grad();
        let sink = tensor::<B, 1, _>(&[logit], [1]).require_grad();
        let options = AttentionOptions::default().sink(sink.clone());
        let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
        assert_close(&floats(out.clone()), &[expected], 1e-6);
        let gradients = out.sum().backward();
        assert_close(&floats(sink.grad(&gradients).unwrap()), &[gradient], 1e-6);
        for x in [query, key, value] {
            assert_finite(&floats(x.grad(&gradients).unwrap()));
        }

        // In a module.
        let config = MultiHeadAttentionConfig::new(1, 1).with_dropout(0.0);
        let mut module = core_of::<B>(&config.with_sink(Sink::Learned));
        module.sinks = Some(Param::from_tensor(tensor(&[logit], [1])));
        let zeros = |seq| Tensor::<B, 3>::zeros([1, seq, 1], &device);
        let value = tensor::<B, 3, f32>(&[3.0, 6.0], [1, 2, 1]);
        let out = module.forward(MhaInput::new(zeros(1), zeros(2), value)).context;
        assert_close(&floats(out.clone()), &[expected], 1e-6);
        let gradients = out.sum().backward();
        let of_sink = module.sinks.as_ref().unwrap().grad(&gradients).unwrap();
        assert_close(&floats(of_sink), &[gradient], 1e-6);
        assert_finite(&parameter_gradients(&module, &gradients));
    }

    // tracel-ai/burn #691: the quiet softmax is a sink at 0.
    for sink in [Sink::Quiet, Sink::ZeroKey] {
        let config = MultiHeadAttentionConfig::new(1, 1).with_dropout(0.0).with_sink(sink);
        let zeros = |seq| Tensor::<B, 3>::zeros([1, seq, 1], &device);
        let value = tensor::<B, 3, f32>(&[3.0, 6.0], [1, 2, 1]);
        let out = core_of(&config).forward(MhaInput::new(zeros(1), zeros(2), value)).context;
        assert_close(&floats(out), &[3.0], 1e-6);
    }
}

/// The same reports: one sink per head, with grouped heads.
fn br_30_sink_of_each_head<B: AutodiffBackend>() {
    let device = Default::default();
    let zeros = |seq, heads| Tensor::<B, 4>::zeros([1, seq, heads, 1], &device);
    // Key head 0 has the values 3 and 6, key head 1 has 30 and 60.
    let value = tensor::<B, 4, f32>(&[3.0, 30.0, 6.0, 60.0], [1, 2, 2, 1]);
    let logits = [0.0, 2.0f32.ln(), 100.0, 6.0f32.ln()];
    let sink = tensor::<B, 1, _>(&logits, [4]).require_grad();
    let options = AttentionOptions::default().sink(sink.clone()).return_weights();
    let out = attention(zeros(1, 4), zeros(2, 2), value, &options);
    assert_close(&floats(out.context.clone()), &[3.0, 2.25, 0.0, 11.25], 1e-5);
    let weights = [3.0, 3.0, 4.0, 4.0, f64::INFINITY, f64::INFINITY, 8.0, 8.0].map(f64::recip);
    assert_close(&floats(out.weights.unwrap()), &weights, 1e-6);
    // -p_sink times the output.
    let gradient = sink.grad(&out.context.sum().backward()).unwrap();
    assert_close(&floats(gradient), &[-1.0, -1.125, 0.0, -6.0 / 8.0 * 11.25], 1e-5);
}

/// The same reports: a row whose keys are all hidden gives 0 whatever the sink, and no NaN.
fn br_30_sink_without_keys<B: AutodiffBackend>() {
    let device = Default::default();
    for logit in [0.0f32, 2.0f32.ln(), 100.0, -100.0] {
        let ones = |seq| Tensor::<B, 4>::ones([1, seq, 2, 1], &device).require_grad();
        let (query, key, value) = (ones(2), ones(3), ones(3));
        let sink = tensor::<B, 1, _>(&[logit; 2], [2]).require_grad();
        let hidden = bools::<B, 2>(&[true, true, true, false, true, false], [2, 3]);
        let options = AttentionOptions::default().mask(Mask::block(hidden)).sink(sink.clone());
        let options = options.return_weights().return_lse();
        let out = attention(query.clone(), key.clone(), value.clone(), &options);
        let context = floats(out.context.clone());
        assert_eq!(context[..2], [0.0, 0.0]);
        assert_finite(&context);
        let weights = floats(out.weights.unwrap());
        assert!(weights[..3].iter().chain(&weights[6..9]).all(|&x| x == 0.0));
        // What is left of the denominator is the sink.
        assert_close(&floats(out.lse.unwrap())[..1], &[logit.into()], 1e-5);
        let gradients = out.context.narrow(1, 0, 1).sum().backward();
        assert_eq!(floats(sink.grad(&gradients).unwrap()), [0.0, 0.0]);
        for x in [query, key, value] {
            assert!(floats(x.grad(&gradients).unwrap()).iter().all(|&x| x == 0.0));
        }
    }
}

/// The same reports: the sink takes part in the maximum, and counts on long rows too.
fn br_30_sink_against_scores<B: AutodiffBackend>() {
    let device = Default::default();
    let run = |score: f32, logit: f32, n: usize| {
        let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device);
        let bias = Tensor::full([1, 1, 1, 1], score, &device);
        let sink = tensor::<B, 1, _>(&[logit], [1]).require_grad();
        let options = AttentionOptions::default().bias(bias).sink(sink.clone());
        let value = Tensor::full([1, n, 1, 1], 4.0, &device);
        let out = attention(zeros(1), zeros(n), value, &options).context;
        let gradient = sink.grad(&out.clone().sum().backward()).unwrap();
        [floats(out)[0], floats(gradient)[0]]
    };
    // Two keys and a sink as strong as each of them: a third.
    for score in [0.0f32, 100.0, -100.0, 1000.0, -1000.0] {
        // Kernels compute the weights again from the log-sum-exp, which is as large as the scores.
        let rounding = f64::from(score.abs() * f32::EPSILON);
        assert_close(&run(score, score, 2), &[8.0 / 3.0, -8.0 / 9.0], rounding.max(1e-5));
    }
    assert_eq!(run(-100.0, 100.0, 2), [0.0, 0.0]);
    assert_close(&run(100.0, -100.0, 2), &[4.0, 0.0], 1e-6);
    // A sink as strong as all of a thousand keys: a half. A sum of a thousand in f32, one after the
    // other, may be off by a few hundred roundings.
    assert_close(&run(0.0, 1000.0f32.ln(), 1000), &[2.0, -1.0], 1e-4);
}
