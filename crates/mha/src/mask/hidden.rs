//! What a mask hides from one call, as tensors for the paths that need them.

use burn::tensor::{Bool, Tensor, TensorData, backend::Backend};

use super::Mask;
use super::dense::DenseMask;
use super::frame::Frame;
use super::rule::Rule;
use super::spans::Spans;
use super::visible::{entries, visible};

impl<B: Backend> Mask<B> {
    /// The union of all that is hidden, `true` where a pair is: `[batch or 1, n_heads or 1, rows,
    /// seq_k]`, or nothing when nothing can be hidden. The mask fits the frame.
    pub(crate) fn hidden_pairs(
        &self,
        frame: &Frame,
        device: &B::Device,
    ) -> Option<Tensor<B, 4, Bool>> {
        let &Frame { batch, seq_k, .. } = frame;
        if batch == 0 || frame.n_rows() == 0 || seq_k == 0 {
            return None;
        }
        let rules = pairs_hidden_by_rules(&self.rules, frame);
        let rules = rules.map(|pairs| Tensor::from_data(pairs, device));
        let dense = self.dense.iter().map(|mask| mask.rows(frame));
        let union = rules.into_iter().chain(dense).reduce(either)?;
        let [batch, n_heads, ..] = union.dims();
        Some(union.expand([batch, n_heads, frame.n_rows(), seq_k]))
    }

    /// The keys that no row of any head sees, `true` where one is hidden: `[batch or 1, seq_k]`, or
    /// nothing when there is none. The mask fits the frame.
    pub(crate) fn hidden_keys(
        &self,
        frame: &Frame,
        device: &B::Device,
    ) -> Option<Tensor<B, 2, Bool>> {
        let hidden = if self.is_by_keys() {
            // Whether such a mask hides a key does not depend on the row, so that the key is hidden
            // from all rows by the mask alone or by the rules alone.
            let rules = keys_hidden_by_rules(&self.rules, frame);
            let rules = rules.map(|keys| Tensor::from_data(keys, device));
            let dense = self.dense.iter().map(|mask| mask.hidden.clone());
            rules.into_iter().chain(dense).reduce(either)?
        } else {
            self.hidden_pairs(frame, device)?.all_dim(1).all_dim(2)
        };
        let [batch, ..] = hidden.dims();
        Some(hidden.expand([batch, 1, 1, frame.seq_k]).reshape([batch, frame.seq_k]))
    }

    /// Whether no tensor tells queries or heads apart, so that [`hidden_keys`](Self::hidden_keys) looks
    /// at no pair.
    pub(crate) fn is_by_keys(&self) -> bool {
        self.dense.iter().all(DenseMask::hides_keys_only)
    }

    /// The first rule or dense mask that hides key `j` from row `i` of entry `b` and head `h`, in
    /// words; reads dense masks from the device. The mask fits the frame.
    pub(crate) fn hiding_rule(
        &self,
        frame: &Frame,
        b: usize,
        h: usize,
        i: usize,
        j: usize,
    ) -> Option<String> {
        let rule =
            self.rules.iter().find(|rule| hides(std::slice::from_ref(*rule), frame, b, i, j));
        let dense = || self.dense.iter().find(|mask| mask.hides([b, h, frame.query(i), j]));
        rule.map(Rule::to_string).or_else(|| dense().map(ToString::to_string))
    }
}

/// Whether any of the rules hides column `j` from row `i` of entry `b`.
pub(crate) fn hides(rules: &[Rule], frame: &Frame, b: usize, i: usize, j: usize) -> bool {
    !visible(rules, frame, b, j..j + 1)(i).contains(j)
}

/// `[batch or 1, 1, rows, seq_k]`, or nothing if every row sees every key.
fn pairs_hidden_by_rules(rules: &[Rule], frame: &Frame) -> Option<TensorData> {
    let (entries, rows, seq_k) = (entries(rules, frame), frame.n_rows(), frame.seq_k);
    let visible = |b| visible(rules, frame, b, 0..seq_k);
    let sees_all = |b| {
        let visible = visible(b);
        (0..rows).all(|i| visible(i).count() == seq_k)
    };
    if rules.is_empty() || (0..entries).all(sees_all) {
        return None;
    }
    let mut hidden = vec![true; entries * rows * seq_k];
    for (b, entry) in hidden.chunks_exact_mut(rows * seq_k).enumerate() {
        let visible = visible(b);
        for (i, row) in entry.chunks_exact_mut(seq_k).enumerate() {
            visible(i).iter().for_each(|run| row[run].fill(false));
        }
    }
    Some(TensorData::new(hidden, [entries, 1, rows, seq_k]))
}

/// `[batch or 1, 1, 1, seq_k]`, or nothing if every key is seen.
fn keys_hidden_by_rules(rules: &[Rule], frame: &Frame) -> Option<TensorData> {
    if rules.is_empty() {
        return None;
    }
    let seq_k = frame.seq_k;
    let seen: Vec<Spans> = (0..entries(rules, frame)).map(|b| seen(rules, frame, b)).collect();
    if seen.iter().all(|seen| seen.count() == seq_k) {
        return None;
    }
    let mut hidden = vec![true; seen.len() * seq_k];
    for (row, seen) in hidden.chunks_exact_mut(seq_k).zip(&seen) {
        seen.iter().for_each(|run| row[run].fill(false));
    }
    Some(TensorData::new(hidden, [seen.len(), 1, 1, seq_k]))
}

/// The columns that some row of the entry sees.
fn seen(rules: &[Rule], frame: &Frame, b: usize) -> Spans {
    let visible = visible(rules, frame, b, 0..frame.seq_k);
    let mut seen = Spans::default();
    // From the last row, which sees every key when only the future is hidden.
    for i in (0..frame.n_rows()).rev() {
        if seen.count() == frame.seq_k {
            break;
        }
        seen = seen.union(&visible(i));
    }
    seen
}

fn either<B: Backend>(a: Tensor<B, 4, Bool>, b: Tensor<B, 4, Bool>) -> Tensor<B, 4, Bool> {
    let (left, right) = (a.dims(), b.dims());
    let dims: [usize; 4] =
        std::array::from_fn(|axis| if left[axis] == 1 { right[axis] } else { left[axis] });
    a.expand(dims).bool_or(b.expand(dims))
}

#[cfg(test)]
mod tests {
    use burn::backend::NdArray;

    use super::*;

    type B = NdArray;

    const DIMS: [usize; 4] = [2, 3, 5, 7];

    /// Hides about a third of the pairs, and key 2 from all.
    fn dense(b: usize, h: usize, i: usize, j: usize) -> bool {
        j == 2 || (b * 5 + h * 7 + i * 3 + j * 11) % 3 == 1
    }

    fn read<const D: usize>(hidden: Tensor<B, D, Bool>) -> Vec<bool> {
        hidden.into_data().iter().collect()
    }

    fn places(dims: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
        let [_, n_heads, rows, columns] = dims;
        (0..dims.iter().product()).map(move |at: usize| {
            let (row, head) = (at / columns, at / columns / rows);
            [head / n_heads, head % n_heads, row % rows, at % columns]
        })
    }

    /// Dense masks of every shape with rules of one entry and of each, all rows and some.
    #[test]
    fn dense_masks_join_the_rules() {
        let device = Default::default();
        for (case, chosen) in (0..48).flat_map(|case| [(case, false), (case, true)]) {
            let rows = chosen.then(|| vec![3, 0]);
            let frame = Frame { rows, ..Frame::new(2, 5, 7) };
            let shape: [usize; 4] =
                std::array::from_fn(|axis| if case >> axis & 1 == 1 { 1 } else { DIMS[axis] });
            let rules: Mask<B> = match case / 16 {
                0 => Mask::none(),
                1 => Mask::window(2, 1),
                _ => Mask::lengths(vec![3, 6]),
            };
            let mask = rules.and(Mask::from_fn(shape, &device, dense));
            mask.check(&frame, 3).unwrap();
            let name = format!("{shape:?} {frame:?} {mask}");

            let hidden = |[b, h, i, j]: [usize; 4]| {
                let pair = [b, h, frame.query(i), j];
                let at = |axis: usize| if shape[axis] == 1 { 0 } else { pair[axis] };
                hides(mask.rules(), &frame, b, i, j) || dense(at(0), at(1), at(2), at(3))
            };
            let rows = frame.n_rows();
            let expected: Vec<bool> = places([2, 3, rows, 7]).map(hidden).collect();
            let pairs = mask.hidden_pairs(&frame, &device).unwrap();
            assert_eq!(read(pairs.expand([2, 3, rows, 7])), expected, "{name}");

            let by_key = |[b, _, _, j]: [usize; 4]| {
                places([1, 3, rows, 1]).all(|[_, h, i, _]| hidden([b, h, i, j]))
            };
            let expected: Vec<bool> = places([2, 1, 1, 7]).map(by_key).collect();
            let keys = mask.hidden_keys(&frame, &device).unwrap();
            assert_eq!(read(keys.expand([2, 7])), expected, "{name}");
        }
    }

    /// No tensor, no reduction and no upload where nothing needs one.
    #[test]
    fn nothing_for_what_hides_nothing() {
        let device = Default::default();
        let none = |mask: Mask<B>, frame: &Frame| {
            let pairs = mask.hidden_pairs(frame, &device).is_none();
            (pairs, mask.hidden_keys(frame, &device).is_none())
        };
        assert_eq!(none(Mask::none(), &Frame::new(2, 5, 7)), (true, true));
        // The last query sees every key, and a single query is the last.
        assert_eq!(none(Mask::causal(), &Frame::new(2, 5, 7)), (false, true));
        assert_eq!(none(Mask::causal(), &Frame::new(2, 1, 7)), (true, true));
        assert_eq!(none(Mask::top_left(), &Frame::new(2, 5, 7)), (false, false));
        let block = Tensor::<B, 2>::ones([1, 1], &device).bool();
        for (batch, seq_q, seq_k) in [(0, 5, 7), (2, 0, 7), (2, 5, 0)] {
            let mask = Mask::causal().and(Mask::block(block.clone()));
            let hidden = mask.hidden_pairs(&Frame::new(batch, seq_q, seq_k), &device);
            assert!(hidden.is_none());
        }
    }

    #[test]
    fn names_what_hides_a_pair() {
        let block = Mask::<B>::from_fn(DIMS, &Default::default(), dense);
        let mask = Mask::causal().and(block);
        let frame = Frame { rows: Some(vec![4, 1]), ..Frame::new(2, 5, 7) };
        let words = |[b, h, i, j]: [usize; 4]| mask.hiding_rule(&frame, b, h, i, j);
        let dense = "mask.from_fn: dense, of shape [2, 3, 5, 7] (batch, n_heads, seq_q, seq_k)";
        assert_eq!(words([1, 2, 0, 2]).unwrap(), dense);
        let causal = "causal: a query sees keys up to its own position";
        assert_eq!(words([1, 2, 1, 4]).unwrap(), causal);
        assert_eq!(words([0, 0, 0, 0]), None);
    }

    #[test]
    fn gives_its_tensors_out_and_takes_them_along() {
        let device = Default::default();
        let pad = Tensor::<B, 2>::ones([2, 7], &device).bool();
        let mask = Mask::causal().and(Mask::mask_pad(pad)).to_device(&device);
        let dense: Vec<_> = mask.dense_masks().map(|(name, mask)| (name, mask.dims())).collect();
        assert_eq!(dense, [("mask_pad", [2, 1, 1, 7])]);
        assert_eq!(mask.rules().len(), 1);
    }
}
