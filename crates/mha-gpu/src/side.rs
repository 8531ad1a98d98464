//! The side buffer: everything that kernels look up, in one buffer of words.

use std::ops::Range;

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::Error;
use crate::call::{Bools, Call, INDEX, Sink, Sizes, limit};
use crate::device::{Looks, Numbers, Spec, pack, seen};
use crate::launch::{array, grid};
use crate::limits::Limits;
use crate::spans::Spans;

/// The buffer of one call, and the numbers that say what lies where in it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) handle: Handle,
    pub(crate) len: usize,
    numbers: Numbers,
    passes: Vec<(Blocks, SpansAt)>,
    /// Turns of loops that looking at a pair takes.
    pub(crate) turns_of_pair: usize,
}

/// Which side of a pass lies in registers, block by block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// Of queries, which meet the keys that they see.
    Queries,
    /// Of queries, which meet all keys.
    QueriesByAll,
    /// Of keys.
    Keys,
}

/// Where a pass has its spans of tiles.
#[derive(Debug, Clone, Copy)]
struct SpansAt {
    starts: usize,
    per_entry: usize,
    per_block: usize,
    list: usize,
    looks: Looks,
}

/// Words, and where those that the device fills in come to lie behind them.
#[derive(Debug)]
struct Words {
    host: Vec<u32>,
}

impl Words {
    fn put(&mut self, words: impl IntoIterator<Item = u32>) -> usize {
        let at = self.host.len();
        self.host.extend(words);
        at
    }

    /// Room that the device fills in.
    fn room(&mut self, words: usize) -> Result<usize, Error> {
        let at = self.host.len();
        limit("the words of masks, tables and rules", at.saturating_add(words), INDEX)?;
        self.host.resize(at + words, 0);
        Ok(at)
    }
}

impl Side {
    /// For these passes, with room for the statistics of a backward pass, if it is one.
    pub(crate) fn new<R: Runtime>(
        client: &ComputeClient<R>,
        call: &Call<'_>,
        sizes: &Sizes,
        limits: &Limits,
        passes: &[(Blocks, Spec)],
        backward: bool,
    ) -> Result<Self, Error> {
        // Word 0 says that a key is seen, where nothing says more.
        let mut words = Words { host: vec![1] };
        let mut n = numbers(call, sizes);
        let everything = runs(call, sizes, &mut words, &mut n);
        segments(call, &mut words, &mut n);
        n.alibi_and_positions(call, &mut words);
        let passes: Vec<_> = passes
            .iter()
            .map(|&(blocks, spec)| {
                (blocks, spans(&everything, sizes, spec, blocks, is_special(call), &mut words))
            })
            .collect();

        // Each option is a loop, which ends with a turn of its own.
        let longest = everything.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let turns_of_pair = 16 + longest + call.segments.len() + call.hidden.len();

        // What the device fills in.
        let n_masks = call.hidden.len();
        n.n_masks = n_masks;
        n.masks = words.room(5 * n_masks)?;
        let mut masks = Vec::new();
        for (index, hidden) in call.hidden.iter().enumerate() {
            let [batch, n_heads, seq_q, seq_k] = hidden.mask.dims;
            let per_row = seq_k.div_ceil(32);
            let to = words.room(batch * n_heads * seq_q * per_row)?;
            let repeated = |dim: usize, stride: usize| if dim == 1 { 0 } else { 32 * stride };
            let header = [
                to,
                repeated(batch, n_heads * seq_q * per_row),
                repeated(n_heads, seq_q * per_row),
                repeated(seq_q, per_row),
                usize::from(seq_k > 1),
            ];
            for (place, number) in header.into_iter().enumerate() {
                words.host[n.masks + 5 * index + place] = number as u32;
            }
            masks.push((to, per_row, hidden));
        }
        let relative = call.relative.as_ref();
        n.relative =
            words.room(relative.map_or(0, |table| sizes.n_heads * (2 * table.reach + 1)))?;
        n.sink = words.room(if n.sinks == 1 { sizes.n_heads } else { 0 })?;
        n.seed = words.room(if call.dropout.is_some() { 2 } else { 0 })?;
        n.stats = words.room(if backward { 3 * sizes.all_rows() } else { 0 })?;
        let unseen = call.bias.is_some()
            || !call.segments.is_empty()
            || n_masks > 0
            || hides_a_key(&everything, sizes);
        let all = if unseen { sizes.batch * sizes.n_kv_heads * sizes.n_keys } else { 0 };
        (n.seen, n.checked) = if unseen { (words.room(all)?, 1) } else { (0, 0) };

        let len = words.host.len();
        let handle = client.create_from_slice(u32::as_bytes(&words.host));
        let side = Self { handle, len, numbers: n, passes, turns_of_pair };
        for (to, per_row, hidden) in masks {
            side.pack_mask(client, to, per_row, &hidden.mask, hidden.bools);
        }
        if let Some(relative) = relative {
            let len = sizes.n_heads * (2 * relative.reach + 1);
            side.pack::<R, f32>(client, &relative.table, n.relative, len, true);
        }
        if let Sink::Learned(logits) = &call.sink {
            side.pack::<R, f32>(client, logits, n.sink, sizes.n_heads, true);
        }
        if let Some(dropout) = &call.dropout {
            side.pack::<R, i32>(client, &dropout.seed, n.seed, 2, false);
        }
        if unseen {
            let n_rows = sizes.group() * sizes.seq_q;
            let at_once = limits.steps(turns_of_pair + 4);
            for first in (0..n_rows).step_by(at_once) {
                side.look(client, call, all, first..n_rows.min(first + at_once));
            }
        }
        Ok(side)
    }

    fn spans(&self, blocks: Blocks) -> &SpansAt {
        let pass = self.passes.iter().find(|(of, _)| *of == blocks);
        pass.map(|(_, spans)| spans).expect("the buffer was made for this pass")
    }

    /// A pass's kernel with no more than the loops that it needs.
    pub(crate) fn fitted(&self, blocks: Blocks, spec: Spec) -> Spec {
        Spec { looks: self.spans(blocks).looks, ..spec }
    }

    /// What the kernel of a pass over these queries is told.
    pub(crate) fn numbers(&self, blocks: Blocks, queries: Range<usize>) -> Numbers {
        let spans = self.spans(blocks);
        Numbers {
            first: queries.start,
            queries: queries.len(),
            spans: spans.starts,
            spans_per_entry: spans.per_entry,
            spans_per_block: spans.per_block,
            span_list: spans.list,
            ..self.numbers
        }
    }

    pub(crate) fn arg<R: Runtime>(&self) -> ArrayArg<R> {
        array(&self.handle, self.len)
    }

    fn pack<R: Runtime, T: Numeric + CubeElement>(
        &self,
        client: &ComputeClient<R>,
        source: &Handle,
        to: usize,
        len: usize,
        bits: bool,
    ) {
        let (count, dim) = grid(client, len);
        // SAFETY: there is room for `len` words from `to` on, and the kernel writes no others.
        unsafe {
            pack::pack_words::launch_unchecked::<T, R>(
                client,
                count,
                dim,
                array(source, len),
                self.arg(),
                to,
                len,
                bits,
            )
        }
    }

    fn pack_mask<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        to: usize,
        per_row: usize,
        mask: &crate::Strided,
        bools: Bools,
    ) {
        let [batch, n_heads, seq_q, seq_k] = mask.dims;
        let words = batch * n_heads * seq_q * per_row;
        let (count, dim) = grid(client, words);
        let [a, b, c, d] = mask.strides;
        macro_rules! launch {
            ($bool:ty) => {
                // SAFETY: the mask reaches as far as its buffer, there is room for `words` from `to`
                // on, and the kernel writes no others.
                unsafe {
                    pack::pack_mask::launch_unchecked::<$bool, R>(
                        client,
                        count,
                        dim,
                        array(&mask.handle, mask.reach()),
                        self.arg(),
                        to,
                        words,
                        (n_heads, seq_q, seq_k),
                        (a, b, c, d),
                        per_row,
                    )
                }
            };
        }
        match bools {
            Bools::U8 => launch!(u8),
            Bools::U32 => launch!(u32),
        }
    }

    /// Finds out which keys somebody among these rows sees.
    fn look<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        call: &Call<'_>,
        all: usize,
        rows: Range<usize>,
    ) {
        let (count, dim) = grid(client, all);
        // SAFETY: the side buffer has a word for each of `all` keys, and the kernel writes no others.
        unsafe {
            seen::seen::launch_unchecked::<R>(
                client,
                count,
                dim,
                bias(call, &self.handle),
                self.arg(),
                self.numbers.launch(),
                all,
                rows.start,
                rows.end,
            )
        }
    }
}

/// The bias, or some buffer that nothing is read of.
pub(crate) fn bias<R: Runtime>(call: &Call<'_>, other: &Handle) -> ArrayArg<R> {
    match &call.bias {
        Some(bias) => array(&bias.handle, bias.reach()),
        None => array(other, 1),
    }
}

fn numbers(call: &Call<'_>, sizes: &Sizes) -> Numbers {
    let flag = usize::from;
    let bias = call.bias.as_ref();
    let bias_stride = |axis: usize| {
        bias.map_or(0, |bias| if bias.dims[axis] == 1 { 0 } else { bias.strides[axis] })
    };
    let probability = call.dropout.as_ref().map_or(0.0, |dropout| dropout.probability);
    Numbers {
        n_heads: sizes.n_heads,
        group: sizes.group(),
        n_kv_heads: sizes.n_kv_heads,
        seq_q: sizes.seq_q,
        first: 0,
        queries: sizes.seq_q,
        n_keys: sizes.n_keys,
        seq_k: sizes.seq_k,
        scale: call.scale as f32,
        caps: flag(call.softcap.is_some()),
        cap: call.softcap.unwrap_or(1.0) as f32,
        hidden: f32::NEG_INFINITY,
        // Below 2³¹ also for a probability that rounds to 1.
        threshold: (probability * f64::from(1u32 << 31)).round().min(f64::from(i32::MAX)) as u32,
        kept: (1.0 / (1.0 - probability)) as f32,
        biased: flag(bias.is_some()),
        bias_batch: bias_stride(0),
        bias_head: bias_stride(1),
        bias_query: bias_stride(2),
        bias_key: bias_stride(3),
        related: flag(call.relative.is_some()),
        reach: call.relative.as_ref().map_or(0, |relative| relative.reach as i32),
        sinks: flag(!matches!(call.sink, Sink::None)),
        ..Numbers::default()
    }
}

impl Numbers {
    fn alibi_and_positions(&mut self, call: &Call<'_>, words: &mut Words) {
        if let Some(slopes) = call.alibi {
            self.sloped = 1;
            self.slopes = words.put(slopes.iter().map(|&slope| (slope as f32).to_bits()));
        }
        let positions = &call.positions;
        self.offsets = words.put(positions.offsets.iter().map(|&offset| offset as i32 as u32));
        self.offsets_per_entry = usize::from(positions.offsets.len() > 1);
        // Distances are only asked for where they are small enough.
        (self.gap_after, self.gap) =
            (positions.gap_after, positions.gap.min(i32::MAX as usize / 2));
    }
}

/// What each query of each entry that has to be looked at sees, the memory's keys among it, which are
/// written down if it is not everything.
fn runs(
    call: &Call<'_>,
    sizes: &Sizes,
    words: &mut Words,
    n: &mut Numbers,
) -> Vec<Vec<Vec<Range<usize>>>> {
    let &Sizes { seq_q, seq_k, n_keys, .. } = sizes;
    let Some(visible) = &call.visible else {
        return vec![vec![vec![0..n_keys]; seq_q]];
    };
    let row = |b: usize, i: usize| {
        let mut runs: Vec<_> =
            (visible.row)(b, i).into_iter().filter(|run| !run.is_empty()).collect();
        match runs.last_mut() {
            Some(last) if last.end == seq_k => last.end = n_keys,
            _ if seq_k < n_keys => runs.push(seq_k..n_keys),
            _ => {}
        }
        runs
    };
    let entries: Vec<Vec<_>> =
        (0..visible.entries).map(|b| (0..seq_q).map(|i| row(b, i)).collect()).collect();
    let (mut starts, mut list) = (vec![0], Vec::new());
    for runs in entries.iter().flatten() {
        list.extend(runs.iter().flat_map(|run| [run.start as u32, run.end as u32]));
        starts.push(list.len() as u32 / 2);
    }
    n.ruled = 1;
    n.runs = words.put(starts);
    n.runs_per_entry = if visible.entries == 1 { 0 } else { seq_q };
    n.run_list = words.put(list);
    entries
}

fn segments(call: &Call<'_>, words: &mut Words, n: &mut Numbers) {
    let mut headers = Vec::new();
    for segments in &call.segments {
        for ids in [segments.query, segments.key] {
            let per_entry = if ids.len() == 1 { 0 } else { ids[0].len() };
            headers.extend([words.put(ids.iter().flatten().copied()), per_entry]);
        }
    }
    n.n_segments = call.segments.len();
    n.segments = words.put(headers.into_iter().map(|number| number as u32));
}

/// Whether every pair has to be looked at.
fn is_special(call: &Call<'_>) -> bool {
    call.softcap.is_some()
        || call.bias.is_some()
        || call.alibi.is_some()
        || call.relative.is_some()
        || call.dropout.is_some()
        || !call.hidden.is_empty()
        || !call.segments.is_empty()
}

/// Which tiles each block of a pass meets.
fn spans(
    entries: &[Vec<Vec<Range<usize>>>],
    sizes: &Sizes,
    spec: Spec,
    blocks: Blocks,
    special: bool,
    words: &mut Words,
) -> SpansAt {
    let held = spec.rows * if spec.spread { 1 } else { spec.units };
    let met = spec.tile * if spec.spread { spec.units } else { 1 };
    if blocks == Blocks::QueriesByAll {
        let starts = words.put([0, 1]);
        let list = words.put([0, sizes.n_keys.div_ceil(met) as u32, 1]);
        return SpansAt { starts, per_entry: 0, per_block: 0, list, looks: Looks::Always };
    }
    // The rows of a key head: its heads' queries, one head after another.
    let rows: Vec<Vec<&[Range<usize>]>> = entries
        .iter()
        .map(|entry| {
            let of_head = entry.iter().map(Vec::as_slice);
            (0..sizes.group()).flat_map(|_| of_head.clone()).collect()
        })
        .collect();
    let spans = match blocks {
        Blocks::Keys => Spans::of_columns(&rows, sizes.n_keys, [met, held], special),
        _ => Spans::of_rows(&rows, sizes.n_keys, [held, met], special),
    };
    let ([starts, list], looks) = (spans.words(), spans.looks());
    let per_entry = if rows.len() == 1 { 0 } else { (starts.len() - 1) / rows.len() };
    SpansAt { starts: words.put(starts), per_entry, per_block: 1, list: words.put(list), looks }
}

/// Whether the rules hide a key from every query of an entry.
fn hides_a_key(entries: &[Vec<Vec<Range<usize>>>], sizes: &Sizes) -> bool {
    entries.iter().any(|rows| {
        let mut runs: Vec<_> = rows.iter().flatten().collect();
        runs.sort_unstable_by_key(|run| run.start);
        let seen = runs.iter().fold(
            0,
            |seen, run| {
                if run.start <= seen { seen.max(run.end) } else { seen }
            },
        );
        seen < sizes.n_keys
    })
}
