//! What `--only` asks for.

use crate::{case::Case, implementation::Implementation};

/// Texts of which one must fit, if there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Only(Vec<String>);

impl Only {
    pub(crate) fn new(texts: &[String]) -> Self {
        Self(texts.to_vec())
    }

    /// Whether all words of one text are in the name, such as `mha-flex 1x4096 forward full`.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let fits = |text: &String| text.split_whitespace().all(|word| name.contains(word));
        self.0.is_empty() || self.0.iter().any(fits)
    }

    pub(crate) fn measures(&self, implementation: Implementation, case: &Case) -> bool {
        self.fits(&format!("{} {case}", implementation.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_of_one_text_fit() {
        let only = Only::new(&["torch 1x4096".into(), "decode".into()]);
        assert!(only.fits("torch 1x4096 forward full"));
        assert!(only.fits("mha-flex 1x512 decode"));
        assert!(!only.fits("torch 1x1024 forward full"));
        assert!(Only::default().fits("anything"));
    }
}
