//! Rotary positions as a config.json says them.

use serde_json::Value;

use super::Error;
use super::model::{Field, Model, Place};
use crate::{Rotary, RotaryLayout, RotaryScaling, Yarn};

/// The rotary positions of a layer. `transformers` 5 has all in `rope_parameters`, for each kind of
/// layer where they differ; before, the base was a field of its own and `rope_scaling` had the rest;
/// Meta's params.json has other names.
pub(super) fn rotary(
    model: &Model,
    at: Place<'_>,
    layout: RotaryLayout,
    head_dim: usize,
) -> Result<Rotary, Error> {
    let rope = Rope { model, at, parameters: parameters(model, at) };
    let theta = rope.number(&["rope_theta", "rotary_emb_base"])?.unwrap_or(10_000.0);
    let mut rotary = match layout {
        RotaryLayout::Half => Rotary::half(theta),
        RotaryLayout::Interleaved => Rotary::interleaved(theta),
    };
    rotary.width = rope.width(head_dim)?;
    let width = rotary.width.unwrap_or(head_dim);
    rotary.scaling = rope.scaling(width)?;
    Ok(rotary)
}

/// The object that has the parameters, if there is one.
fn parameters<'a>(model: &'a Model, at: Place<'_>) -> Option<Field<'a>> {
    let field = model.get(at, &["rope_parameters", "rope_scaling"])?;
    let own = model.layer_type(at).and_then(|kind| field.value.get(kind));
    Some(Field { value: own.unwrap_or(field.value), ..field })
}

struct Rope<'a> {
    model: &'a Model,
    at: Place<'a>,
    parameters: Option<Field<'a>>,
}

impl Rope<'_> {
    /// The first of these fields, among the parameters or else in the model.
    fn get(&self, fields: &[&'static str]) -> Option<Field<'_>> {
        let inside = fields.iter().find_map(|&name| {
            let value = self.parameters?.value.get(name).filter(|value| !value.is_null())?;
            Some(Field { name, value })
        });
        inside.or_else(|| self.model.get(self.at, fields))
    }

    fn number(&self, fields: &[&'static str]) -> Result<Option<f64>, Error> {
        self.get(fields).map(|field| field.number()).transpose()
    }

    fn count(&self, field: &'static str) -> Result<Option<usize>, Error> {
        self.get(&[field]).map(|field| field.count()).transpose()
    }

    /// A number among the parameters alone, which has to be there.
    fn needed(&self, name: &'static str) -> Result<f64, Error> {
        match self.get(&[name]) {
            Some(field) => field.number(),
            None => Err(self.missing(name)),
        }
    }

    fn missing(&self, name: &'static str) -> Error {
        Field { name, value: &Value::Null }.wrong("a number, as its rope_type asks for")
    }

    /// How many channels turn, if not all.
    fn width(&self, head_dim: usize) -> Result<Option<usize>, Error> {
        if let Some(width) = self.count("rotary_dim")? {
            return Ok((width != head_dim).then_some(width));
        }
        let share = self.number(&["partial_rotary_factor", "rotary_pct"])?.unwrap_or(1.0);
        let width = (head_dim as f64 * share) as usize;
        Ok((width != head_dim).then_some(width))
    }

    fn scaling(&self, width: usize) -> Result<RotaryScaling, Error> {
        if self
            .model
            .get(self.at, &["use_scaled_rope"])
            .is_some_and(|f| f.value == &Value::Bool(true))
        {
            // Meta's code has these numbers, its params.json has not.
            let (low, high) = (1.0, 4.0);
            let factor = self.number(&["rope_scaling_factor"])?.unwrap_or(8.0);
            return Ok(RotaryScaling::Llama3 { factor, low, high, original_length: 8192 });
        }
        let Some(kind) = self.get(&["rope_type", "type"]) else { return Ok(RotaryScaling::None) };
        if self.parameters.is_none() {
            return Ok(RotaryScaling::None);
        }
        let max_length = self.count("max_position_embeddings")?;
        let original = match self.count("original_max_position_embeddings")? {
            None => max_length,
            original => original,
        };
        let original = || original.ok_or_else(|| self.missing("max_position_embeddings"));
        match kind.value.as_str() {
            Some("default") => Ok(RotaryScaling::None),
            Some("linear") => Ok(RotaryScaling::Linear { factor: self.needed("factor")? }),
            Some("dynamic") => Ok(RotaryScaling::DynamicNtk {
                factor: self.needed("factor")?,
                original_length: max_length.map_or_else(original, Ok)?,
            }),
            Some("llama3") => Ok(RotaryScaling::Llama3 {
                factor: self.needed("factor")?,
                low: self.needed("low_freq_factor")?,
                high: self.needed("high_freq_factor")?,
                original_length: original()?,
            }),
            Some("yarn") => self.yarn(original()?).map(RotaryScaling::Yarn),
            Some("longrope" | "su") => self.long_rope(width, original()?, max_length),
            _ => Err(kind.wrong("default, linear, dynamic, llama3, yarn or longrope")),
        }
    }

    fn yarn(&self, original_length: usize) -> Result<Yarn, Error> {
        let factor = self.needed("factor")?;
        let mut yarn = Yarn::new(factor, original_length);
        if let Some(turns) = self.number(&["beta_fast"])? {
            yarn = yarn.with_beta_fast(turns);
        }
        if let Some(turns) = self.number(&["beta_slow"])? {
            yarn = yarn.with_beta_slow(turns);
        }
        if let Some(field) = self.get(&["truncate"]) {
            yarn = yarn
                .with_truncate(field.value.as_bool().ok_or_else(|| field.wrong("true or false"))?);
        }
        // Outside DeepSeek's own attention these two only set the factor.
        let growth = |share: f64| if factor > 1.0 { 0.1 * share * factor.ln() + 1.0 } else { 1.0 };
        let both = (self.number(&["mscale"])?, self.number(&["mscale_all_dim"])?);
        yarn.attention_factor = match (self.number(&["attention_factor"])?, both) {
            (None, (Some(a), Some(b))) if a != 0.0 && b != 0.0 => Some(growth(a) / growth(b)),
            (given, _) => given,
        };
        Ok(yarn)
    }

    fn long_rope(
        &self,
        width: usize,
        original_length: usize,
        max_length: Option<usize>,
    ) -> Result<RotaryScaling, Error> {
        let divisors = |name| {
            let field = self.get(&[name]).ok_or_else(|| self.missing(name))?;
            let numbers = field.value.as_array().filter(|numbers| numbers.len() == width / 2);
            let wrong = || field.wrong(&format!("{} numbers", width / 2));
            let numbers: Option<Vec<f64>> =
                numbers.ok_or_else(wrong)?.iter().map(Value::as_f64).collect();
            numbers.ok_or_else(wrong)
        };
        let factor = self.number(&["factor"])?;
        let stretched = factor.map(|factor| (factor * original_length as f64).round() as usize);
        let max_length = stretched.or(max_length).unwrap_or(original_length).max(original_length);
        Ok(RotaryScaling::LongRope {
            short: divisors("short_factor")?,
            long: divisors("long_factor")?,
            original_length,
            max_length,
        })
    }
}
