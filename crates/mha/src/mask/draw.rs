//! A mask to look at: how many pairs it leaves, and which.

use burn::tensor::backend::Backend;

use super::Mask;
use super::dense::DenseMask;
use super::visible::{entries, visible};
use crate::Error;
use crate::attention::{Sizes, check::indices};

impl<B: Backend> Mask<B> {
    /// How many of the batch · n_heads · seq_q · seq_k pairs are visible.
    ///
    /// Rules alone are counted row by row. Dense masks are read back from the device, which waits
    /// for it, and counted pair by pair.
    ///
    /// # Errors
    ///
    /// When the mask does not fit the sizes.
    pub fn visible_pairs(&self, sizes: &Sizes) -> Result<u64, Error> {
        let frame = self.fit(sizes)?;
        let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
        let visible = |b| visible(&self.rules, &frame, b, 0..seq_k);
        if self.dense.is_empty() {
            let entries = entries(&self.rules, &frame);
            let alike = if entries == 1 { batch } else { 1 };
            let of_entry = |b| {
                let visible = visible(b);
                (0..seq_q).map(|i| visible(i).count() as u64).sum::<u64>()
            };
            return Ok((0..entries).map(of_entry).sum::<u64>() * (alike * n_heads) as u64);
        }
        let dense: Vec<_> = self.dense.iter().map(DenseMask::read).collect();
        let mut count = 0;
        for b in 0..batch {
            let visible = visible(b);
            for i in 0..seq_q {
                for j in visible(i).iter().flatten() {
                    let sees = |&h: &usize| !dense.iter().any(|mask| mask.hides([b, h, i, j]));
                    count += (0..n_heads).filter(sees).count() as u64;
                }
            }
        }
        Ok(count)
    }

    /// A picture of one head of one batch entry: a line per query, `■` where it sees the key and
    /// `·` where the pair is hidden. Reads dense masks back from the device.
    ///
    /// # Errors
    ///
    /// When the mask does not fit the sizes, or the entry or the head lies outside of them.
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use mha::Mask;
    /// use mha::oracle::Sizes;
    ///
    /// let sizes = Sizes { seq_q: 3, seq_k: 5, ..Sizes::ONE };
    /// let window = Mask::<NdArray>::window(1, 0);
    /// assert_eq!(window.draw(&sizes, 0, 0)?, "·■■··\n··■■·\n···■■\n");
    /// # Ok::<(), mha::Error>(())
    /// ```
    pub fn draw(&self, sizes: &Sizes, entry: usize, head: usize) -> Result<String, Error> {
        let frame = self.fit(sizes)?;
        indices("entry", &[entry], sizes.batch, "batch")?;
        indices("head", &[head], sizes.n_heads, "n_heads")?;
        let visible = visible(&self.rules, &frame, entry, 0..sizes.seq_k);
        let dense: Vec<_> = self.dense.iter().map(DenseMask::read).collect();
        let mut picture = String::new();
        for i in 0..sizes.seq_q {
            let seen = visible(i);
            let sees = |j| {
                let hides = |pair| dense.iter().any(|mask| mask.hides(pair));
                seen.contains(j) && !hides([entry, head, i, j])
            };
            picture.extend((0..sizes.seq_k).map(|j| if sees(j) { '■' } else { '·' }));
            picture.push('\n');
        }
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::NdArray;
    use burn::tensor::{Bool, Tensor};

    use super::*;
    use crate::mask::{Offset, Rule};

    type B = NdArray;

    const SIZES: Sizes = Sizes { batch: 2, n_heads: 3, seq_q: 5, seq_k: 7, ..Sizes::ONE };

    fn square(seq: usize) -> Sizes {
        Sizes { seq_q: seq, seq_k: seq, ..Sizes::ONE }
    }

    /// Picture and count are those of the tensor of hidden pairs.
    #[test]
    fn counts_and_draws_what_is_hidden() {
        let device = Default::default();
        let dense = || Mask::<B>::from_fn([2, 3, 1, 7], &device, |b, h, _, j| (b + h + j) % 3 == 0);
        for mask in [
            Mask::none(),
            Mask::causal(),
            Mask::window(1, 1).and(Mask::lengths(vec![3, 7])),
            dense(),
            Mask::prefix(vec![3, 1]).and(dense()).and(Mask::left_padding(vec![2])),
        ] {
            let frame = mask.fit(&SIZES).unwrap();
            let hidden: Vec<bool> = match mask.hidden_pairs(&frame, &device) {
                Some(hidden) => hidden.expand([2, 3, 5, 7]).into_data().iter().collect(),
                None => vec![false; 210],
            };
            let visible = hidden.iter().filter(|&&hidden| !hidden).count() as u64;
            assert_eq!(mask.visible_pairs(&SIZES).unwrap(), visible, "{mask}");
            let places = (0..2).flat_map(|b| (0..3).map(move |h| (b, h)));
            for ((b, h), hidden) in places.zip(hidden.chunks(35)) {
                let cells = |row: &[bool]| {
                    row.iter().map(|&hidden| if hidden { '·' } else { '■' }).collect::<String>()
                };
                let expected: String = hidden.chunks(7).map(|row| cells(row) + "\n").collect();
                assert_eq!(mask.draw(&SIZES, b, h).unwrap(), expected, "{mask}");
            }
        }
    }

    /// Two queries stand at the last of five keys, and at the first where asked to.
    #[test]
    fn causal_aligns_at_the_bottom_right() {
        let sizes = Sizes { seq_q: 2, seq_k: 5, ..Sizes::ONE };
        assert_eq!(Mask::<B>::causal().draw(&sizes, 0, 0).unwrap(), "■■■■·\n■■■■■\n");
        assert_eq!(Mask::<B>::top_left().draw(&sizes, 0, 0).unwrap(), "■····\n■■···\n");
        let sizes = Sizes { seq_q: 1, seq_k: 16, ..Sizes::ONE };
        assert_eq!(Mask::<B>::causal().visible_pairs(&sizes).unwrap(), 16);
    }

    /// A window of three tokens that counts the token itself: of values 1 to 6 it averages 1, 1.5,
    /// 2, 3, 4 and 5.
    #[test]
    fn window_counts_besides_the_token_itself() {
        let window = Mask::<B>::window(2, 0);
        let expected = "■·····\n■■····\n■■■···\n·■■■··\n··■■■·\n···■■■\n";
        assert_eq!(window.draw(&square(6), 0, 0).unwrap(), expected);
        let last_two = Sizes { seq_q: 2, seq_k: 6, ..Sizes::ONE };
        assert_eq!(window.draw(&last_two, 0, 0).unwrap(), "··■■■·\n···■■■\n");

        let diagonal = Mask::<B>::window(0, 0).draw(&square(3), 0, 0).unwrap();
        assert_eq!(diagonal, "■··\n·■·\n··■\n");
        let wide = Mask::<B>::window(6, 0).draw(&square(6), 0, 0).unwrap();
        assert_eq!(wide, Mask::<B>::causal().draw(&square(6), 0, 0).unwrap());
        assert_eq!(wide, Mask::<B>::window(None, 0).draw(&square(6), 0, 0).unwrap());
    }

    #[test]
    fn sinks_stay_but_show_no_future() {
        let offset = Offset::BottomRight;
        let mask: Mask<B> = Rule::Window { left: Some(1), right: Some(0), sinks: 2, offset }.into();
        let expected = "■····\n■■···\n■■■··\n■■■■·\n■■·■■\n";
        assert_eq!(mask.draw(&square(5), 0, 0).unwrap(), expected);
    }

    #[test]
    fn counting_does_not_visit_the_pairs() {
        let n: u64 = 1 << 14;
        let sizes = Sizes { batch: 3, n_heads: 5, ..square(1 << 14) };
        let count = |mask: Mask<B>| mask.visible_pairs(&sizes).unwrap();
        assert_eq!(count(Mask::causal()), 15 * n * (n + 1) / 2);
        let window = Mask::window(1023, 0);
        assert_eq!(count(window), 15 * (1023 * 1024 / 2 + (n - 1023) * 1024));
        let documents = (0..1 << 14).map(|token| token / 1024).collect();
        let packed = Mask::causal().and(Mask::segments(vec![documents]));
        assert_eq!(count(packed), 15 * 16 * (1024 * 1025 / 2));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let long = Mask::<B>::lengths(vec![9]);
        let words = "mask.lengths must be at most 7 (seq_k), got 9";
        assert_eq!(long.visible_pairs(&SIZES).unwrap_err().to_string(), words);
        assert_eq!(long.draw(&SIZES, 0, 0).unwrap_err().to_string(), words);
        assert_eq!(long.try_tile(&SIZES, 0, 0..1, 0..1).unwrap_err().to_string(), words);

        let mask = Mask::<B>::causal();
        let words = |entry, head| mask.draw(&SIZES, entry, head).unwrap_err().to_string();
        assert_eq!(words(2, 0), "entry must be below 2 (batch), got 2");
        assert_eq!(words(0, 3), "head must be below 3 (n_heads), got 3");
        let words =
            |queries, keys| mask.try_tile(&SIZES, 0, queries, keys).unwrap_err().to_string();
        assert_eq!(words(3..6, 0..7), "queries must lie in 0..5 (seq_q), got 3..6");
        assert_eq!(words(0..5, 8..8), "keys must lie in 0..7 (seq_k), got 8..8");
    }

    /// Either sense of a Boolean tensor, each shape.
    #[test]
    fn block_and_keep_are_opposites() {
        let device = Default::default();
        let sizes = Sizes { batch: 2, n_heads: 2, seq_q: 2, seq_k: 2, ..Sizes::ONE };
        let first = Tensor::<B, 2, Bool>::from_data([[true, false], [false, false]], &device);
        let drawn = |mask: Mask<B>| [0, 1].map(|b| mask.draw(&sizes, b, 1).unwrap());
        assert_eq!(drawn(Mask::block(first.clone())), ["·■\n■■\n"; 2]);
        assert_eq!(drawn(Mask::keep(first.clone())), ["■·\n··\n"; 2]);
        assert_eq!(drawn(Mask::block_keys(first.clone())), ["·■\n·■\n", "■■\n■■\n"]);
        assert_eq!(drawn(Mask::keep_keys(first.clone())), ["■·\n■·\n", "··\n··\n"]);
        let entries = first.clone().unsqueeze_dim::<3>(1);
        assert_eq!(drawn(Mask::block(entries)), ["·■\n·■\n", "■■\n■■\n"]);
        let heads = first.unsqueeze_dims::<4>(&[0, 2]);
        assert_eq!(drawn(Mask::block(heads.clone())), ["■■\n■■\n"; 2]);
        assert_eq!(drawn(Mask::keep(heads)), ["··\n··\n"; 2]);
    }
}
