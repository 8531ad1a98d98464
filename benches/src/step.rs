//! One implementation, ready to do one case again and again.

/// A case that is prepared: weights and tokens are there.
pub(crate) trait Step {
    /// Does it once and says how many seconds that took, without what it needs before or after.
    fn run(&mut self) -> Result<f64, String>;

    /// Does it once and hands over what it computed.
    fn outcome(&mut self) -> Result<Vec<Part>, String>;
}

/// A tensor that two implementations must agree on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// `output`, or whose gradient it is: `input`, `query.weight`.
    pub(crate) name: String,
    pub(crate) values: Vec<f32>,
}

impl Part {
    pub(crate) fn new(name: impl Into<String>, values: Vec<f32>) -> Self {
        Self { name: name.into(), values }
    }
}
