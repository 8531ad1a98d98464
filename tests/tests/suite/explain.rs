//! `explain` tells the truth: the same bits as the call itself, and every pair's weight from its parts.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::oracle::Sizes;
use mha::{
    Gate, MhaInput, MultiHeadAttentionConfig, Path, Position, QkNorm, Rotary, Sink, Weights,
    weights_of,
};
use mha_tests::{
    Case, Layer, Yardstick, assert_close, assert_same, cases, explained_steps, floats, numbers,
    on_every_backend, paths, tensor,
};

on_every_backend!(
    the_same_bits,
    every_step_is_the_oracles,
    why_adds_up,
    steps_of_everything,
    nan_and_empty,
    chosen_weights,
);

fn module<B: Backend>(case: &Case) -> (mha::MultiHeadAttention<B>, MhaInput<B>) {
    let layer = Layer::<f32>::new(case);
    let [query, key, value] = layer.tensors();
    let input = case.apply(MhaInput::new(query, key, value)).weights(Weights::PerHead);
    (layer.fill(case.config().init(&B::Device::default())), input)
}

fn the_same_bits<B: AutodiffBackend>() {
    for case in cases() {
        let (module, input) = module::<B>(&case);
        let explanation = module.explain(&input).expect("it runs");
        assert!(explanation.output.lse.is_none()); // nobody asked
        let out = module.forward(input);
        assert_same(&floats(out.context.clone()), &floats(explanation.output.context));
        assert_same(&floats(out.weights.unwrap()), &floats(explanation.output.weights.unwrap()));
        let last = explanation.steps.last().expect("steps");
        assert_eq!(last.shape, out.context.dims());
    }
}

/// As accurate as the textbook formula on the same way, step by step.
fn every_step_is_the_oracles<B: AutodiffBackend>() {
    for case in cases() {
        let yardstick = Yardstick::of_steps(&case, 32);
        let (module, input) = module::<B>(&case);
        for path in paths::<B>() {
            let input = input.clone().weights(Weights::None).path(path);
            let steps = explained_steps(&case, &module.explain(&input).expect("it runs"));
            yardstick.check(&steps);
            yardstick.check_all_are_there(&steps, |_| true);
        }
    }
}

fn why_adds_up<B: AutodiffBackend>() {
    for case in cases() {
        let (module, input) = module::<B>(&case);
        let explanation = module.explain(&input).expect("it runs");
        let hides = case.hides();
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = case.sizes;
        let weights = explanation.output.weights.clone().expect("asked for").inner();
        let places = [
            [0, 0, 0, 0],
            [batch - 1, n_heads - 1, seq_q - 1, seq_k - 1],
            [0, n_heads - 1, seq_q / 2, seq_k / 2],
        ];
        for [b, h, i, j] in places {
            let why = explanation.why(b, h, i, j).expect("the pair is there");
            let weight = weights.clone().slice([b..b + 1, h..h + 1, i..i + 1, j..j + 1]);
            assert_eq!(why.weight, f64::from(floats(weight)[0]), "{}", case.name);
            assert_eq!(why.hidden_by.is_some(), hides([b, h, i, j]), "{}: {why}", case.name);
            let capped = why.capped.unwrap_or(why.scaled);
            assert_eq!(why.capped.is_some(), case.softcap.is_some());
            let bias: f64 = why.biases.iter().map(|(_, bias)| bias).sum();
            assert!((capped + bias - why.score).abs() < 1e-5, "{}: {why}", case.name);
            let expected = if why.hidden_by.is_some() { 0.0 } else { (why.score - why.lse).exp() };
            assert!((why.weight - expected).abs() < 1e-5, "{}: {why}", case.name);
        }
        let beyond = explanation.why(batch, 0, 0, 0).expect_err("no such entry").to_string();
        assert_eq!(beyond, format!("b must be below {batch} (batch), got {batch}"));
    }
}

fn steps_of_everything<B: AutodiffBackend>() {
    let module = MultiHeadAttentionConfig::new(8, 2)
        .with_qk_norm(QkNorm::Rms { epsilon: 1e-6 })
        .with_position(Rotary::half(100.0))
        .with_softcap(5.0)
        .with_sink(Sink::Learned)
        .with_bias_kv(1)
        .with_gate(Gate::PerHead)
        .with_dropout(0.5)
        .init::<B>(&Default::default());
    let bias = tensor::<B, 4, _>(&numbers(2, 9), [1, 1, 3, 3]);
    let tokens = tensor(&numbers(1, 24), [1, 3, 8]);
    let input = MhaInput::self_attn(tokens).causal().bias(bias);
    let explanation = module.explain(&input).expect("it runs");
    let names: Vec<_> =
        explanation.steps.iter().map(|s| format!("{} {}", s.name, s.symbol)).collect();
    assert_eq!(
        names,
        [
            "project Q",
            "project K",
            "project V",
            "split Q",
            "split K",
            "split V",
            "normalize Q",
            "normalize K",
            "rotate Q",
            "rotate K",
            "scores S",
            "scale S",
            "softcap S",
            "bias B",
            "biased S",
            "weights P",
            "dropout P",
            "attend C",
            "gate C",
            "merge C",
            "project out Y",
        ]
    );
    let scores = explanation.step("scores").expect("a step");
    assert_eq!(scores.shape, [1, 2, 3, 4]);
    assert_eq!((scores.dtype, scores.bytes), (DType::F32, 24 * 4));
    assert_eq!(scores.flops, 2 * (2 * 3 * 4) * 4);
    assert!((explanation.masked_share - 3.0 / 12.0).abs() < 1e-12); // 3 of 3 × 4 pairs
    let table = explanation.to_string();
    for step in &explanation.steps {
        assert!(table.contains(&format!("{:?}", step.shape)), "{table}");
        assert!(step.values().iter().all(|x| (step.min..=step.max).contains(x)));
    }
    assert!(table.contains("masked: 25.0 % of all pairs\npath: "), "{table}");
}

fn nan_and_empty<B: AutodiffBackend>() {
    let module =
        MultiHeadAttentionConfig::new(4, 1).with_dropout(0.0).init::<B>(&Default::default());
    let tokens = Tensor::<B, 3>::full([1, 2, 4], f32::NAN, &Default::default());
    let explanation = module.explain(&MhaInput::self_attn(tokens)).expect("it runs");
    assert_eq!(explanation.step("project").expect("a step").nan, 8);
    assert_eq!(explanation.steps.last().expect("a step").nan, 8);

    let none = Tensor::<B, 3>::zeros([2, 0, 4], &Default::default());
    let some = Tensor::<B, 3>::zeros([2, 3, 4], &Default::default());
    let explanation = module.explain(&MhaInput::new(some, none.clone(), none)).expect("it runs");
    assert_eq!(explanation.output.context.dims(), [2, 3, 4]);
    assert!(explanation.why(0, 0, 0, 0).is_err()); // no key
}

/// Chosen heads and rows have the weights that all have, by module and by function.
fn chosen_weights<B: AutodiffBackend>() {
    for case in cases() {
        let (module, input) = module::<B>(&case);
        let all = module.forward(input.clone()).weights.expect("asked for").inner();
        let Sizes { n_heads, seq_q, .. } = case.sizes;
        let (heads, rows) = ([n_heads - 1, 0], [seq_q / 2, seq_q - 1, 0]);
        let expected = pick(all, &heads, &rows);
        let chosen = module.weights_of(input, &heads, &rows).expect("they are there");
        assert_eq!(chosen.dims()[1..3], [2, 3]);
        assert_close(&floats(chosen), &expected, 1e-6);

        let error = module.weights_of(module_input(&case), &[n_heads], &[]).map(drop).unwrap_err();
        let words = format!("heads must be below {n_heads} (n_heads), got {n_heads}");
        assert_eq!(error.to_string(), words);
        if !case.is_for_modules() {
            check_function::<B>(&case, &heads, &rows);
        }
    }
}

fn module_input<B: Backend>(case: &Case) -> MhaInput<B> {
    module(case).1
}

fn check_function<B: AutodiffBackend>(case: &Case, heads: &[usize], rows: &[usize]) {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, .. } = case.sizes;
    let [query, key, ..] = case.inputs();
    let query = tensor::<B, 4, _>(&query, [batch, seq_q, n_heads, head_dim]);
    let key = tensor::<B, 4, _>(&key, [batch, seq_k, n_kv_heads, head_dim]);
    let (options, _) = case.options(Path::Plain);
    let value = key.clone();
    let mut without = case.clone();
    without.dropout = None; // weights are those before dropout
    without.sizes.value_dim = head_dim;
    let (all, _) = without.options(Path::Plain);
    let all = mha::attention(query.clone(), key.clone(), value, &all).weights.expect("asked for");
    let chosen = weights_of(query, key, &options, heads, rows).expect("they are there");
    assert_close(&floats(chosen), &pick(all.inner(), heads, rows), 1e-6);
}

fn pick<B: Backend>(all: Tensor<B, 4>, heads: &[usize], rows: &[usize]) -> Vec<f64> {
    let [batch, ..] = all.dims();
    let mut picked = Vec::new();
    for b in 0..batch {
        for &h in heads {
            for &i in rows {
                let row = all.clone().narrow(0, b, 1).narrow(1, h, 1).narrow(2, i, 1);
                picked.extend(floats(row).into_iter().map(f64::from));
            }
        }
    }
    picked
}

/// A position encoding without parameters of its own shows among the biases.
#[test]
fn alibi_is_told() {
    type B = mha_tests::AnyBackend;
    let config = MultiHeadAttentionConfig::new(8, 2).with_position(Position::Alibi);
    let module = config.init::<B>(&Default::default());
    let input = MhaInput::self_attn(Tensor::zeros([1, 5, 8], &Default::default()));
    let why = module.explain(&input).unwrap().why(0, 1, 0, 4).unwrap();
    assert_eq!(why.biases, [("ALiBi", -4.0 / 256.0)]);
    assert!(why.to_string().contains("+ ALiBi         -0.015625"), "{why}");
}
