//! A layer as the tensors of its file: their names and shapes, and which of their elements each of our
//! parameters has. Both directions follow from it.

use super::Error;
use super::form::{Axes, Form, Order, Pack, Part};
use crate::position::Position;
use crate::widths::Widths;
use crate::{Gate, MultiHeadAttentionConfig, QkNorm, RotaryLayout, Sink};

/// One tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    /// Below the layer's prefix.
    pub(crate) name: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) axes: Vec<&'static str>,
    /// Whether features are its rows, not its columns.
    pub(crate) features_first: bool,
    pub(crate) pieces: Vec<Piece>,
    /// What is added to each element of the file: 1 where a norm's factor is stored less 1.
    pub(crate) shift: f64,
}

/// What one of our parameters has of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    /// The parameter's path in the module.
    pub(crate) parameter: &'static str,
    pub(crate) shape: Vec<usize>,
    /// The place among the tensor's features of each of ours.
    pub(crate) features: Vec<usize>,
}

impl Source {
    /// Features of all pieces.
    pub(crate) fn n_features(&self) -> usize {
        self.pieces.iter().map(|piece| piece.features.len()).sum()
    }
}

/// What a layer's tensors are besides what its configuration says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Habits {
    /// Whether factors of norms are stored less 1.
    pub(crate) zero_centred: bool,
    /// Which channels turn together as they are stored; where the module has others, they move.
    pub(crate) layout: Option<RotaryLayout>,
}

/// The tensors in which `form` stores a module of this configuration.
pub(crate) fn sources(
    form: &Form,
    config: &MultiHeadAttentionConfig,
    habits: Habits,
    prefix: &str,
) -> Result<Vec<Source>, Error> {
    let refused = |error| Error::Config { prefix: prefix.to_string(), error: Box::new(error) };
    let widths = config.widths().map_err(refused)?;
    config.check(widths.head_dim).map_err(refused)?;
    let stored = Stored { form, config, widths, habits };
    let mut sources = stored.projections()?;
    sources.extend(stored.others()?);
    stored.nothing_left_over(&sources)?;
    Ok(sources)
}

struct Stored<'a> {
    form: &'a Form,
    config: &'a MultiHeadAttentionConfig,
    widths: Widths,
    habits: Habits,
}

impl Stored<'_> {
    fn projections(&self) -> Result<Vec<Source>, Error> {
        let mut sources = Vec::new();
        for (packs, bias) in [(self.form.weights, false), (self.form.biases, true)] {
            for pack in packs {
                let there = pack.parts.iter().filter(|part| self.has(**part, bias)).count();
                if there == 0 {
                    continue;
                }
                if there < pack.parts.len() || !self.fit_together(pack, bias) {
                    let what = format!("projections that do not fit together in {}", pack.name);
                    return Err(Error::NoPlace { family: self.form.family, what });
                }
                sources.push(self.pack(pack, bias));
            }
        }
        Ok(sources)
    }

    /// Whether the module has this projection, or its bias.
    fn has(&self, part: Part, bias: bool) -> bool {
        let biases = self.config.bias;
        match part {
            Part::Gate => self.config.gate != Gate::None && (!bias || biases.gate),
            Part::Query => !bias || biases.query,
            Part::Key => !bias || biases.key,
            Part::Value => !bias || biases.value,
            Part::Output => !bias || biases.output,
        }
    }

    /// Whether the parts of a pack take the same tokens, and have as many heads if they lie head by head.
    fn fit_together(&self, pack: &Pack, bias: bool) -> bool {
        let first = self.shape(pack.parts[0]);
        pack.parts.iter().map(|&part| self.shape(part)).all(|shape| {
            (bias || shape.d_input == first.d_input)
                && (self.form.order == Order::Blocks || shape.heads == first.heads)
        })
    }

    fn pack(&self, pack: &Pack, bias: bool) -> Source {
        let parts: Vec<_> = pack.parts.iter().map(|&part| (part, self.shape(part))).collect();
        let total: usize = parts.iter().map(|(_, shape)| shape.features()).sum();
        let mut before = 0;
        let mut pieces = Vec::new();
        for &(part, shape) in &parts {
            let places = (0..shape.features()).map(|feature| match self.form.order {
                Order::Blocks => before + feature,
                Order::PerHead => {
                    let stride = total / shape.heads;
                    feature / shape.width * stride + before / shape.heads + feature % shape.width
                }
            });
            let features = self.turned(part, shape.width, places.collect());
            let d_input = shape.d_input;
            let shape = if bias { vec![features.len()] } else { vec![d_input, features.len()] };
            pieces.push(Piece { parameter: path(part, bias), shape, features });
            before += pieces[pieces.len() - 1].features.len();
        }
        let (shape, axes) = self.stored_shape(parts[0].1, total, pack.parts[0], bias);
        let features_first = bias || self.form.axes == Axes::OutIn;
        Source { name: pack.name, shape, axes, features_first, pieces, shift: 0.0 }
    }

    /// The shape of a projection: its heads, and the features of each.
    fn shape(&self, part: Part) -> Projection {
        let Widths { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.widths;
        let [query, key, value, output] = self.widths.projections();
        let shape = |d_input, heads, width| Projection { d_input, heads, width };
        match part {
            Part::Query => shape(query[0], n_heads, head_dim),
            Part::Key => shape(key[0], n_kv_heads, head_dim),
            Part::Value => shape(value[0], n_kv_heads, value_dim),
            Part::Output => shape(output[0], 1, output[1]),
            Part::Gate => match self.config.gate {
                Gate::PerHead => shape(query[0], n_heads, 1),
                _ => shape(query[0], n_heads, value_dim),
            },
        }
    }

    fn stored_shape(
        &self,
        projection: Projection,
        total: usize,
        part: Part,
        bias: bool,
    ) -> (Vec<usize>, Vec<&'static str>) {
        let Projection { d_input, heads, width } = projection;
        match (self.form.axes, bias, part) {
            (Axes::Heads, true, Part::Output) => (vec![total], vec!["d_output"]),
            (Axes::Heads, true, _) => (vec![heads, width], vec!["heads", "head_dim"]),
            (Axes::Heads, false, Part::Output) => {
                let Widths { n_heads, value_dim, .. } = self.widths;
                (vec![n_heads, value_dim, total], vec!["heads", "head_dim", "d_output"])
            }
            (Axes::Heads, false, _) => {
                (vec![d_input, heads, width], vec!["d_input", "heads", "head_dim"])
            }
            (_, true, _) => (vec![total], vec!["features"]),
            (Axes::OutIn, false, _) => (vec![total, d_input], vec!["features", "d_input"]),
            (Axes::InOut, false, _) => (vec![d_input, total], vec!["d_input", "features"]),
        }
    }

    /// The places of a projection's features once its rotary pairs lie as the module wants them.
    fn turned(&self, part: Part, width: usize, places: Vec<usize>) -> Vec<usize> {
        if !matches!(part, Part::Query | Part::Key) {
            return places;
        }
        let Position::Rotary(rotary) = &self.config.position else { return places };
        let turning = rotary.width.unwrap_or(width);
        let Some(stored) = self.habits.layout.filter(|stored| *stored != rotary.layout) else {
            return places;
        };
        let within = |channel: usize| match stored {
            _ if channel >= turning => channel,
            // Ours is half: channel i is the stored channel 2i, channel i + turning / 2 is 2i + 1.
            RotaryLayout::Interleaved => {
                let (side, pair) = (channel / (turning / 2), channel % (turning / 2));
                2 * pair + side
            }
            // Ours is interleaved: the other way round.
            RotaryLayout::Half => channel % 2 * (turning / 2) + channel / 2,
        };
        let from = |feature: usize| feature / width * width + within(feature % width);
        (0..places.len()).map(|feature| places[from(feature)]).collect()
    }

    /// Parameters that are no projection.
    fn others(&self) -> Result<Vec<Source>, Error> {
        let mut sources = Vec::new();
        for &(name, parameter) in self.form.others {
            let Some(ours) = self.other(parameter) else { continue };
            let pytorch_memory = matches!(parameter, "bias_k" | "bias_v")
                && self.form.family == super::Family::PyTorch;
            let mut stored = Source {
                name,
                shape: ours.clone(),
                axes: axes_of(parameter),
                features_first: false,
                pieces: Vec::new(),
                shift: 0.0,
            };
            let width = ours[ours.len() - 1];
            let mut features: Vec<usize> = (0..width).collect();
            if parameter.ends_with("gamma") || parameter.ends_with("beta") {
                features = self.turned(Part::Query, width, features);
                stored.shift = if self.habits.zero_centred { 1.0 } else { 0.0 };
            }
            if pytorch_memory {
                if ours[0] != 1 {
                    let what = format!("{} learned keys, one alone", ours[0]);
                    return Err(Error::NoPlace { family: self.form.family, what });
                }
                stored.shape.insert(0, 1);
                stored.axes.insert(0, "1");
            }
            stored.pieces.push(Piece { parameter, shape: ours, features });
            sources.push(stored);
        }
        Ok(sources)
    }

    /// The shape of a parameter that is no projection, if the module has it.
    fn other(&self, parameter: &str) -> Option<Vec<usize>> {
        let Widths { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.widths;
        let slots = self.config.bias_kv;
        let shift = matches!(self.config.qk_norm, Some(QkNorm::Layer { .. }));
        match parameter {
            "query_norm.gamma" | "key_norm.gamma" => self.config.qk_norm.map(|_| vec![head_dim]),
            "query_norm.beta" | "key_norm.beta" => shift.then(|| vec![head_dim]),
            "bias_k" => (slots > 0).then(|| vec![slots, n_kv_heads * head_dim]),
            "bias_v" => (slots > 0).then(|| vec![slots, n_kv_heads * value_dim]),
            "relative_bias" => match self.config.position {
                Position::T5(buckets) => Some(vec![buckets.n_buckets, n_heads]),
                _ => None,
            },
            "sinks" => (self.config.sink == Sink::Learned).then(|| vec![n_heads]),
            _ => None,
        }
    }

    /// Whether every parameter of the module has found a place.
    fn nothing_left_over(&self, sources: &[Source]) -> Result<(), Error> {
        let placed = |parameter: &str| {
            sources
                .iter()
                .flat_map(|source| &source.pieces)
                .any(|piece| piece.parameter == parameter)
        };
        let projections = PATHS.iter().flat_map(|&(part, weight, bias)| {
            [(weight, self.has(part, false)), (bias, self.has(part, true))]
        });
        let projections =
            projections.filter(|&(name, has)| has && !placed(name)).map(|(name, _)| name);
        let others = OTHERS.into_iter().filter(|name| self.other(name).is_some() && !placed(name));
        match projections.chain(others).next() {
            Some(name) => Err(Error::NoPlace { family: self.form.family, what: name.to_string() }),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Projection {
    d_input: usize,
    heads: usize,
    width: usize,
}

impl Projection {
    fn features(self) -> usize {
        self.heads * self.width
    }
}

const PATHS: [(Part, &str, &str); 5] = [
    (Part::Query, "query.weight", "query.bias"),
    (Part::Key, "key.weight", "key.bias"),
    (Part::Value, "value.weight", "value.bias"),
    (Part::Output, "output.weight", "output.bias"),
    (Part::Gate, "gate.weight", "gate.bias"),
];

const OTHERS: [&str; 8] = [
    "query_norm.gamma",
    "query_norm.beta",
    "key_norm.gamma",
    "key_norm.beta",
    "bias_k",
    "bias_v",
    "relative_bias",
    "sinks",
];

fn path(part: Part, bias: bool) -> &'static str {
    let (_, weight, name) = PATHS[part as usize];
    if bias { name } else { weight }
}

fn axes_of(parameter: &str) -> Vec<&'static str> {
    match parameter {
        "bias_k" | "bias_v" => vec!["bias_kv", "features"],
        "relative_bias" => vec!["n_buckets", "n_heads"],
        "sinks" => vec!["n_heads"],
        _ => vec!["head_dim"],
    }
}
