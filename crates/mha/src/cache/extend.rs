//! What a call adds to a cache: planned first, so that a refused call changes nothing.

use burn::tensor::{Tensor, backend::Backend};

use super::{Kind, KvCache};
use crate::Error;
use crate::attention::{self, Sizes, check};
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
    /// Whether entries differ in the tokens that they have seen or that are new to them.
    pub(crate) ragged: bool,
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

    /// The tokens that an entry has seen once the new ones are added.
    pub(crate) fn length(&self, entry: usize) -> usize {
        self.seen[entry] + self.new[entry]
    }
}

impl<B: Backend> KvCache<B> {
    /// Plans a call of these sizes, whose `seq_k` counts the new tokens, of which entry `b` has
    /// `lengths[b]` true ones (all, if not given).
    pub(crate) fn plan(
        &self,
        new: &Sizes,
        query: &Tensor<B, 3>,
        lengths: Option<&[usize]>,
    ) -> Result<Plan, Error> {
        let &Sizes { batch, seq_q, seq_k: n, .. } = new;
        self.check(new, query)?;
        let seen = if self.lengths.is_empty() { vec![0; batch] } else { self.lengths.clone() };
        let lengths = new_lengths(n, batch, lengths)?;
        let total: Vec<usize> = seen.iter().zip(&lengths).map(|(a, b)| a + b).collect();
        // Without an entry nothing is remembered, but for a memory.
        let longest = total.iter().copied().max().unwrap_or(self.rows() + n);
        if let Kind::Preallocated { capacity } = self.kind
            && longest > capacity
        {
            let expected = format!("fit into its capacity of {capacity} tokens");
            let actual = format!("{} seen and {n} new", self.len());
            return Err(Error::value("cache", expected, actual));
        }

        let even = seen.windows(2).all(|pair| pair[0] == pair[1])
            && lengths.iter().all(|&length| length == n);
        if !even && seq_q != n && !self.is_memory() {
            // The last query stands at the last key, and that is elsewhere in each entry.
            let expected =
                format!("have as many tokens as key, {n}, where entries differ in length");
            return Err(Error::value("query", expected, seq_q));
        }
        let mut plan = Plan {
            seq_k: longest,
            offset: Offset::BottomRight,
            gap: Gap::default(),
            rules: Vec::new(),
            ragged: !even,
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
        let all = match self.kind {
            Kind::Memory => [&self.key, &self.value]
                .map(|kept| first(kept.clone().expect("it is filled"), plan.seq_k)),
            _ if batch == 0 => return [key, value],
            Kind::Rolling { window, sinks } => self.roll(window, sinks, key, value),
            Kind::Growing | Kind::Preallocated { .. } => self.store(plan, key, value),
        };
        self.lengths = (0..batch).map(|entry| plan.length(entry)).collect();
        all
    }

    /// Writes behind what is there, and gives the longest entry's extent of all.
    fn store(&mut self, plan: &Plan, key: Tensor<B, 4>, value: Tensor<B, 4>) -> [Tensor<B, 4>; 2] {
        let room = match self.kind {
            Kind::Preallocated { capacity } => capacity,
            _ => plan.seq_k,
        };
        let write = |slot: &mut Option<Tensor<B, 4>>, tokens: Tensor<B, 4>| {
            if plan.seq_k == 0 {
                return first(tokens, 0);
            }
            let [_, n, ..] = tokens.dims();
            let held = match slot.take() {
                None if n == room && !plan.ragged => tokens,
                held => write_tokens(with_room(held, room, &tokens), tokens, plan),
            };
            *slot = Some(held.clone());
            first(held, plan.seq_k)
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
            *slot = Some(if seq <= sinks.saturating_add(window) {
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

fn new_lengths(n: usize, batch: usize, lengths: Option<&[usize]>) -> Result<Vec<usize>, Error> {
    let Some(lengths) = lengths else { return Ok(vec![n; batch]) };
    check::lengths("new_lengths", lengths, batch, (n, "new tokens"))?;
    Ok(lengths.to_vec())
}

/// The first `n` of the tokens; Burn narrows to none at all with a panic.
fn first<B: Backend>(tokens: Tensor<B, 4>, n: usize) -> Tensor<B, 4> {
    let [batch, seq, heads, width] = tokens.dims();
    match n {
        0 => Tensor::zeros([batch, 0, heads, width], (&tokens.device(), tokens.dtype())),
        n if n == seq => tokens,
        n => attention::first(tokens, n),
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

/// Writes the true tokens of each entry behind those that it has seen.
fn write_tokens<B: Backend>(held: Tensor<B, 4>, tokens: Tensor<B, 4>, plan: &Plan) -> Tensor<B, 4> {
    let [batch, n, heads, width] = tokens.dims();
    let Plan { seen: old, new, .. } = plan;
    if !plan.ragged {
        if n == 0 {
            return held;
        }
        return attention::put(held, old[0], tokens);
    }
    (0..batch).filter(|&b| new[b] > 0).fold(held, |held, b| {
        let entry = tokens.clone().slice([b..b + 1, 0..new[b], 0..heads, 0..width]);
        held.slice_assign([b..b + 1, old[b]..old[b] + new[b], 0..heads, 0..width], entry)
    })
}
