//! The article's numbers as NumPy computed them, read from `tests/fixtures`.

use serde::Deserialize;

use crate::numbers::Matrix;

/// What `tests/fixtures/numpy_walkthrough.py` wrote.
#[derive(Debug, Deserialize)]
pub(crate) struct Fixture {
    pub(crate) sentence: String,
    #[serde(rename = "X")]
    pub(crate) x: Matrix,
    #[serde(rename = "W_Q")]
    pub(crate) w_q: Matrix,
    #[serde(rename = "W_K")]
    pub(crate) w_k: Matrix,
    #[serde(rename = "W_V")]
    pub(crate) w_v: Matrix,
    #[serde(rename = "W_O")]
    pub(crate) w_o: Matrix,
    pub(crate) head_counts: Vec<HeadCount>,
}

/// NumPy's attention with one number of heads.
#[derive(Debug, Deserialize)]
pub(crate) struct HeadCount {
    pub(crate) n_heads: usize,
    /// `[n_heads, seq, seq]`
    pub(crate) weights: Vec<Matrix>,
    /// `[seq, d_model]`
    pub(crate) output: Matrix,
}

impl Fixture {
    /// The article's sentence, "far away there is an apple tree".
    pub(crate) const SENTENCE: &str = "远方有颗苹果树";

    /// The fixture, which is compiled into the program.
    pub(crate) fn read() -> Self {
        let json = include_str!("../../tests/fixtures/numpy_walkthrough.json");
        serde_json::from_str(json).expect("the fixture is what the script wrote")
    }
}
