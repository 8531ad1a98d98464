//! Our numbers beside those of another implementation.

use std::{error::Error, fs, path::Path};

use burn::tensor::backend::Backend;
use mha_examples::print::print_line;
use serde::Deserialize;

use crate::{encoder::Encoder, table::dot};

/// The least cosine of our vector and the other's, and the most that a number may differ by: both
/// far above what rounding does in six layers of f32, about 1e-7.
const LEAST_COSINE: f64 = 0.99999;
const MOST_DIFFERENCE: f64 = 1e-5;

/// What fixture.py wrote down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    sentences: Vec<String>,
    /// The word pieces of each sentence.
    tokens: Vec<Vec<u32>>,
    /// Places of the sentences that went through the model together.
    batches: Vec<Vec<usize>>,
    /// A vector for each sentence of each batch.
    embeddings: Vec<Vec<Vec<f32>>>,
}

impl Fixture {
    fn read(file: &Path) -> Result<Self, String> {
        let shown = file.display();
        let text =
            fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let fixture: Self = serde_json::from_str(&text)
            .map_err(|error| format!("{shown} is not of fixture.py: {error}"))?;
        let known = |place: &usize| *place < fixture.sentences.len();
        let fits = fixture.tokens.len() == fixture.sentences.len()
            && fixture.batches.len() == fixture.embeddings.len()
            && !fixture.batches.is_empty()
            && fixture.batches.iter().zip(&fixture.embeddings).all(|(batch, embeddings)| {
                !batch.is_empty() && batch.len() == embeddings.len() && batch.iter().all(known)
            });
        if fits { Ok(fixture) } else { Err(format!("{shown} has lists of lengths that differ")) }
    }
}

/// Embeds the sentences of the fixture as it did and prints how far the results are apart.
///
/// # Errors
///
/// When that is too far, or the fixture is none.
pub(crate) fn check<B: Backend>(encoder: &Encoder<B>, file: &Path) -> Result<(), Box<dyn Error>> {
    let fixture = Fixture::read(file)?;
    for (sentence, tokens) in fixture.sentences.iter().zip(&fixture.tokens) {
        let ours = encoder.word_pieces.ids(sentence)?;
        if ours != *tokens {
            let error = format!("{sentence:?} has the word pieces {tokens:?}, ours are {ours:?}");
            return Err(error.into());
        }
    }
    let (mut least_cosine, mut most_difference) = (f64::INFINITY, 0.0);
    for (batch, theirs) in fixture.batches.iter().zip(&fixture.embeddings) {
        let sentences: Vec<_> = batch.iter().map(|&place| &fixture.sentences[place]).collect();
        for (ours, theirs) in encoder.embed_together(&sentences)?.iter().zip(theirs) {
            if ours.len() != theirs.len() {
                let error = format!("vectors have {} numbers, ours {}", theirs.len(), ours.len());
                return Err(error.into());
            }
            let cosine = dot(ours, theirs) / (dot(ours, ours) * dot(theirs, theirs)).sqrt();
            least_cosine = worse(least_cosine, cosine, f64::lt);
            for (ours, theirs) in ours.iter().zip(theirs) {
                let difference = (f64::from(*ours) - f64::from(*theirs)).abs();
                most_difference = worse(most_difference, difference, f64::gt);
            }
        }
    }
    print_line(format_args!(
        "{} sentences in {} batches: smallest cosine {least_cosine:.9}, largest difference \
         {most_difference:.1e}",
        fixture.sentences.len(),
        fixture.batches.len(),
    ));
    if least_cosine >= LEAST_COSINE && most_difference <= MOST_DIFFERENCE {
        return Ok(());
    }
    let allowed = format!(
        "the embeddings differ: a cosine of {LEAST_COSINE} and a difference of {MOST_DIFFERENCE:e} \
         are allowed"
    );
    Err(allowed.into())
}

/// The worse of two numbers, of which one that is none is the worst.
fn worse(so_far: f64, new: f64, is_worse: impl Fn(&f64, &f64) -> bool) -> f64 {
    if new.is_nan() || is_worse(&new, &so_far) { new } else { so_far }
}
