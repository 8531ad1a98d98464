//! The text: read from a file, and its last tenth held out.

use std::{fs, path::Path};

use crate::vocabulary::Vocabulary;

/// The default text: fables and rhymes written for this example.
pub(crate) const FABLES: &str = include_str!("../assets/fables.txt");

/// A text as tokens.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) training: Vec<i32>,
    /// The last tenth, which the model is never trained on.
    pub(crate) validation: Vec<i32>,
}

impl Corpus {
    /// Reads `path`, the default text without one. Each part must hold a context and the character
    /// after it.
    pub(crate) fn read(path: Option<&Path>, context: usize) -> Result<Self, String> {
        let (name, text) = match path {
            Some(path) => (format!("{}", path.display()), read(path)?),
            None => ("the default text".to_string(), FABLES.to_string()),
        };
        let vocabulary = Vocabulary::of(&text);
        let mut training = vocabulary.encode(&text).expect("the text's own characters");
        let length = training.len();
        let held_out = length / 10;
        if held_out <= context {
            return Err(format!(
                "{name} is too short: it has {length} characters, and a context of {context} needs \
                 {} or more, a tenth of which is held out for validation",
                10 * (context + 1)
            ));
        }
        let validation = training.split_off(length - held_out);
        Ok(Self { vocabulary, training, validation })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("cannot read {shown}: {}", error.utf8_error()))?;
    if text.is_empty() { Err(format!("{shown} is empty")) } else { Ok(text) }
}
