//! Whole files, good and damaged.

mod common;
mod damaged_pickles;
mod damaged_zips;
mod flips;
mod folders;
mod fuzzed;
mod headers;
mod pytorch;
mod replay;
mod shards;
mod write;
