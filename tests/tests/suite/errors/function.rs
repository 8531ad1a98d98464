//! Calls of the function, and parts that do not merge.

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{DType, Tensor};
use mha::{
    AttentionOptions, Mask, Masking, T5Buckets, attention, attention_heads_first, merge_attention,
    try_attention, weights_of,
};
use mha_tests::on_every_backend;

use super::{assert_says, mask, panic_text, zeros};

on_every_backend!(shapes, options, heads_first, some_weights, parts);

type Dims = [usize; 4];

#[track_caller]
fn refused<B: AutodiffBackend>(
    [query, key, value]: [Dims; 3],
    options: AttentionOptions<B>,
    said: &str,
) {
    let [query, key, value] = [query, key, value].map(zeros::<B, 4>);
    assert_says(try_attention(query.clone(), key.clone(), value.clone(), &options), said);
    assert_eq!(panic_text(|| attention(query, key, value, &options)), said);
}

fn shapes<B: AutodiffBackend>() {
    let refused = |dims, said| refused::<B>(dims, AttentionOptions::default(), said);
    refused(
        [[2, 5, 3, 4], [2, 7, 3, 6], [2, 7, 3, 4]],
        "key: expected shape [2, 7, 3, 4] (batch, seq_k, n_kv_heads, head_dim), got [2, 7, 3, 6]",
    );
    refused(
        [[2, 5, 3, 4], [2, 7, 1, 4], [2, 7, 3, 4]],
        "value: expected shape [2, 7, 1, 4] (batch, seq_k, n_kv_heads, value_dim), got [2, 7, 3, 4]",
    );
    refused(
        [[2, 5, 3, 4], [2, 7, 2, 4], [2, 7, 2, 4]],
        "n_kv_heads must divide n_heads, got n_kv_heads 2 and n_heads 3",
    );
    refused(
        [[2, 5, 3, 4], [2, 7, 3, 4], [2, 6, 3, 9]],
        "value: expected shape [2, 7, 3, 9] (batch, seq_k, n_kv_heads, value_dim), got [2, 6, 3, 9]",
    );
    refused(
        [[2, 5, 3, 0], [2, 7, 3, 0], [2, 7, 3, 4]],
        "query, key and value must have heads and features, got n_heads 3, n_kv_heads 3, head_dim \
         0, value_dim 4",
    );
}

fn options<B: AutodiffBackend>() {
    let none = AttentionOptions::<B>::default;
    let refused =
        |options, said| refused([[2, 5, 3, 4], [2, 7, 1, 4], [2, 7, 1, 6]], options, said);
    refused(none().dropout(1.5), "dropout must be a probability in [0, 1), got 1.5");
    refused(none().scale(f64::NAN), "scale must be finite in f32, got NaN");
    refused(none().scale(-1e300), "scale must be finite in f32, got -1e300");
    refused(none().softcap(0.0), "softcap must be in [1e-30, 1e30], got 0");
    let min_float = f64::NAN;
    let said = "min_float must be finite in f32, got NaN";
    refused(none().masking(Masking::Overwrite { min_float }), said);
    refused(
        none().mask(Mask::keep(mask::<B, 2>([7, 5]))),
        "mask.keep: expected shape [5, 7] (seq_q, seq_k), each axis may also be 1, got [7, 5]",
    );
    refused(
        none().bias(zeros([2, 1, 5, 7])).query_offset(vec![1; 5]),
        "query_offset must have 1 or 2 (batch) entries, got 5",
    );
    refused(
        none().bias(zeros([3, 1, 5, 7])),
        "bias: expected shape [2, 3, 5, 7] (batch, n_heads, seq_q, seq_k), each axis may also be \
         1, got [3, 1, 5, 7]",
    );
    refused(none().alibi(vec![0.5; 2]), "alibi must have 3 (n_heads) slopes, got 2");
    refused(
        none().alibi(vec![0.5, 1e39, 0.5]),
        "alibi must have slopes that are finite in f32, got 1e39",
    );
    refused(
        none().t5(T5Buckets::causal(), zeros([32, 1])),
        "t5 table: expected shape [32, 3] (n_buckets, n_heads), got [32, 1]",
    );
    refused(
        none().memory(zeros([2, 3, 4]), zeros([2, 1, 6])),
        "memory key: expected shape [2, 1, 4] (n, n_kv_heads, head_dim), got [2, 3, 4]",
    );
    refused(
        none().memory(zeros([2, 1, 4]), zeros([3, 1, 6])),
        "memory value: expected shape [2, 1, 6] (n, n_kv_heads, value_dim), got [3, 1, 6]",
    );
    refused(none().sink(zeros([1])), "sink: expected shape [3] (n_heads), got [1]");
    refused(none().head_scale(zeros([1])), "head_scale: expected shape [3] (n_heads), got [1]");
}

/// Errors speak of the function's own layout.
fn heads_first<B: AutodiffBackend>() {
    let [query, key] = [[2, 3, 5, 4], [2, 3, 7, 6]].map(zeros::<B, 4>);
    assert_eq!(
        panic_text(|| attention_heads_first(query, key.clone(), key, &Default::default())),
        "key: expected shape [2, 7, 3, 4] (batch, seq_k, n_kv_heads, head_dim), got [2, 7, 3, 6]"
    );
}

fn some_weights<B: AutodiffBackend>() {
    let [query, key] = [[2, 5, 3, 4], [2, 7, 1, 4]].map(zeros::<B, 4>);
    let some = |heads: &[usize], rows: &[usize]| {
        weights_of(query.clone(), key.clone(), &Default::default(), heads, rows)
    };
    assert_says(some(&[3], &[0]), "heads must be below 3 (n_heads), got 3");
    assert_says(some(&[0], &[5]), "rows must be below 5 (seq_q), got 5");
    assert_eq!(some(&[2, 0, 2], &[4]).expect("they are there").dims(), [2, 3, 1, 7]);
}

fn parts<B: AutodiffBackend>() {
    let device = Default::default();
    let part = |batch, seq_q, dtype| {
        let heads = |seq| Tensor::<B, 4>::zeros([batch, seq, 3, 4], (&device, dtype));
        attention(heads(seq_q), heads(7), heads(7), &AttentionOptions::default().return_lse())
    };
    let good = || part(2, 5, DType::F32);
    assert_says(merge_attention::<B>(&[]), "parts must have at least one, got 0");
    let mut without = good();
    without.lse = None;
    let said = "parts must each have a log-sum-exp, got a part without";
    assert_says(merge_attention(&[good(), without]), said);
    let said = "context of a part: expected shape [2, 5, 3, 4] (batch, seq_q, n_heads, value_dim), \
                got [2, 6, 3, 4]";
    assert_says(merge_attention(&[good(), part(2, 6, DType::F32)]), said);
    let mut odd = good();
    odd.lse = part(2, 6, DType::F32).lse;
    let said = "lse of a part: expected shape [2, 3, 5] (batch, n_heads, seq_q), got [2, 3, 6]";
    assert_says(merge_attention(&[good(), odd]), said);
    if B::supports_dtype(&device, DType::F64) {
        let said = "context of a part: expected dtype F32 as the first part has, got F64";
        assert_says(merge_attention(&[good(), part(2, 5, DType::F64)]), said);
    }
    let nothing = part(2, 0, DType::F32);
    let merged = merge_attention(&[nothing.clone(), nothing]).expect("no query is no error");
    assert_eq!(merged.context.dims(), [2, 0, 3, 4]);
}
