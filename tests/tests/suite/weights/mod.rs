//! Other libraries' checkpoints, read and written.

mod files;
mod golden;
mod gradients;
mod models;
mod numbers;
mod pytorch_grid;
mod random;
mod refused;
