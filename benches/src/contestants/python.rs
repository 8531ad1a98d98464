//! A library for Python, in a process of its own.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Contestant, Tokens,
    child::{Measured, PythonChild},
};
use crate::{
    case::Case, data, implementation::Implementation, memory, scratch::Scratch, step::Part,
    turn::Turn,
};

pub(super) struct Python<'a> {
    implementation: Implementation,
    python: &'a Path,
    threads: usize,
    scratch: &'a Scratch,
    child: PythonChild,
    /// What was fastest in each case.
    variants: Vec<(Case, Value)>,
}

impl<'a> Python<'a> {
    pub(super) fn start(
        implementation: Implementation,
        python: &'a Path,
        threads: usize,
        scratch: &'a Scratch,
    ) -> Result<Self, String> {
        let child = PythonChild::start(implementation, python, threads, scratch, Measured::Time)?;
        Ok(Self { implementation, python, threads, scratch, child, variants: Vec::new() })
    }

    fn variant(&self, case: &Case) -> Value {
        let known = self.variants.iter().find(|(known, _)| known == case);
        known.map_or(Value::Null, |(_, variant)| variant.clone())
    }
}

impl Contestant for Python<'_> {
    fn implementation(&self) -> Implementation {
        self.implementation
    }

    fn version(&self) -> Option<&str> {
        Some(&self.child.version)
    }

    fn prepare(&mut self, case: &Case, tokens: &Tokens) -> Result<(), String> {
        let variant = self.child.prepare(case, tokens.file, &Value::Null)?;
        self.variants.push((*case, variant));
        Ok(())
    }

    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String> {
        self.child.process.take_turn(turn)
    }

    fn outcome(&mut self) -> Result<Vec<Part>, String> {
        let file = self.scratch.file("outcome.f32");
        let reply = self.child.process.ask(&json!({"do": "outcome", "file": file}))?;
        let parts: Vec<(String, usize)> = serde_json::from_value(reply["parts"].clone())
            .map_err(|error| format!("its parts are none: {error}"))?;
        let values = data::read_floats(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut values = values.into_iter();
        let part = |(name, n)| Part::new(name, values.by_ref().take(n).collect());
        Ok(parts.into_iter().map(part).collect())
    }

    fn release(&mut self) {
        // What it could answer is of no use to anyone.
        let _ = self.child.process.ask(&json!({"do": "release"}));
    }

    fn peak_mb(&mut self, case: &Case) -> Result<f64, String> {
        let Self { implementation, python, threads, scratch, .. } = *self;
        let variant = self.variant(case);
        let mut child =
            PythonChild::start(implementation, python, threads, scratch, Measured::Memory)?;
        let once = Turn { seconds: 0.0, runs: 1 };
        let small = memory::warm_up_case(case);
        child.prepare(&small, &scratch.write_tokens(&small)?, &variant)?;
        child.process.take_turn(once)?;
        child.prepare(case, &scratch.write_tokens(case)?, &variant)?;
        let reply = child.process.ask(&json!({"do": "peak"}))?;
        reply["peak_mb"].as_f64().ok_or_else(|| "its peak is no number".into())
    }
}
