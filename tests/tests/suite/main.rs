//! What mha promises, on every backend that is compiled in. One binary: each would compile the
//! backends' code anew.

mod against_oracle;
mod bug_reports;
mod cache;
mod config;
mod draws;
mod drop_in;
mod dropout;
mod each_other;
mod empty;
mod errors;
mod explain;
mod golden;
mod gpu;
mod half;
mod import;
mod linear;
mod mutations;
mod paths;
mod properties;
mod strategies;
mod weights;
