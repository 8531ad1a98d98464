//! The example `tiny_lm`: its text, how it writes, its command line, and the models it leaves.

mod data;
mod flags;
#[path = "../program/outcome.rs"]
mod outcome;
#[path = "../program/mod.rs"]
mod program;
mod run;
mod saved;
mod support;
mod writing;

// The example's own modules, compiled into the test as they stand.
#[path = "../../tiny_lm/attention.rs"]
mod attention;
#[path = "../../tiny_lm/batches.rs"]
mod batches;
#[path = "../../tiny_lm/block.rs"]
mod block;
#[allow(dead_code, reason = "what a prompt may be is tested on the command line")]
#[path = "../../tiny_lm/corpus.rs"]
mod corpus;
#[path = "../../tiny_lm/generate.rs"]
mod generate;
#[allow(dead_code, reason = "the example also trains the model")]
#[path = "../../tiny_lm/model.rs"]
mod model;
#[path = "../../tiny_lm/sampler.rs"]
mod sampler;
#[path = "../../tiny_lm/sizes.rs"]
mod sizes;
#[allow(dead_code, reason = "what a prompt may be is tested on the command line")]
#[path = "../../tiny_lm/vocabulary.rs"]
mod vocabulary;
