//! The example `sentence_embeddings` on a tiny model: its numbers beside transformers', its command
//! line, folders that are not whole, and training the loaded model.

mod damaged;
#[path = "../program/outcome.rs"]
mod outcome;
mod per_token;
#[path = "../program/mod.rs"]
mod program;
mod run;
mod support;
mod tiny;
mod training;

// The example's own modules, compiled into the test as they stand.
#[allow(dead_code, reason = "heads are drawn by the example alone")]
#[path = "../../sentence_embeddings/bert/mod.rs"]
mod bert;
#[allow(dead_code, reason = "what the example prints is tested as it prints it")]
#[path = "../../sentence_embeddings/encoder.rs"]
mod encoder;
#[allow(dead_code, reason = "names are drawn by the example alone")]
#[path = "../../sentence_embeddings/word_pieces.rs"]
mod word_pieces;
