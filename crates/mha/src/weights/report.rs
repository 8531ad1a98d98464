//! What a checkpoint has, and what became of it, in words.

use std::fmt;

use super::{Error, Layer};
use crate::error::short;
use crate::{Position, RotaryScaling, Rule};

/// What [`Checkpoint::load`](super::Checkpoint::load) did with the tensors below a layer's prefix.
/// None that the module needs is missing, or there would be an error. `Display` prints it.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::MultiHeadAttentionConfig;
/// use mha::weights::{Checkpoint, Family, save};
///
/// let path = std::env::temp_dir().join("mha-doc-report.safetensors");
/// let device = Default::default();
/// let attention = MultiHeadAttentionConfig::new(8, 2).with_bias(false).init::<NdArray>(&device);
/// save(&path, Family::Mha, &[("encoder", &attention)]).unwrap();
///
/// let checkpoint = Checkpoint::open(&path).unwrap();
/// let loaded = checkpoint.load::<NdArray>(&checkpoint.layer("encoder").unwrap(), &device).unwrap();
/// assert_eq!(loaded.report.used.len(), 4);
/// assert!(loaded.report.ignored.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The tensors that parameters were made of.
    pub used: Vec<Used>,
    /// The tensors below the prefix that are no parameter of the module: a norm behind it, a table of
    /// angles.
    pub ignored: Vec<String>,
}

/// A tensor of the file and what it became.
///
/// # Example
///
/// ```
/// use mha::weights::Used;
///
/// /// `in_proj_weight -> query.weight, key.weight, value.weight`
/// fn line(used: &Used) -> String {
///     format!("{} -> {}", used.tensor, used.parameters.join(", "))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Used {
    /// The tensor's name.
    pub tensor: String,
    /// Its shape in the file.
    pub shape: Vec<usize>,
    /// Its element type in the file.
    pub dtype: String,
    /// The module's parameters that it became.
    pub parameters: Vec<&'static str>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.used.iter().map(|used| used.tensor.chars().count()).max().unwrap_or(0);
        for Used { tensor, shape, dtype, parameters } in &self.used {
            let shape = format!("{shape:?}");
            let parameters = parameters.join(", ");
            writeln!(f, "  {tensor:width$}  {dtype:<4} {shape:<16} -> {parameters}")?;
        }
        for name in &self.ignored {
            writeln!(f, "  {name:width$}  ignored")?;
        }
        Ok(())
    }
}

/// What [`Checkpoint::inspect`](super::Checkpoint::inspect) found. `Display` prints all of it.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::MultiHeadAttentionConfig;
/// use mha::weights::{Checkpoint, Family, save};
///
/// let path = std::env::temp_dir().join("mha-doc-inspection.safetensors");
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&Default::default());
/// save(&path, Family::BurnNn, &[("encoder", &attention)]).unwrap();
///
/// // The file does not say how many heads there are.
/// let inspection = Checkpoint::open(&path).unwrap().inspect();
/// assert_eq!(inspection.layers[0].prefix, "encoder");
/// assert!(inspection.layers[0].layer.is_err());
/// println!("{inspection}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The attention layers, in the order of their numbers.
    pub layers: Vec<Inspected>,
    /// The tensors that belong to none.
    pub others: Vec<String>,
}

/// An attention layer as [`Inspection`] has it.
///
/// # Example
///
/// ```
/// use mha::weights::{Inspected, Layer};
///
/// fn loadable(inspected: Vec<Inspected>) -> Vec<Layer> {
///     inspected.into_iter().filter_map(|inspected| inspected.layer.ok()).collect()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// What its tensors' names begin with.
    pub prefix: String,
    /// What it is, or why it cannot be loaded.
    pub layer: Result<Layer, Error>,
    /// What would be loaded where; empty where it cannot be.
    pub report: Report,
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Inspected { prefix, layer, report } in &self.layers {
            match layer {
                Ok(layer) => writeln!(f, "{prefix:?}: {}, {}", layer.family(), sizes(layer))?,
                Err(error) => writeln!(f, "{error}")?,
            }
            write!(f, "{report}")?;
        }
        let ready = self.layers.iter().filter(|inspected| inspected.layer.is_ok()).count();
        let (found, others) = (self.layers.len(), self.others.len());
        write!(f, "{found} attention layers, {ready} of them can be loaded; {others} other tensors")
    }
}

/// A layer's sizes and whatever else is not the usual.
fn sizes(layer: &Layer) -> String {
    let config = layer.config();
    let Ok(widths) = config.widths() else { return String::new() };
    let mut text = format!("d_model {}, n_heads {}", widths.d_model, widths.n_heads);
    let mut also = |name: &str, value: usize, usual: usize| {
        if value != usual {
            text += &format!(", {name} {value}");
        }
    };
    also("n_kv_heads", widths.n_kv_heads, widths.n_heads);
    also("head_dim", widths.head_dim, 0);
    also("value_dim", widths.value_dim, widths.head_dim);
    also("d_key", widths.d_key, widths.d_model);
    also("d_value", widths.d_value, widths.d_model);
    also("d_output", widths.d_output, widths.d_model);
    let position = match &config.position {
        Position::None => String::new(),
        Position::Rotary(rotary) => {
            let width = rotary.width.unwrap_or(widths.head_dim);
            let scaling = match &rotary.scaling {
                RotaryScaling::None => String::new(),
                // Its name alone: some have long lists.
                scaling => {
                    let text = format!("{scaling:?}");
                    let name = text.split([' ', '(', '{']).next().unwrap_or("");
                    format!(", {name}")
                }
            };
            let theta = short(rotary.theta);
            format!(", rotary {:?} of {width}, theta {theta}{scaling}", rotary.layout)
        }
        other => format!(", {other:?}"),
    };
    text += &position;
    if let Some(scale) = config.scale {
        text += &format!(", scale {}", short(scale));
    }
    if let Some(softcap) = config.softcap {
        text += &format!(", softcap {}", short(softcap));
    }
    if let Some((name, _)) = layer.shared_table() {
        text += &format!(", the table is {name}");
    }
    match layer.rule() {
        Some(Rule::Window { left: Some(left), .. }) => {
            text += &format!(", causal in a window of {}", left + 1);
        }
        Some(_) => text += ", causal",
        None => {}
    }
    text
}
