//! The losses of a run, and their picture.

use std::{error::Error, path::Path};

use mha_examples::picture::{self, Curve, CurvesPicture, Panel};

/// Losses in nats per character, each with the number of steps taken before it was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curves {
    pub(crate) training: Vec<(usize, f64)>,
    pub(crate) validation: Vec<(usize, f64)>,
}

impl Curves {
    /// Draws `loss.svg` and `loss.png` in `dir`.
    pub(crate) fn draw(self, dir: &Path, steps: usize) -> Result<(), Box<dyn Error>> {
        let curve = |name: &str, points| Curve { name: name.to_string(), points };
        let picture = CurvesPicture {
            title: "Tiny language model: loss".to_string(),
            steps,
            panels: vec![Panel {
                label: "nats per character".to_string(),
                top: None,
                curves: vec![
                    curve("training", self.training),
                    curve("validation", self.validation),
                ],
            }],
        };
        picture::save(&picture, dir, "loss")
    }
}
