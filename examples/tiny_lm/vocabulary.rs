//! The characters that the model knows; each is a token.

use serde::{Deserialize, Serialize};

/// The characters in the order of their code points; a token is a place among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct Vocabulary {
    characters: Vec<char>,
}

impl Vocabulary {
    /// The characters of `text`.
    pub(crate) fn of(text: &str) -> Self {
        let mut characters: Vec<_> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Self { characters }
    }

    pub(crate) fn len(&self) -> usize {
        self.characters.len()
    }

    /// The tokens of `text`, or its first character that has none.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<i32>, char> {
        let token = |c| self.characters.binary_search(&c).map(|token| token as i32).map_err(|_| c);
        text.chars().map(token).collect()
    }

    pub(crate) fn decode(&self, tokens: &[i32]) -> String {
        tokens.iter().map(|&token| self.characters[token as usize]).collect()
    }

    /// The tokens of a prompt, which must have some.
    pub(crate) fn encode_prompt(&self, prompt: &str) -> Result<Vec<i32>, String> {
        if prompt.is_empty() {
            return Err("the prompt is empty: the model needs a character to go on from".into());
        }
        self.encode(prompt).map_err(|c| {
            format!("the prompt has the character {c:?}, which the model's text does not have")
        })
    }

    /// A prompt for whoever gives none: the beginning of a line.
    pub(crate) fn default_prompt(&self) -> String {
        let begin = self.characters.contains(&'\n').then_some('\n');
        begin.or(self.characters.first().copied()).into_iter().collect()
    }
}

impl From<String> for Vocabulary {
    fn from(characters: String) -> Self {
        Self::of(&characters)
    }
}

impl From<Vocabulary> for String {
    fn from(vocabulary: Vocabulary) -> Self {
        vocabulary.characters.into_iter().collect()
    }
}
