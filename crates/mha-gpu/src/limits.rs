//! What the device can do, and the sizes of tiles that follow.

#[cfg(test)]
mod tests;

use cubecl::client::ComputeClient;
use cubecl::ir::StorageType;
use cubecl::prelude::{CubePrimitive, Runtime};

use crate::Error;
use crate::call::{Call, INDEX, POSITION, Sizes, limit, pairs_fit};
use crate::device::{Looks, Spec};

/// How large a call is.
///
/// # Example
///
/// ```
/// use mha_gpu::Size;
///
/// let size = Size { batch: 2, seq_q: 128, n_keys: 128, n_heads: 8, n_kv_heads: 2, ..Size::default() };
/// assert_eq!(size.pairs.len(), 0);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Size {
    /// Independent entries.
    pub batch: usize,
    /// Queries of an entry.
    pub seq_q: usize,
    /// Keys of an entry, with the memory.
    pub n_keys: usize,
    /// Heads of the queries.
    pub n_heads: usize,
    /// Heads of keys and values.
    pub n_kv_heads: usize,
    /// Features of a query and of a key in one head.
    pub head_dim: usize,
    /// Features of a value in one head.
    pub value_dim: usize,
    /// The sizes of masks and bias.
    pub pairs: Vec<[usize; 4]>,
    /// How far a query and a key stand apart at most, if distances count.
    pub farthest: usize,
}

/// Whether a device can compute a call of this size: what [`forward`](crate::forward()) and
/// [`backward`](crate::backward()) would refuse.
///
/// # Errors
///
/// The first size that is too large.
///
/// # Example
///
/// ```
/// use cubecl::client::ComputeClient;
/// use cubecl::prelude::Runtime;
/// use mha_gpu::{Size, fits};
///
/// fn takes_wide_heads<R: Runtime>(client: &ComputeClient<R>) -> bool {
///     let one = Size { batch: 1, seq_q: 1, n_keys: 1, n_heads: 1, n_kv_heads: 1, ..Size::default() };
///     fits(client, &Size { head_dim: 256, value_dim: 256, ..one }).is_ok()
/// }
/// ```
pub fn fits<R: Runtime>(client: &ComputeClient<R>, size: &Size) -> Result<(), Error> {
    limit("the distance of query and key", size.farthest, POSITION)?;
    for pairs in &size.pairs {
        pairs_fit(*pairs)?;
    }
    let &Size { batch, seq_q, n_keys, n_heads, n_kv_heads, head_dim, value_dim, .. } = size;
    let sizes =
        Sizes { batch, seq_q, n_keys, seq_k: n_keys, n_heads, n_kv_heads, head_dim, value_dim };
    let limits = Limits::new(client);
    limits.check(&sizes)?;
    limits.forward(&sizes, Options::ALL)?;
    limits.d_query(&sizes, Options::ALL)?;
    limits.d_key_value(&sizes, Options::ALL).map(drop)
}

/// The widest row of features that a unit holds.
const WIDEST: usize = 256;
/// What WebGPU promises of shared memory, in bytes.
const SHARED: usize = 16_384;

/// What a call has that its tiles depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) dropout: bool,
    /// Whether rules hide pairs, so that small blocks skip more of them.
    pub(crate) ruled: bool,
}

impl Options {
    /// With everything that takes shared memory.
    const ALL: Self = Self { dropout: true, ruled: false };

    pub(crate) fn of(call: &Call<'_>) -> Self {
        Self { dropout: call.dropout.is_some(), ruled: call.visible.is_some() }
    }
}

/// A device, as far as tiles depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    shared: usize,
    cubes: usize,
    units: usize,
    most_units: usize,
    /// Whether the device computes in software: on 8 lanes of a CPU's vectors, without registers of
    /// its own for each of thousands of units.
    software: bool,
    /// What tiles hold their numbers in.
    word: StorageType,
    /// In bytes.
    buffer: usize,
    /// Turns of all loops of a unit, the last one of each among them, after which the device may leave
    /// them: Mesa's llvmpipe does, silently.
    turns: usize,
}

impl Limits {
    pub(crate) fn new<R: Runtime>(client: &ComputeClient<R>) -> Self {
        Self::of(client, client.properties().hardware.plane_size_max <= 8)
    }

    /// Those of a device that is taken for a computer's processor, or for a graphics processor.
    pub(crate) fn of<R: Runtime>(client: &ComputeClient<R>, software: bool) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let (x, y, z) = hardware.max_cube_count;
        let most = hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize;
        let [narrow, wide] = [u32::as_type_native_unchecked(), u64::as_type_native_unchecked()]
            .map(|word| word.storage_type());
        Self {
            shared: hardware.max_shared_memory_size.min(2 * SHARED),
            cubes: x.min(y).min(z) as usize,
            units: if software { 8 } else { 64 }.min(most),
            most_units: most,
            software,
            word: if software && properties.supports_type(wide) { wide } else { narrow },
            buffer: usize::try_from(properties.memory.max_page_size).unwrap_or(usize::MAX),
            turns: if software { 60_000 } else { usize::MAX },
        }
    }

    /// A forward pass over `sizes`.
    pub(crate) fn forward(&self, sizes: &Sizes, options: Options) -> Result<Spec, Error> {
        let n_rows = sizes.group() * sizes.seq_q;
        // Each unit of a block has sums of its own then, if there is room for them.
        let sums = self.units * sizes.all_rows() * 4 * fours(sizes.value_dim);
        let spread = n_rows <= 4 && sums <= INDEX.min(self.buffer / size_of::<f32>());
        // The smallest kernel: it may be unrolled further.
        let spec = self.spec(sizes, n_rows, options, if options.ruled { 8 } else { 16 });
        let spec = match spread {
            true => Spec { rows: n_rows.next_power_of_two(), units: self.units, spread, ..spec },
            false => spec,
        };
        let held = spec.rows * spec.units;
        let scores = held * size_of::<f32>() * if options.dropout { 2 } else { 1 };
        let row = if spread { 0 } else { 16 * (spec.qk + spec.v) };
        self.fit(spec, scores + row, held * (16 + 8))
    }

    /// A pass whose units hold queries and meet the keys.
    pub(crate) fn d_query(&self, sizes: &Sizes, options: Options) -> Result<Spec, Error> {
        let spec = self.spec(sizes, sizes.group() * sizes.seq_q, options, 8);
        self.fit(spec, 16 * (spec.qk + spec.v), spec.rows * spec.units * (16 + 12))
    }

    /// A pass whose units hold keys and meet the queries.
    pub(crate) fn d_key_value(&self, sizes: &Sizes, options: Options) -> Result<Spec, Error> {
        let spec = self.spec(sizes, sizes.n_keys, options, 8);
        self.fit(spec, 16 * (spec.qk + spec.v) + 36, spec.rows * spec.units * 12)
    }

    /// How units share so many rows: how many each holds, and how many units a block has. More rows mean
    /// fewer reads, as long as a device has the registers, there is enough for all cores, and the kernel,
    /// which is unrolled, does not take longer to compile than to run. More units share what it takes to
    /// fill a tile.
    fn spec(&self, sizes: &Sizes, n_rows: usize, options: Options, most_rows: usize) -> Spec {
        let (qk, v) = (fours(sizes.head_dim), fours(sizes.value_dim));
        let (numbers, least) = if self.software { (32 * most_rows, 4) } else { (32, 1024) };
        let enough = |rows: usize, units: usize| rows * units * least <= n_rows;
        let fits = |&rows: &usize| {
            rows <= most_rows && rows * (qk + v) <= numbers && enough(rows, self.units)
        };
        let rows = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let most = if self.software && !options.ruled { self.most_units } else { self.units };
        // What each unit keeps in shared memory leaves half of it to the tile.
        let held = |units: usize| rows * units * 32 <= self.shared / 2;
        let share = |&units: &usize| units <= most && enough(rows, units) && held(units);
        let units = [4 * self.units, 2 * self.units].into_iter().find(share);
        Spec {
            qk,
            v,
            rows,
            tile: 0,
            word: self.word,
            units: units.unwrap_or(self.units),
            spread: false,
            split: false,
            several: false,
            dropout: options.dropout,
            scores: false,
            looks: Looks::Sometimes,
        }
    }

    /// With the longest tile that shared memory has room for, given the bytes of each of its rows and
    /// those of all else.
    fn fit(&self, spec: Spec, row: usize, rest: usize) -> Result<Spec, Error> {
        let most = if self.software || spec.spread { 16 } else { 32 };
        let room = |tile: &usize| tile * row + rest <= self.shared;
        let tile = [most, 16, 8, 4, 2, 1].into_iter().find(room);
        let tile = tile.ok_or(Error::Limit {
            what: "the shared memory of a tile, in bytes,",
            is: (row + rest) as u64,
            most: self.shared as u64,
        })?;
        Ok(Spec { tile, ..spec })
    }

    /// Whether the device can launch and store what a call of these sizes needs.
    pub(crate) fn check(&self, sizes: &Sizes) -> Result<(), Error> {
        limit("head_dim", sizes.head_dim, WIDEST)?;
        limit("value_dim", sizes.value_dim, WIDEST)?;
        limit("batch", sizes.batch, self.cubes)?;
        limit("n_kv_heads", sizes.n_kv_heads, self.cubes)?;
        let blocks = (sizes.group() * sizes.seq_q).max(sizes.n_keys).div_ceil(self.units);
        limit("the longer sequence, in blocks of a cube's units,", blocks, self.cubes)?;
        let Sizes { batch, seq_q, n_keys, n_heads, n_kv_heads, .. } = *sizes;
        let width = 4 * fours(sizes.head_dim).max(fours(sizes.value_dim));
        let queries = batch * seq_q * n_heads * width;
        // Gradients of keys and values share a buffer.
        let keys = 2 * batch * n_keys * n_kv_heads * width;
        for numbers in [queries, keys] {
            limit("the number of elements of a tensor", numbers, INDEX)?;
            // Halves too are added up in f32.
            limit("the size of a tensor, in bytes,", numbers * size_of::<f32>(), self.buffer)?;
        }
        Ok(())
    }

    /// How many of these steps one launch may take, of so many turns each.
    pub(crate) fn steps(&self, turns: usize) -> usize {
        (self.turns / turns.max(1)).max(1)
    }

    /// How many tiles a unit may meet in one launch, if looking at a pair takes so many turns.
    pub(crate) fn tiles(&self, spec: Spec, of_pair: usize) -> usize {
        let load = (spec.tile * (spec.qk + spec.v) / 2).div_ceil(spec.units) + 8;
        let look = if spec.looks == Looks::Never { 0 } else { spec.rows * (of_pair + 1) + 2 };
        self.steps(load + spec.tile * (look + 4) + 8)
    }

    /// Into how many parts the keys of one block are split, so that no core waits: `blocks` in all,
    /// of `tiles` each.
    pub(crate) fn parts(&self, blocks: usize, tiles: usize) -> usize {
        let wanted: usize = if self.software { 16 } else { 512 };
        wanted.div_ceil(blocks.max(1)).min(tiles).max(1)
    }
}

/// Fours of features in a row, with a few that are 0: kernels are compiled for each number.
pub(crate) fn fours(width: usize) -> usize {
    match width {
        0..=8 => 2,
        width => 4 * width.div_ceil(16),
    }
}
