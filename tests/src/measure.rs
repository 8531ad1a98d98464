//! How far a result is off, and how far it may be.

/// The error of one result beside that of the textbook formula.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What was computed: "context", "gradient of query.weight", ...
    pub name: String,
    /// The largest difference from the exact result. NaN if there is one; infinite where the result
    /// is missing, or finite where the exact one is not.
    pub error: f64,
    /// That of the textbook formula in f32.
    pub textbook: f64,
    /// One rounding of a number of its size: where the textbook is exact by luck, an error all the
    /// same.
    pub rounding: f64,
}

impl Measure {
    /// How many times the textbook formula's error an error may be, give or take a rounding.
    pub const ALLOWED: f64 = 2.0;

    /// The measure of a result that is not there.
    pub fn missing(name: impl Into<String>) -> Self {
        Self { name: name.into(), error: f64::INFINITY, textbook: 0.0, rounding: 0.0 }
    }

    /// The largest error that passes.
    pub fn allowed(&self) -> f64 {
        Self::ALLOWED * self.textbook + self.rounding
    }

    /// Whether the error is finite and at most [`allowed`](Self::allowed).
    pub fn passes(&self) -> bool {
        self.error.is_finite() && self.error <= self.allowed()
    }

    /// The error over the textbook formula's and half a rounding, which is at most
    /// [`ALLOWED`](Self::ALLOWED) exactly where the measure passes.
    pub fn times(&self) -> f64 {
        if self.error == 0.0 {
            return 0.0;
        }
        self.error / (self.textbook + self.rounding / Self::ALLOWED)
    }

    /// Nothing, or in words what is wrong.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        if self.passes() {
            return Ok(());
        }
        let Self { error, textbook, rounding, .. } = self;
        Err(format!(
            "error {error:e}, of the textbook formula {textbook:e}, one rounding {rounding:e}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_textbook_and_a_rounding_is_two_times() {
        let measure =
            |error| Measure { error, textbook: 3.0, rounding: 1.0, ..Measure::missing("") };
        assert_eq!((measure(7.0).allowed(), measure(7.0).times()), (7.0, 2.0));
        for (error, passes) in [(0.0, true), (7.0, true), (7.01, false), (f64::NAN, false)] {
            assert_eq!(measure(error).passes(), passes, "{error}");
            assert_eq!(measure(error).times() <= Measure::ALLOWED, passes, "{error}");
            assert_eq!(measure(error).verdict().is_ok(), passes, "{error}");
        }
        assert!(!Measure::missing("x").passes());
        let exact = Measure { error: 0.0, ..Measure::missing("x") };
        assert_eq!((exact.passes(), exact.times()), (true, 0.0)); // where all is 0
    }
}
