//! Biases that depend on the distance of query and key alone: ALiBi and T5.

use burn::tensor::{DType, Int, Tensor, TensorData, backend::Backend};

use crate::mask::Frame;
use crate::position::T5Buckets;

/// -slope · |distance| (Press et al. 2021, section 3: <https://arxiv.org/abs/2108.12409>):
/// `[batch or 1, n_heads, rows, seq_k]`.
pub(crate) fn alibi<B: Backend>(
    slopes: &[f64],
    frame: &Frame,
    dtype: DType,
    device: &B::Device,
) -> Tensor<B, 4> {
    let (entries, rows) = (entries(frame), frame.n_rows());
    let float = |numbers: Vec<f64>, dims: [usize; 4]| {
        Tensor::<B, 4>::from_data(TensorData::new(numbers, dims), (device, dtype))
    };
    let positions = (0..entries).flat_map(|b| (0..rows).map(move |i| (b, i)));
    let queries = positions.map(|(b, i)| frame.query_position(b, i) as f64).collect();
    let keys = (0..frame.seq_k).map(|j| frame.key_position(j) as f64).collect();
    let dims = [entries, slopes.len(), rows, frame.seq_k];
    let distance = float(queries, [entries, 1, rows, 1]) - float(keys, [1, 1, 1, frame.seq_k]);
    let slopes = float(slopes.iter().map(|slope| -slope).collect(), [1, slopes.len(), 1, 1]);
    distance.abs().expand(dims) * slopes.expand(dims)
}

/// The table's row of each distance's bucket (Raffel et al. 2020, section 2.1:
/// <https://arxiv.org/abs/1910.10683>): `[batch or 1, n_heads, rows, seq_k]`.
pub(crate) fn t5<B: Backend>(
    buckets: &T5Buckets,
    table: Tensor<B, 2>,
    frame: &Frame,
) -> Tensor<B, 4> {
    let (entries, rows) = (entries(frame), frame.n_rows());
    let [_, n_heads] = table.dims();
    let mut index = Vec::with_capacity(entries * rows * frame.seq_k);
    for b in 0..entries {
        for i in 0..rows {
            let query = frame.query_position(b, i);
            index.extend((0..frame.seq_k).map(|j| {
                buckets.bucket((frame.key_position(j) as i64).saturating_sub(query)) as i32
            }));
        }
    }
    let count = index.len();
    let index = Tensor::<B, 1, Int>::from_data(TensorData::new(index, [count]), &table.device());
    table.select(0, index).reshape([entries, rows, frame.seq_k, n_heads]).permute([0, 3, 1, 2])
}

/// A table by distance goes no farther than this, to either side.
pub(super) const FARTHEST: usize = 1 << 20;

/// The distance from which on the bucket stays the same, or the farthest that the call has if that
/// is less. The call has pairs.
pub(super) fn reach(buckets: &T5Buckets, frame: &Frame) -> usize {
    buckets.max_distance.min(farthest(frame))
}

/// How far a query and a key of the call stand apart at most. The call has pairs.
pub(super) fn farthest(frame: &Frame) -> usize {
    let [first, last] = [0, frame.seq_k - 1].map(|j| frame.key_position(j) as i64);
    let farthest = (0..entries(frame)).flat_map(|b| {
        let [start, end] = [0, frame.n_rows() - 1].map(|i| frame.query_position(b, i));
        [first.saturating_sub(end), last.saturating_sub(start)].map(i64::unsigned_abs)
    });
    usize::try_from(farthest.max().unwrap_or(0)).unwrap_or(usize::MAX)
}

/// The bias of each distance from -reach to reach, from the table `[n_buckets, n_heads]`:
/// `[n_heads, 2 reach + 1]`.
pub(super) fn by_distance<B: Backend>(
    buckets: &T5Buckets,
    table: Tensor<B, 2>,
    reach: usize,
) -> Tensor<B, 2> {
    let far = reach as i64;
    let index: Vec<i32> = (-far..=far).map(|distance| buckets.bucket(distance) as i32).collect();
    let index = Tensor::<B, 1, Int>::from_ints(index.as_slice(), &table.device());
    table.select(0, index).swap_dims(0, 1)
}

/// How many entries have distances of their own.
fn entries(frame: &Frame) -> usize {
    if frame.offset.per_entry() { frame.batch } else { 1 }
}
