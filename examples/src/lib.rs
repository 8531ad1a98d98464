//! What the examples share: the command line, the choice of a backend, lines and drawings in the
//! terminal, pictures, random bits, medians.

pub mod backend;
pub mod columns;
pub mod flags;
pub mod heatmap;
pub mod picture;
pub mod print;
pub mod random;
pub mod statistics;
