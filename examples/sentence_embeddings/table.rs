//! The cosine of every two sentences.

use mha_examples::columns::{aligned, display_width};

/// Columns of the terminal that a sentence may take.
const SENTENCE: usize = 44;

/// Lines of a table: a row and a column for each sentence, whose vectors have length 1.
pub(crate) fn similarities(sentences: &[String], embeddings: &[Vec<f32>]) -> Vec<String> {
    let numbers = (1..=sentences.len()).map(|number| number.to_string());
    let mut rows = vec![std::iter::once("cosine".to_string()).chain(numbers).collect()];
    for (place, (sentence, one)) in sentences.iter().zip(embeddings).enumerate() {
        let cosines = embeddings.iter().map(|other| format!("{:.3}", dot(one, other)));
        let title = format!("{} {}", place + 1, shortened(sentence));
        rows.push(std::iter::once(title).chain(cosines).collect::<Vec<_>>());
    }
    aligned(&rows)
}

/// The product of two vectors.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// A sentence in one line that fits.
fn shortened(sentence: &str) -> String {
    let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if display_width(&sentence) <= SENTENCE {
        return sentence;
    }
    let mut short = String::new();
    for c in sentence.chars() {
        if display_width(&short) + display_width(c.encode_utf8(&mut [0; 4])) >= SENTENCE {
            break;
        }
        short.push(c);
    }
    short + "…"
}
