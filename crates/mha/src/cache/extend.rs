//! What a call adds to a cache: planned first, so that a refused call changes nothing.

use burn::tensor::{Tensor, backend::Backend};

use super::{Kind, KvCache};
use crate::Error;
use crate::attention::Sizes;
use crate::error::check_shape;
use crate::mask::{Gap, Offset, Rule};

/// What a call will find in the cache once its tokens are added.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Keys that the call attends over.
    pub(crate) seq_k: usize,
    /// Where the new tokens stand.
    pub(crate) offset: Offset,
    /// Where the keys stand.
    pub(crate) gap: Gap,
    /// What the cache itself hides.
    pub(crate) rules: Vec<Rule>,
    /// Tokens that each entry has seen.
    seen: Vec<usize>,
    /// New tokens of each entry.
    new: Vec<usize>,
}

impl Plan {
    /// The position of an entry's first new token.
    pub(crate) fn first_new(&self, entry: usize) -> i64 {
        self.seen.get(entry).map_or(0, |&seen| seen as i64)
    }

    /// Whether all entries have seen as many tokens.
    pub(crate) fn even(&self) -> bool {
        self.seen.windows(2).all(|pair| pair[0] == pair[1])
    }
}

impl<B: Backend> KvCache<B> {
    /// Plans a call of these sizes, whose `seq_k` counts the new tokens, of which entry `b` has
    /// `lengths[b]` true ones (all, if not given).
    pub(crate) fn plan(&self, new: &Sizes, lengths: Option<&[usize]>) -> Result<Plan, Error> {
        let &Sizes { batch, seq_k: n, .. } = new;
        self.check_like(new)?;
        let seen = if self.lengths.is_empty() { vec![0; batch] } else { self.lengths.clone() };
        let lengths = self.new_lengths(n, batch, lengths)?;
        let total: Vec<usize> = seen.iter().zip(&lengths).map(|(a, b)| a + b).collect();
        let longest = total.iter().copied().max().unwrap_or(0);
        if let Kind::Preallocated { capacity } = self.kind
            && longest > capacity
        {
            let expected = format!("fit into its capacity of {capacity} tokens");
            let actual = format!("{} seen and {n} new", self.len());
            return Err(Error::value("cache", expected, actual));
        }

        let even = seen.windows(2).all(|pair| pair[0] == pair[1])
            && lengths.iter().all(|&length| length == n);
        let mut plan = Plan {
            seq_k: longest,
            offset: Offset::BottomRight,
            gap: Gap::default(),
            rules: Vec::new(),
            seen,
            new: lengths,
        };
        if let Kind::Rolling { window, sinks } = self.kind {
            if !even {
                let expected = "be the same for all entries of a rolling cache";
                return Err(Error::value("new_lengths", expected, format!("{:?}", plan.new)));
            }
            let forgotten = self.forgotten();
            plan.seq_k = longest - forgotten;
            if forgotten > 0 {
                plan.gap = Gap { after: sinks, length: forgotten };
            }
            plan.rules.push(Rule::Window {
                left: Some(window - 1),
                right: None,
                sinks,
                offset: Offset::BottomRight,
            });
        }
        if !even {
            plan.offset = Offset::PerEntry(plan.seen.iter().map(|&seen| seen as i64).collect());
            plan.rules.push(Rule::Lengths { lengths: total });
        }
        Ok(plan)
    }

    /// Adds the keys and values of a planned call, and returns all that it attends over.
    pub(crate) fn extend(
        &mut self,
        plan: &Plan,
        key: Tensor<B, 4>,
        value: Tensor<B, 4>,
    ) -> [Tensor<B, 4>; 2] {
        let [batch, ..] = key.dims();
        if self.lengths.is_empty() {
            self.lengths = vec![0; batch];
        }
        let all = match self.kind {
            Kind::Memory => {
                [self.key.clone(), self.value.clone()].map(|x| x.expect("it is filled"))
            }
            Kind::Rolling { window, sinks } => self.roll(window, sinks, key, value),
            Kind::Growing | Kind::Preallocated { .. } => self.store(plan, key, value),
        };
        self.lengths.iter_mut().zip(&plan.new).for_each(|(length, new)| *length += new);
        all
    }

    /// Keys that a rolling cache no longer has.
    pub(super) fn forgotten(&self) -> usize {
        match (self.kind, &self.key) {
            (Kind::Rolling { .. }, Some(key)) => self.len().saturating_sub(key.dims()[1]),
            _ => 0,
        }
    }

    fn check_like(&self, new: &Sizes) -> Result<(), Error> {
        let &Sizes { batch, n_kv_heads, head_dim, value_dim, .. } = new;
        if self.kind == Kind::Memory && self.key.is_none() {
            return Err(Error::value("cache", "be filled", "one that was cleared"));
        }
        if !self.lengths.is_empty() && self.lengths.len() != batch {
            let expected = format!("have {batch} (batch) entries");
            return Err(Error::value("cache", expected, self.lengths.len()));
        }
        for (name, tensor, width) in
            [("cached key", &self.key, head_dim), ("cached value", &self.value, value_dim)]
        {
            let Some(tensor) = tensor else { continue };
            let dims = tensor.dims();
            let axes = ["batch", "room", "n_kv_heads", "features"];
            check_shape(name, axes, [batch, dims[1], n_kv_heads, width], dims)?;
            // What a file says may not be what it holds.
            if self.lengths.len() != batch || (self.kept() > dims[1]) {
                let expected = format!("have lengths for {batch} entries of at most {}", dims[1]);
                return Err(Error::value("cache", expected, format!("{:?}", self.lengths)));
            }
        }
        if self.key.is_some() != self.value.is_some() || (self.key.is_none() && !self.is_empty()) {
            return Err(Error::value("cache", "hold keys and values", "one without"));
        }
        Ok(())
    }

    /// Keys that must be there for the lengths to be true.
    fn kept(&self) -> usize {
        match self.kind {
            Kind::Rolling { window, sinks } => self.len().min(window + sinks),
            _ => self.len(),
        }
    }

    fn new_lengths(
        &self,
        n: usize,
        batch: usize,
        lengths: Option<&[usize]>,
    ) -> Result<Vec<usize>, Error> {
        let Some(lengths) = lengths else { return Ok(vec![n; batch]) };
        if lengths.len() != batch || lengths.iter().any(|&length| length > n) {
            let expected = format!("be {batch} (batch) numbers of at most {n} new tokens");
            return Err(Error::value("new_lengths", expected, format!("{lengths:?}")));
        }
        Ok(lengths.to_vec())
    }

    /// Writes behind what is there, and gives the longest entry's extent of all.
    fn store(&mut self, plan: &Plan, key: Tensor<B, 4>, value: Tensor<B, 4>) -> [Tensor<B, 4>; 2] {
        let room = match self.kind {
            Kind::Preallocated { capacity } => capacity,
            _ => plan.seq_k,
        };
        let (old, new) = (&self.lengths, &plan.new);
        let write = |slot: &mut Option<Tensor<B, 4>>, tokens: Tensor<B, 4>| {
            let [batch, _, heads, width] = tokens.dims();
            if plan.seq_k * batch == 0 {
                let dims = [batch, plan.seq_k, heads, width];
                return Tensor::zeros(dims, (&tokens.device(), tokens.dtype()));
            }
            let held = with_room(slot.take(), room, &tokens);
            let held = write_tokens(held, tokens, old, new);
            *slot = Some(held.clone());
            held.narrow(1, 0, plan.seq_k)
        };
        [write(&mut self.key, key), write(&mut self.value, value)]
    }

    /// Gives all that is there and the new, and keeps the sinks and the last `window` keys.
    fn roll(
        &mut self,
        window: usize,
        sinks: usize,
        key: Tensor<B, 4>,
        value: Tensor<B, 4>,
    ) -> [Tensor<B, 4>; 2] {
        let used = self.len() - self.forgotten();
        let keep = |slot: &mut Option<Tensor<B, 4>>, tokens: Tensor<B, 4>| {
            let all = match slot.take() {
                Some(held) if used > 0 => {
                    let held = held.narrow(1, 0, used);
                    if tokens.dims()[1] == 0 { held } else { Tensor::cat(vec![held, tokens], 1) }
                }
                _ => tokens,
            };
            let [_, seq, ..] = all.dims();
            *slot = Some(if seq <= sinks + window {
                all.clone()
            } else {
                let recent = all.clone().narrow(1, seq - window, window);
                match sinks {
                    0 => recent,
                    _ => Tensor::cat(vec![all.clone().narrow(1, 0, sinks), recent], 1),
                }
            });
            all
        };
        [keep(&mut self.key, key), keep(&mut self.value, value)]
    }
}

/// A store with at least this much room per entry, with what was in it.
fn with_room<B: Backend>(
    held: Option<Tensor<B, 4>>,
    room: usize,
    like: &Tensor<B, 4>,
) -> Tensor<B, 4> {
    let [batch, _, heads, width] = like.dims();
    let empty = |room| Tensor::zeros([batch, room, heads, width], (&like.device(), like.dtype()));
    match held {
        Some(held) if held.dims()[1] >= room => held,
        Some(held) => {
            // Twice as much each time, so that a token is copied twice on average.
            let more = room.max(2 * held.dims()[1]) - held.dims()[1];
            Tensor::cat(vec![held, empty(more)], 1)
        }
        None => empty(room),
    }
}

/// Writes the first `new[b]` tokens of entry `b` from place `old[b]` on.
fn write_tokens<B: Backend>(
    held: Tensor<B, 4>,
    tokens: Tensor<B, 4>,
    old: &[usize],
    new: &[usize],
) -> Tensor<B, 4> {
    let [batch, n, heads, width] = tokens.dims();
    let even = old.iter().all(|&at| at == old[0]) && new.iter().all(|&count| count == n);
    if even {
        if n == 0 {
            return held;
        }
        return held.slice_assign([0..batch, old[0]..old[0] + n, 0..heads, 0..width], tokens);
    }
    (0..batch).filter(|&b| new[b] > 0).fold(held, |held, b| {
        let entry = tokens.clone().slice([b..b + 1, 0..new[b], 0..heads, 0..width]);
        held.slice_assign([b..b + 1, old[b]..old[b] + new[b], 0..heads, 0..width], entry)
    })
}
