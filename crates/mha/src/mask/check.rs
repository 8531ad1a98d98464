//! What does not fit a call, by rule and field.

use burn::tensor::backend::Backend;

use super::Mask;
use super::frame::Frame;
use super::offset::Offset;
use super::rule::Rule;
use crate::Error;
use crate::attention::Sizes;

impl<B: Backend> Mask<B> {
    /// Checks that lists have an item per entry, or per token, and that shapes fit.
    pub(crate) fn check(&self, frame: &Frame, n_heads: usize) -> Result<(), Error> {
        self.rules.iter().try_for_each(|rule| rule.check(frame))?;
        let expected = [frame.batch, n_heads, frame.seq_q, frame.seq_k];
        self.dense.iter().try_for_each(|mask| mask.check(expected))
    }

    /// The geometry of a plain call of these sizes, which the mask fits.
    pub(super) fn fit(&self, sizes: &Sizes) -> Result<Frame, Error> {
        let frame = Frame::new(sizes.batch, sizes.seq_q, sizes.seq_k);
        self.check(&frame, sizes.n_heads)?;
        Ok(frame)
    }
}

impl Rule {
    fn check(&self, frame: &Frame) -> Result<(), Error> {
        let &Frame { batch, seq_q, seq_k, .. } = frame;
        let end = frame.end();
        let offset_of = |name, offset: &Offset| offset.check(name, batch);
        match self {
            Self::Causal { offset } => offset_of("mask.causal.offset", offset),
            Self::Window { offset, .. } => offset_of("mask.window.offset", offset),
            Self::Lengths { lengths } => check_keys("mask.lengths", lengths, batch, end),
            Self::LeftPadding { padding } => check_keys("mask.left_padding", padding, batch, end),
            Self::Segments { query, key } => {
                check_ids("mask.segments.query", query, batch, (seq_q, "seq_q"))?;
                check_ids("mask.segments.key", key, batch, (seq_k, "seq_k"))
            }
            Self::Prefix { lengths, offset } => {
                check_entries("mask.prefix.lengths", lengths.len(), batch)?;
                offset_of("mask.prefix.offset", offset)
            }
            Self::Chunked { size: 0, .. } => {
                Err(Error::value("mask.chunked.size", "be at least 1", 0))
            }
            Self::Chunked { offset, .. } => offset_of("mask.chunked.offset", offset),
        }
    }
}

impl Offset {
    /// Checks that there is an offset for every entry.
    pub(crate) fn check(&self, name: &'static str, batch: usize) -> Result<(), Error> {
        match self {
            Self::BottomRight | Self::At(_) => Ok(()),
            Self::PerEntry(offsets) => check_entries(name, offsets.len(), batch),
        }
    }
}

fn check_entries(name: &'static str, count: usize, batch: usize) -> Result<(), Error> {
    if count == 1 || count == batch {
        return Ok(());
    }
    let expected = match batch {
        1 => "have 1 entry".to_string(),
        batch => format!("have 1 or {batch} (batch) entries"),
    };
    Err(Error::value(name, expected, count))
}

fn check_keys(
    name: &'static str,
    numbers: &[usize],
    batch: usize,
    seq_k: usize,
) -> Result<(), Error> {
    check_entries(name, numbers.len(), batch)?;
    match numbers.iter().find(|&&number| number > seq_k) {
        Some(number) => Err(Error::value(name, format!("be at most {seq_k} (seq_k)"), number)),
        None => Ok(()),
    }
}

fn check_ids(
    name: &'static str,
    ids: &[Vec<u32>],
    batch: usize,
    (seq, axis): (usize, &str),
) -> Result<(), Error> {
    check_entries(name, ids.len(), batch)?;
    match ids.iter().find(|ids| ids.len() != seq) {
        Some(ids) => {
            let expected = format!("have {seq} ({axis}) ids in each entry");
            Err(Error::value(name, expected, ids.len()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::NdArray;
    use burn::tensor::{Bool, Tensor};

    use super::*;

    type B = NdArray;

    /// What the mask's check says of 2 entries of 5 queries and 7 keys in 3 heads.
    fn error(mask: Mask<B>) -> String {
        mask.check(&Frame::new(2, 5, 7), 3).unwrap_err().to_string()
    }

    fn dense<const D: usize>(dims: [usize; D]) -> Tensor<B, D, Bool> {
        Tensor::<B, D>::zeros(dims, &Default::default()).bool()
    }

    #[test]
    fn errors_name_the_rule_and_the_field() {
        let offset = || Offset::from(vec![0; 3]);
        let entries = |name: &str| format!("{name} must have 1 or 2 (batch) entries, got 3");
        assert_eq!(error(Mask::lengths(vec![1; 3])), entries("mask.lengths"));
        assert_eq!(error(Mask::left_padding(vec![1; 3])), entries("mask.left_padding"));
        assert_eq!(error(Mask::prefix(vec![1; 3])), entries("mask.prefix.lengths"));
        assert_eq!(error(Mask::segments(vec![vec![]; 3])), entries("mask.segments.query"));
        assert_eq!(error(Mask::causal_at(offset())), entries("mask.causal.offset"));
        let window = Rule::Window { left: None, right: None, sinks: 0, offset: offset() };
        assert_eq!(error(window.into()), entries("mask.window.offset"));
        let prefix = Rule::Prefix { lengths: vec![1], offset: offset() };
        assert_eq!(error(prefix.into()), entries("mask.prefix.offset"));
        let chunked = Rule::Chunked { size: 2, offset: offset() };
        assert_eq!(error(chunked.into()), entries("mask.chunked.offset"));

        let words = error(Mask::lengths(vec![7, 9]));
        assert_eq!(words, "mask.lengths must be at most 7 (seq_k), got 9");
        let words = error(Mask::left_padding(vec![8]));
        assert_eq!(words, "mask.left_padding must be at most 7 (seq_k), got 8");
        let words = error(Mask::segments(vec![vec![0; 5]]));
        assert_eq!(words, "mask.segments.key must have 7 (seq_k) ids in each entry, got 5");
        let words = error(Mask::cross_segments(vec![vec![0; 4]], vec![vec![0; 7]]));
        assert_eq!(words, "mask.segments.query must have 5 (seq_q) ids in each entry, got 4");
        assert_eq!(error(Mask::chunked(0)), "mask.chunked.size must be at least 1, got 0");
        let words = Mask::<B>::lengths(vec![1, 2]).check(&Frame::new(1, 5, 7), 3).unwrap_err();
        assert_eq!(words.to_string(), "mask.lengths must have 1 entry, got 2");
    }

    #[test]
    fn errors_name_the_axes_of_dense_masks() {
        let or_one = "each axis may also be 1";
        let shape = |name: &str, expected: &str, got: &str| {
            format!("{name}: expected shape {expected}, {or_one}, got {got}")
        };
        assert_eq!(
            error(Mask::block(dense([2, 7, 5]))),
            shape("mask.block", "[2, 5, 7] (batch, seq_q, seq_k)", "[2, 7, 5]")
        );
        assert_eq!(
            error(Mask::keep(dense([7, 5]))),
            shape("mask.keep", "[5, 7] (seq_q, seq_k)", "[7, 5]")
        );
        assert_eq!(
            error(Mask::block(dense([2, 2, 5, 7]))),
            shape("mask.block", "[2, 3, 5, 7] (batch, n_heads, seq_q, seq_k)", "[2, 2, 5, 7]")
        );
        assert_eq!(
            error(Mask::block_keys(dense([2, 5]))),
            shape("mask.block_keys", "[2, 7] (batch, seq_k)", "[2, 5]")
        );
        assert_eq!(
            error(Mask::named("mask_attn", dense([3, 5, 7]))),
            shape("mask_attn", "[2, 5, 7] (batch, seq_q, seq_k)", "[3, 5, 7]")
        );
        assert_eq!(
            error(Mask::mask_pad(dense([1, 7]))),
            "mask_pad: expected shape [2, 7] (batch, seq_k), got [1, 7]"
        );
    }

    #[test]
    fn what_fits() {
        let fits = |mask: Mask<B>| mask.check(&Frame::new(2, 5, 7), 3).unwrap();
        fits(Mask::causal_at(vec![1]).and(Mask::lengths(vec![0, 7])));
        fits(Mask::cross_segments(vec![vec![0; 5]; 2], vec![vec![0; 7]]));
        // Only its first keys may have come yet.
        fits(Mask::prefix(vec![100]));
        fits(Mask::block(dense([1, 1])).and(Mask::keep(dense([2, 1, 5, 1]))));
        fits(Mask::keep_keys(dense([1, 7])).and(Mask::mask_pad(dense([2, 7]))));
        let none = Mask::<B>::lengths(vec![]);
        none.check(&Frame::new(0, 5, 7), 3).unwrap();
    }
}
