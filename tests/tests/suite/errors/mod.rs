//! Every message of what is refused, word for word; the calls that panic say the same.
//!
//! | what is refused | where |
//! |---|---|
//! | a width, dropout, scale, softcap, `min_float`, a Burn initializer | `suite/config.rs` |
//! | a position encoding, a norm, `bias_kv`, a preset | `config` |
//! | tokens, bias, tables, factors and offsets of a call; `weights_of`, `why` | `calls` |
//! | the same of the function, `merge_attention` | `function` |
//! | a rule or a dense mask; `tile`, `draw`, `visible_pairs` | `masks` |
//! | what a cache cannot take, and what a file says of one | `cached` |
//! | options that cannot go together | `pairs` |
//! | a record, and a module that a record was forced upon | `records` |
//! | the steps on their own, and what else has no `try_` twin | `steps` |

mod cached;
mod calls;
mod config;
mod function;
mod masks;
mod pairs;
mod records;
mod steps;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Tensor};
use mha::{Error, KvCache, MhaInput, MultiHeadAttention};

fn zeros<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D> {
    Tensor::zeros(dims, &B::Device::default())
}

fn mask<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D, Bool> {
    Tensor::empty(dims, &B::Device::default())
}

/// The text of a panic.
#[track_caller]
fn panic_text<T>(call: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("a panic");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[track_caller]
fn assert_says<T>(result: Result<T, Error>, said: &str) {
    assert_eq!(result.map(drop).expect_err(said).to_string(), said);
}

/// Both forward calls refuse the input in these words.
#[track_caller]
fn assert_refuses<B: Backend>(module: &MultiHeadAttention<B>, input: MhaInput<B>, said: &str) {
    assert_says(module.try_forward(input.clone()), said);
    assert_eq!(panic_text(|| module.forward(input)), said);
}

/// Both cached calls refuse the input in these words, and leave the cache as it was.
#[track_caller]
fn assert_cache_refuses<B: Backend>(
    module: &MultiHeadAttention<B>,
    input: MhaInput<B>,
    cache: &KvCache<B>,
    said: &str,
) {
    let mut tried = cache.clone();
    assert_says(module.try_forward_cached(input.clone(), &mut tried), said);
    assert_eq!(panic_text(|| module.forward_cached(input, &mut tried)), said);
    assert_eq!(format!("{tried:?}"), format!("{cache:?}"));
}
