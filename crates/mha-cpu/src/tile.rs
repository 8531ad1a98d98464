//! What every pass over tiles shares: which queries and keys make a tile, and how they are laid out.

use std::ops::Range;
use std::sync::OnceLock;

use crate::arena::Arena;
use crate::call::Sizes;
use crate::extra::Extras;
use crate::seen::Masks;
use crate::simd::{Simd, sech2, tanh};
use crate::{Call, Error, Real, View};

/// Keys of a tile. With 32 queries its scores are 16 KiB of f32: with the queries they fit the first
/// cache.
pub(crate) const KEYS: usize = 128;

/// A checked call, prepared for tiles.
#[derive(Debug)]
pub(crate) struct Tiles<'a, T> {
    pub(crate) call: &'a Call<'a, T>,
    pub(crate) sizes: Sizes,
    pub(crate) masks: Masks<'a>,
    pub(crate) extras: Extras<'a, T>,
    /// For each entry and key head whether some query sees a key; found when first asked for.
    seen: Vec<OnceLock<Vec<bool>>>,
}

impl<'a, T: Real> Tiles<'a, T> {
    pub(crate) fn new(call: &'a Call<'a, T>) -> Result<Self, Error> {
        let sizes = call.check()?;
        let masks = Masks::new(&call.mask, &sizes)?;
        let extras = Extras::new(call, &sizes)?;
        let seen = (0..sizes.batch * sizes.n_kv_heads).map(|_| OnceLock::new()).collect();
        Ok(Self { call, sizes, masks, extras, seen })
    }

    /// Rows of a buffer for the keys of a tile, in multiples of `multiple`: fewer where there are only
    /// few keys, since a small call should not fill large buffers.
    pub(crate) fn rows(&self, multiple: usize) -> usize {
        self.sizes.n_keys.next_multiple_of(multiple).clamp(multiple, KEYS)
    }

    /// The keys and values of a tile, row-major; each row is as wide as the buffer says.
    ///
    /// A key that nobody sees may hold anything: it counts as 0, since 0 times NaN would be NaN.
    pub(crate) fn copy_keys(
        &self,
        [b, g]: [usize; 2],
        keys: &Range<usize>,
        key: &mut Padded<'_, T>,
        value: &mut Padded<'_, T>,
    ) {
        key.copy(&self.call.key, b, keys.clone(), g);
        value.copy(&self.call.value, b, keys.clone(), g);
        if self.call.mask.is_none() {
            return;
        }
        for (n, j) in keys.clone().enumerate() {
            let finite = |row: &[T]| row.iter().fold(true, |all, x| all & x.is_finite());
            let usable = finite(key.row(n)) && finite(value.row(n));
            if !usable && !self.is_seen(b, g, j) {
                key.row_mut(n).fill(T::default());
                value.row_mut(n).fill(T::default());
            }
        }
    }

    fn is_seen(&self, b: usize, g: usize, j: usize) -> bool {
        let Sizes { seq_q, n_keys, n_kv_heads, .. } = self.sizes;
        let seen = self.seen[b * n_kv_heads + g].get_or_init(|| {
            let mut seen = vec![false; n_keys];
            for h in self.sizes.heads_of(g) {
                for rows in ranges(0..seq_q, 32) {
                    for keys in ranges(0..n_keys, KEYS) {
                        let mut bits = [0; KEYS];
                        let answer = self.masks.see([b, h], &rows, &keys, &mut bits);
                        for (seen, bits) in seen[keys].iter_mut().zip(bits) {
                            *seen |= answer.any(bits);
                        }
                    }
                }
            }
            seen
        });
        seen[j]
    }

    /// How the scores of the call come from products of query and key.
    pub(crate) fn scoring(&self) -> Scoring {
        let plain = self.call.softcap.is_none() && self.extras.is_none() && self.call.scale > 0.0;
        Scoring { scale: self.call.scale, softcap: self.call.softcap, plain }
    }
}

/// From products of query and key to scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scoring {
    scale: f64,
    softcap: Option<f64>,
    /// Scores are products times a positive number: the product can stand for the score.
    plain: bool,
}

impl Scoring {
    /// Whether a product can stand for its score, but for the unit.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// One score, natural, for calls that are not plain.
    pub(crate) fn score<T: Real>(&self, product: T, bias: Option<T>) -> T {
        let scaled = product * T::from_f64(self.scale);
        let capped = match self.softcap {
            Some(cap) => T::from_f64(cap * (scaled.to_f64() / cap).tanh()),
            None => scaled,
        };
        bias.map_or(capped, |bias| capped + bias)
    }

    /// How much a score changes with the product that it comes from, but for the scale.
    pub(crate) fn slope<T: Real>(&self, product: T) -> T {
        let scaled = product.to_f64() * self.scale;
        T::from_f64(self.softcap.map_or(1.0, |cap| (scaled / cap).cosh().powi(-2)))
    }

    /// What a number of a tile, after [`apply`](Self::apply), is multiplied by to be a score in powers
    /// of two.
    pub(crate) fn unit(&self) -> f64 {
        std::f64::consts::LOG2_E * if self.plain { self.scale } else { 1.0 }
    }

    /// Makes scores of products, but for the factor of [`unit`](Self::unit). With a softcap its
    /// derivatives are left in `slopes`, if there are any. `extra`: the biases. `bits`: who sees whom.
    #[inline(always)]
    pub(crate) fn apply<T: Real, S: Simd<T>, const N: usize>(
        &self,
        simd: S,
        scores: &mut [[S::Lanes; N]],
        slopes: Option<&mut [[S::Lanes; N]]>,
        extra: Option<&[[S::Lanes; N]]>,
        bits: Option<&[u32]>,
    ) {
        let number = |x: f64| simd.splat(T::from_f64(x));
        if !self.plain {
            let scale = number(self.scale / self.softcap.unwrap_or(1.0));
            for row in scores.iter_mut().flatten() {
                simd.store(simd.mul(simd.load(row), scale), row);
            }
            if let Some(cap) = self.softcap {
                if let Some(slopes) = slopes {
                    for (row, slope) in scores.iter().flatten().zip(slopes.iter_mut().flatten()) {
                        simd.store(sech2(simd, simd.load(row)), slope);
                    }
                }
                for row in scores.iter_mut().flatten() {
                    simd.store(tanh(simd, simd.load(row)), row);
                }
                for row in scores.iter_mut().flatten() {
                    simd.store(simd.mul(simd.load(row), number(cap)), row);
                }
            }
            if let Some(extra) = extra {
                for (row, extra) in scores.iter_mut().flatten().zip(extra.iter().flatten()) {
                    simd.store(simd.add(simd.load(row), simd.load(extra)), row);
                }
            }
        }
        if let Some(bits) = bits {
            let hidden = number(f64::NEG_INFINITY);
            for (row, &bits) in scores.iter_mut().zip(bits) {
                for (n, row) in row.iter_mut().enumerate() {
                    let bits = bits >> (n * S::LANES);
                    simd.store(simd.select(bits, simd.load(row), hidden), row);
                }
            }
        }
    }
}

/// Rows of `used` numbers, each padded with zeros to `width`.
#[derive(Debug)]
pub(crate) struct Padded<'a, T> {
    pub(crate) numbers: &'a mut [T],
    pub(crate) width: usize,
    used: usize,
}

impl<'a, T: Real> Padded<'a, T> {
    pub(crate) fn new(arena: &'a Arena, rows: usize, used: usize, multiple: usize) -> Self {
        let width = used.next_multiple_of(multiple);
        Self { numbers: arena.numbers(rows * width), width, used }
    }

    /// Copies rows of a head; the rows behind them keep what they had.
    fn copy(&mut self, view: &View<'_, T, 4>, b: usize, rows: Range<usize>, head: usize) {
        for (n, row) in rows.enumerate() {
            let used = self.used;
            view.copy([b, row, head, 0], 0..used, &mut self.row_mut(n)[..used]);
        }
    }

    pub(crate) fn row(&self, n: usize) -> &[T] {
        &self.numbers[n * self.width..][..self.width]
    }

    fn row_mut(&mut self, n: usize) -> &mut [T] {
        &mut self.numbers[n * self.width..][..self.width]
    }
}

/// A range cut into pieces of `size`, the last of which may be shorter.
pub(crate) fn ranges(
    range: Range<usize>,
    size: usize,
) -> impl Iterator<Item = Range<usize>> + Clone {
    range.clone().step_by(size).map(move |start| start..(start + size).min(range.end))
}
