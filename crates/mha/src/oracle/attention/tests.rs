//! Values and gradients of the problem with its sinks, heads' scales and logarithms.

use super::super::check::{assert_close, assert_gradient, dot, numbers};
use super::*;

const SIZES: Sizes =
    Sizes { batch: 2, n_heads: 6, n_kv_heads: 2, seq_q: 3, seq_k: 5, head_dim: 4, value_dim: 7 };

fn problem(sizes: Sizes) -> Attention<f64> {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = sizes;
    Attention::new(
        sizes,
        numbers(1, batch * seq_q * n_heads * head_dim),
        numbers(2, batch * seq_k * n_kv_heads * head_dim),
        numbers(3, batch * seq_k * n_kv_heads * value_dim),
    )
}

/// Two keys of score 0 with the values 3 and 6.
fn two_keys() -> Attention<f64> {
    let sizes = Sizes { seq_k: 2, ..Sizes::ONE };
    Attention::new(sizes, vec![0.0], vec![0.0; 2], vec![3.0, 6.0])
}

/// Every gradient, for a random gradient of the context.
fn assert_gradients(attention: &Attention<f64>) {
    let d_context = numbers(9, attention.forward().context.len());
    let gradients = attention.backward(&d_context);
    let loss = |change: &dyn Fn(&mut Attention<f64>)| {
        let mut changed = attention.clone();
        change(&mut changed);
        dot(&changed.forward().context, &d_context)
    };
    macro_rules! check {
        ($field:ident, $values:expr, $wrap:expr) => {
            assert_gradient(stringify!($field), $values, &gradients.$field, |moved| {
                loss(&|attention| attention.$field = $wrap(moved.to_vec()))
            });
        };
    }
    check!(query, &attention.query, |moved| moved);
    check!(key, &attention.key, |moved| moved);
    check!(value, &attention.value, |moved| moved);
    check!(bias, &attention.bias, |moved| moved);
    let given = |option: &Option<Vec<f64>>| option.clone().unwrap_or_default();
    check!(sink, &given(&attention.sink), Some);
    check!(head_scale, &given(&attention.head_scale), Some);
}

#[test]
fn gradients_are_central_differences() {
    assert_gradients(&problem(SIZES));
    let mut quiet = problem(SIZES);
    quiet.quiet();
    assert_gradients(&quiet);
    let mut scaled = problem(SIZES);
    scaled.head_scale = Some(vec![1.5, 0.0, -1.0, 0.3, 2.0, 1.0]);
    assert_gradients(&scaled);
}

/// Grouped heads, each with its own sink, beside every other option; some rows see no key.
#[test]
fn gradients_of_everything_at_once_are_central_differences() {
    let mut all = problem(SIZES);
    all.sink = Some(vec![0.0, 2.0, -1.0, 5.0, f64::NEG_INFINITY, 0.5]);
    all.head_scale = Some(vec![1.5, 0.0, -1.0, 0.3, 2.0, 1.0]);
    all.scale = 0.8;
    all.softcap = Some(1.2);
    all.bias = numbers(4, all.bias.len());
    all.hide(|b, h, i, j| i == 1 && (h + b).is_multiple_of(2) || (b + h + i * j) % 3 == 2);
    all.drop(5, 0.3);
    assert!(all.forward().weights.chunks(5).any(|row| row == [0.0; 5]));
    let d_context = numbers(9, all.forward().context.len());
    assert_eq!(all.backward(&d_context).sink[4], 0.0); // a sink of −∞ is none
    all.sink = Some(vec![0.0, 2.0, -1.0, 5.0, -3.0, 0.5]);
    assert_gradients(&all);
}

#[test]
fn gradients_of_sinks_on_long_and_short_rows_are_central_differences() {
    for seq_k in [1, 2, 150] {
        let mut row = problem(Sizes { seq_k, seq_q: 2, batch: 1, ..SIZES });
        // Around ln(150), beside which a sink of 0 would be lost.
        row.sink = Some(vec![-2.0, 0.0, 2.0, 4.0, 5.0, 7.0]);
        assert_gradients(&row);
    }
}

#[test]
fn a_sink_takes_its_share() {
    for (sink, context, slope) in [(0.0, 3.0, -1.0), (2f64.ln(), 2.25, -1.125), (100.0, 0.0, 0.0)] {
        let mut attention = two_keys();
        attention.sink = Some(vec![sink]);
        assert_close("context", &attention.forward().context, &[context], 1e-14);
        assert_close("sink", &attention.backward(&[1.0]).sink, &[slope], 1e-14);
    }
    let mut quiet = two_keys();
    quiet.quiet();
    assert_eq!((quiet.sink.clone(), quiet.forward().context), (Some(vec![0.0]), vec![3.0]));
}

/// Long rows of equal scores and values of 1: n / (n + exp(sink)) remain.
#[test]
fn a_sink_counts_as_its_exponential_many_keys() {
    for seq_k in [1, 3, 1000] {
        let sizes = Sizes { seq_k, n_heads: 2, ..Sizes::ONE };
        let mut attention = Attention::new(sizes, vec![0.0; 2], vec![0.0; seq_k], vec![1.0; seq_k]);
        attention.sink = Some([1.0, 500.0].map(f64::ln).to_vec());
        let n = seq_k as f64;
        let expected = [n / (n + 1.0), n / (n + 500.0)]; // the heads share a key head
        assert_close("context", &attention.forward().context, &expected, 1e-13);
    }
}

#[test]
fn a_row_without_keys_gives_nothing_with_a_sink_too() {
    for sink in [None, Some(vec![3.0])] {
        let mut masked = two_keys();
        masked.sink = sink.clone();
        masked.hide(|_, _, _, _| true);
        masked.value = vec![f64::NAN; 2];
        let Output { context, weights, dropped_weights, lse } = masked.forward();
        assert_eq!((context, weights, dropped_weights), (vec![0.0], vec![0.0; 2], vec![0.0; 2]));
        assert_eq!(lse, [sink.as_ref().map_or(f64::NEG_INFINITY, |sink| sink[0])]);
        let Gradients { query, key, value, bias, sink: d_sink, head_scale } =
            masked.backward(&[1.0]);
        let zeros = vec![0.0; 2];
        assert_eq!((query, key, value, bias), (vec![0.0], zeros.clone(), zeros.clone(), zeros));
        assert_eq!((d_sink, head_scale), (vec![0.0; sink.map_or(0, |sink| sink.len())], vec![]));
    }
}

/// ln of the plain sum of exponentials, sink included.
#[test]
fn lse_is_the_direct_sum() {
    let mut attention = problem(SIZES);
    attention.sink = Some(numbers(7, SIZES.n_heads));
    attention.bias = numbers(4, attention.bias.len());
    attention.hide(|b, h, i, j| (b + h + i + j) % 4 == 1);
    let lse = places([2, 6, 3]).into_iter().map(|[b, h, i]| {
        let visible = (0..5).filter(|j| (b + h + i + j) % 4 != 1);
        let exps = visible.map(|j| {
            let product: f64 = (0..4)
                .map(|f| {
                    attention.query[((b * 3 + i) * 6 + h) * 4 + f]
                        * attention.key[((b * 5 + j) * 2 + h / 3) * 4 + f]
                })
                .sum();
            (product / 2.0 + attention.bias[((b * 6 + h) * 3 + i) * 5 + j]).exp()
        });
        (exps.sum::<f64>() + attention.sink.as_ref().unwrap()[h].exp()).ln()
    });
    assert_close("lse", &attention.forward().lse, &lse.collect::<Vec<_>>(), 1e-14);
}

#[test]
fn large_scores_stay_finite() {
    for score in [1e4, -1e4] {
        let mut attention = two_keys();
        attention.bias = vec![score; 2];
        let output = attention.forward();
        assert_eq!((output.context, output.lse), (vec![4.5], vec![score + 2f64.ln()]));
        attention.quiet();
        let left = if score > 0.0 { 4.5 } else { 0.0 };
        assert_eq!(attention.forward().context, [left]);
        let gradients = attention.backward(&[1.0]);
        assert!(gradients.bias.iter().chain(&gradients.sink).all(|x| x.is_finite()));
    }
}

#[test]
fn heads_are_scaled_by_their_own_numbers() {
    let plain = problem(SIZES);
    let mut scaled = plain.clone();
    let scales = [1.5, 0.0, -1.0, 0.25, 2.0, 1.0];
    scaled.head_scale = Some(scales.to_vec());
    let [plain, scaled] = [plain.forward(), scaled.forward()];
    for (row, (x, y)) in plain.context.chunks(7).zip(scaled.context.chunks(7)).enumerate() {
        assert_eq!(y, x.iter().map(|x| x * scales[row % 6]).collect::<Vec<_>>());
    }
    assert_eq!((plain.weights, plain.lse), (scaled.weights, scaled.lse));
}

#[test]
fn dropped_weights_are_what_the_context_averages_with() {
    let mut attention = problem(SIZES);
    attention.drop(3, 0.4);
    let Output { weights, dropped_weights, .. } = attention.forward();
    assert!(attention.dropped.contains(&true) && attention.dropped.contains(&false));
    for (index, &dropped) in attention.dropped.iter().enumerate() {
        let expected = if dropped { 0.0 } else { weights[index] / 0.6 };
        assert_close("weight", &[dropped_weights[index]], &[expected], 1e-15);
    }
}
