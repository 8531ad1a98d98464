//! Results against those of a fixture.

use burn::tensor::{Tensor, backend::Backend};
use mha_examples::columns::aligned;
use mha_tests::{floats, largest, max_error};

use crate::fixture::{Fixture, Stored};

/// What a result may be off by, for numbers of about 1: their own library computed in f64 and stored f32,
/// ours computes in f32.
const ALLOWED: f64 = 1e-5;

/// One result and how far it is off.
#[derive(Debug)]
struct Difference {
    name: String,
    largest: f64,
    allowed: f64,
}

impl Difference {
    /// NaN passes nothing.
    fn passes(&self) -> bool {
        self.largest <= self.allowed
    }
}

/// All results that were compared.
#[derive(Debug)]
pub(crate) struct Differences<'a> {
    fixture: &'a Fixture,
    all: Vec<Difference>,
}

impl<'a> Differences<'a> {
    pub(crate) fn from(fixture: &'a Fixture) -> Self {
        Self { fixture, all: Vec::new() }
    }

    /// Compares a tensor with the fixture's, if that has one.
    pub(crate) fn tensor<B: Backend, const D: usize>(
        &mut self,
        name: &str,
        stored: &str,
        ours: Tensor<B, D>,
    ) -> Result<(), String> {
        let dims = ours.dims();
        self.numbers(name, stored, &dims, &floats(ours), 0.0)
    }

    /// Compares numbers, each of which may have been rounded by so much of itself besides.
    pub(crate) fn numbers(
        &mut self,
        name: &str,
        stored: &str,
        shape: &[usize],
        ours: &[f32],
        rounding: f64,
    ) -> Result<(), String> {
        let Some(Stored { shape: theirs, numbers }) = self.fixture.stored(stored)? else {
            return Ok(());
        };
        if theirs != shape || numbers.len() != ours.len() {
            let wrong = format_args!("{stored}: expected shape {shape:?}, got {theirs:?}");
            return Err(self.fixture.wrong(wrong));
        }
        let scale = largest(&numbers).max(1.0);
        self.all.push(Difference {
            name: name.to_string(),
            largest: max_error(ours, &numbers),
            allowed: (ALLOWED + rounding) * scale,
        });
        Ok(())
    }

    /// Whether all are within what is allowed.
    pub(crate) fn pass(&self) -> bool {
        self.all.iter().all(Difference::passes)
    }

    /// A line for each, and what follows from them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let head = ["", "largest difference", "allowed", ""].map(String::from).to_vec();
        let row = |difference: &Difference| {
            let Difference { name, largest, allowed } = difference;
            let remark = if difference.passes() { "" } else { "differs" };
            vec![name.clone(), format!("{largest:.1e}"), format!("{allowed:.1e}"), remark.into()]
        };
        let rows: Vec<_> = std::iter::once(head).chain(self.all.iter().map(row)).collect();
        let mut lines = aligned(&rows);
        let wrong = self.all.iter().filter(|difference| !difference.passes()).count();
        lines.push(match wrong {
            0 => format!("verified: {} results", self.all.len()),
            _ => format!("differs: {wrong} of {} results", self.all.len()),
        });
        lines
    }
}
