//! Other libraries' checkpoints, read and written.

mod golden;
