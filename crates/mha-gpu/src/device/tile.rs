//! Rows of the other side in shared memory, where all units of a cube read them.

use cubecl::prelude::*;

use super::Four;

/// Fours of features, two of them at a time: in one four of words where words have 64 bits, else in two.
/// A device that reads lane by lane and number by number, as Mesa's llvmpipe does, takes as long for a
/// number of 64 bits as for one of 32.
#[derive(CubeType)]
pub(super) struct Tile<W: Int> {
    words: SharedMemory<Four<W>>,
}

#[cube]
impl<W: Int> Tile<W> {
    /// Room for this many pairs of fours.
    pub(super) fn new(#[comptime] pairs: usize) -> Self {
        let wide = W::type_size_bits().comptime() == 64;
        Tile::<W> { words: SharedMemory::new(comptime!(if wide { pairs } else { 2 * pairs })) }
    }

    pub(super) fn write(&mut self, pair: usize, first: Four<f32>, second: Four<f32>) {
        let first = Four::<W>::cast_from(Four::<u32>::reinterpret(first));
        let second = Four::<W>::cast_from(Four::<u32>::reinterpret(second));
        if W::type_size_bits().comptime() == 64 {
            self.words[pair] = first | (second << Four::cast_from(32u32));
        } else {
            self.words[2 * pair] = first;
            self.words[2 * pair + 1] = second;
        }
    }

    pub(super) fn read(&self, pair: usize) -> (Four<f32>, Four<f32>) {
        let (first, second) = if W::type_size_bits().comptime() == 64 {
            let both = self.words[pair];
            (both, both >> Four::cast_from(32u32))
        } else {
            (self.words[2 * pair], self.words[2 * pair + 1])
        };
        let first = Four::<f32>::reinterpret(Four::<u32>::cast_from(first));
        (first, Four::<f32>::reinterpret(Four::<u32>::cast_from(second)))
    }
}
