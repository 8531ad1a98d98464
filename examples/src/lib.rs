//! What the examples share: the choice of a backend, pictures, drawings in the terminal, random bits.

pub mod backend;
pub mod columns;
pub mod heatmap;
pub mod picture;
pub mod random;
