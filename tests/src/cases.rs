//! The table of cases that runs on every path and backend.

use burn::tensor::{Bool, Tensor, backend::Backend};
use mha::oracle::{Attention, Sizes};
use mha::{AttentionOptions, MhaInput, MultiHeadAttentionConfig};

use crate::{bools, coins, numbers, tensor};

/// A dense mask with a share of hidden pairs, given in this shape (axes of 1 are broadcast).
#[derive(Debug, Clone, Copy)]
pub struct Mask<const D: usize> {
    /// Its shape.
    pub dims: [usize; D],
    /// How many of a hundred are hidden.
    pub percent: u64,
}

/// One attention problem: sizes and what the call brings.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the case is about.
    pub name: &'static str,
    /// The sizes of the problem.
    pub sizes: Sizes,
    /// For a module: `d_model`, `d_key`, `d_value` and `d_output`; all heads together if not given.
    pub widths: Option<[usize; 4]>,
    /// In place of 1/√head_dim.
    pub scale: Option<f64>,
    /// The cap of the scaled scores.
    pub softcap: Option<f64>,
    /// Key padding: `[batch, seq_k]`.
    pub pad: Option<Mask<2>>,
    /// Pairs: `[batch, seq_q, seq_k]`.
    pub attn: Option<Mask<3>>,
    /// Pairs of each head: `[batch, n_heads, seq_q, seq_k]`.
    pub heads: Option<Mask<4>>,
    /// The shape of an additive bias.
    pub bias: Option<[usize; 4]>,
    /// The causal rule.
    pub causal: bool,
    /// A key of score 0 and value 0 in every softmax.
    pub quiet_softmax: bool,
    /// Seed and probability of dropout.
    pub dropout: Option<(u64, f64)>,
}

/// The table. Sizes all differ, so that no two axes can be confused unnoticed.
pub fn cases() -> Vec<Case> {
    let sizes = |[batch, n_heads, seq_q, seq_k, head_dim, value_dim]: [usize; 6]| Sizes {
        batch,
        n_heads,
        n_kv_heads: n_heads,
        seq_q,
        seq_k,
        head_dim,
        value_dim,
    };
    let plain = |name, all| Case {
        name,
        sizes: sizes(all),
        widths: None,
        scale: None,
        softcap: None,
        pad: None,
        attn: None,
        heads: None,
        bias: None,
        causal: false,
        quiet_softmax: false,
        dropout: None,
    };
    // Query heads in groups, each group with one key head.
    let grouped = |name, all: [usize; 6], n_kv_heads| {
        let case: Case = plain(name, all);
        Case { sizes: Sizes { n_kv_heads, ..case.sizes }, ..case }
    };
    let base = [2, 3, 5, 7, 11, 13];
    let six_heads = [2, 6, 5, 7, 11, 13];
    let pad = Some(Mask { dims: [2, 7], percent: 30 });
    let attn = Some(Mask { dims: [2, 5, 7], percent: 40 });
    vec![
        plain("no mask", base),
        plain("one of everything", [1; 6]),
        plain("one query", [3, 2, 1, 19, 5, 7]),
        plain("one key", [3, 2, 17, 1, 5, 7]),
        plain("longer", [1, 2, 67, 129, 23, 17]),
        Case { pad, ..plain("padding", base) },
        Case { pad: Some(Mask { dims: [2, 7], percent: 100 }), ..plain("all padding", base) },
        Case { attn, ..plain("pairs", base) },
        Case { attn: Some(Mask { dims: [1, 5, 7], percent: 60 }), ..plain("pairs, batch 1", base) },
        Case { attn: Some(Mask { dims: [2, 1, 7], percent: 30 }), ..plain("pairs, query 1", base) },
        Case { attn: Some(Mask { dims: [2, 5, 1], percent: 50 }), ..plain("pairs, key 1", base) },
        Case {
            heads: Some(Mask { dims: [2, 3, 5, 7], percent: 80 }),
            ..plain("pairs of heads, many empty rows", base)
        },
        Case {
            heads: Some(Mask { dims: [1, 3, 1, 7], percent: 40 }),
            ..plain("pairs of heads, batch and query 1", base)
        },
        Case { causal: true, ..plain("causal, more keys", base) },
        Case { causal: true, ..plain("causal, more queries", [2, 3, 7, 5, 11, 13]) },
        Case { causal: true, ..plain("causal, square", [2, 3, 7, 7, 11, 13]) },
        Case { bias: Some([2, 3, 5, 7]), ..plain("bias", base) },
        Case { bias: Some([1, 3, 5, 7]), ..plain("bias, batch 1", base) },
        Case { bias: Some([2, 1, 1, 7]), ..plain("bias, head and query 1", base) },
        Case { quiet_softmax: true, ..plain("quiet", base) },
        Case { quiet_softmax: true, attn, ..plain("quiet, pairs", base) },
        Case { dropout: Some((7, 0.3)), ..plain("dropout", base) },
        Case {
            pad,
            attn,
            heads: Some(Mask { dims: [1, 3, 5, 7], percent: 20 }),
            bias: Some([1, 3, 5, 7]),
            causal: true,
            quiet_softmax: true,
            dropout: Some((11, 0.1)),
            ..plain("everything at once", base)
        },
        Case {
            pad,
            causal: true,
            bias: Some([1, 3, 1, 7]),
            ..plain("padding, causal, bias", base)
        },
        Case { scale: Some(0.1), ..plain("scale", base) },
        Case { scale: Some(0.0), ..plain("scale 0", base) },
        Case { scale: Some(-0.3), attn, ..plain("negative scale, pairs", base) },
        Case { softcap: Some(0.7), ..plain("softcap", base) },
        Case {
            scale: Some(1.0),
            softcap: Some(2.0),
            bias: Some([2, 3, 5, 7]),
            causal: true,
            ..plain("scale, softcap, bias, causal", base)
        },
        grouped("grouped heads", six_heads, 2),
        grouped("one key head", six_heads, 1),
        Case { pad, causal: true, ..grouped("grouped, padding, causal", six_heads, 3) },
        Case {
            heads: Some(Mask { dims: [2, 6, 5, 7], percent: 70 }),
            bias: Some([1, 6, 5, 7]),
            softcap: Some(1.5),
            quiet_softmax: true,
            dropout: Some((13, 0.2)),
            ..grouped("grouped, everything", six_heads, 2)
        },
        Case { widths: Some([9, 10, 14, 15]), ..plain("free widths", base) },
        Case {
            pad,
            widths: Some([9, 10, 14, 15]),
            ..grouped("free widths, grouped", six_heads, 2)
        },
    ]
}

/// The setters that the function's options and the module's input have in common.
macro_rules! set_options {
    ($case:expr, $target:ident, $bias:ident) => {
        if let Some(mask) = $case.pad {
            $target = $target.mask_pad(mask.tensor());
        }
        if let Some(mask) = $case.attn {
            $target = $target.mask_attn(mask.tensor());
        }
        if let Some(mask) = $case.heads {
            $target = $target.mask_attn_heads(mask.tensor());
        }
        if $case.causal {
            $target = $target.causal();
        }
        if let Some(bias) = &$bias {
            $target = $target.bias(bias.clone());
        }
        if let Some((seed, _)) = $case.dropout {
            $target = $target.dropout_seed(seed);
        }
    };
}

impl Case {
    /// The values of query, key and value, and a gradient of the context.
    pub fn inputs(&self) -> [Vec<f32>; 4] {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = self.sizes;
        [
            numbers(1, batch * seq_q * n_heads * head_dim),
            numbers(2, batch * seq_k * n_kv_heads * head_dim),
            numbers(3, batch * seq_k * n_kv_heads * value_dim),
            numbers(4, batch * seq_q * n_heads * value_dim),
        ]
    }

    /// The problem for the oracle, in f32 or f64.
    pub fn oracle<T: From<f32> + num_traits::Float>(&self) -> Attention<T> {
        let [query, key, value] = self.inputs_without_gradient().map(|x| convert(&x));
        let mut attention = Attention::new(self.sizes, query, key, value);
        self.add_options(&mut attention);
        attention
    }

    /// Gives an oracle of these sizes everything else of the case.
    pub fn add_options<T: From<f32> + num_traits::Float>(&self, attention: &mut Attention<T>) {
        let Sizes { seq_q, seq_k, .. } = self.sizes;
        let number = |x: f64| <T as num_traits::NumCast>::from(x).expect("a small number");
        if let Some(scale) = self.scale {
            attention.scale = number(scale);
        }
        attention.softcap = self.softcap.map(number);
        if let Some(mask) = self.pad {
            let hidden = mask.values();
            attention.hide(|b, _, _, j| hidden[at(mask.dims, [b, j])]);
        }
        if let Some(mask) = self.attn {
            let hidden = mask.values();
            attention.hide(|b, _, i, j| hidden[at(mask.dims, [b, i, j])]);
        }
        if let Some(mask) = self.heads {
            let hidden = mask.values();
            attention.hide(|b, h, i, j| hidden[at(mask.dims, [b, h, i, j])]);
        }
        if self.causal {
            attention.hide(|_, _, i, j| j + seq_q > i + seq_k);
        }
        if let Some(dims) = self.bias {
            let bias = self.bias_values(dims);
            for (place, slot) in self.pairs().zip(&mut attention.bias) {
                *slot = bias[at(dims, place)].into();
            }
        }
        if let Some((seed, probability)) = self.dropout {
            attention.drop(seed, probability);
        }
        attention.quiet_softmax = self.quiet_softmax;
    }

    /// The options of the function's call, and the bias tensor to ask its gradient of.
    pub fn options<B: Backend>(&self) -> (AttentionOptions<B>, Option<Tensor<B, 4>>) {
        let mut options = AttentionOptions::default().return_weights();
        let bias = self.bias_tensor();
        set_options!(self, options, bias);
        if let Some(scale) = self.scale {
            options = options.scale(scale);
        }
        if let Some(cap) = self.softcap {
            options = options.softcap(cap);
        }
        if let Some((_, probability)) = self.dropout {
            options = options.dropout(probability);
        }
        if self.quiet_softmax {
            options = options.quiet_softmax();
        }
        (options, bias)
    }

    /// The configuration of the case's module.
    pub fn config(&self) -> MultiHeadAttentionConfig {
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        let [d_model, d_key, d_value, d_output] = self.module_widths();
        let mut config = MultiHeadAttentionConfig::new(d_model, n_heads)
            .with_n_kv_heads(n_kv_heads)
            .with_head_dim(head_dim)
            .with_value_dim(value_dim)
            .with_d_key(d_key)
            .with_d_value(d_value)
            .with_d_output(d_output)
            .with_dropout(self.dropout.map_or(0.0, |(_, probability)| probability))
            .with_quiet_softmax(self.quiet_softmax);
        (config.scale, config.softcap) = (self.scale, self.softcap);
        config
    }

    /// `d_model`, `d_key`, `d_value` and `d_output` of the case's module.
    pub fn module_widths(&self) -> [usize; 4] {
        self.widths.unwrap_or([self.sizes.n_heads * self.sizes.head_dim; 4])
    }

    /// Gives a module's input the masks, bias and seed of the case.
    pub fn apply<B: Backend>(&self, mut input: MhaInput<B>) -> MhaInput<B> {
        let bias = self.bias_tensor();
        set_options!(self, input, bias);
        input
    }

    /// The padding mask.
    pub fn pad_tensor<B: Backend>(&self) -> Tensor<B, 2, Bool> {
        self.pad.expect("the case has padding").tensor()
    }

    fn bias_tensor<B: Backend>(&self) -> Option<Tensor<B, 4>> {
        self.bias.map(|dims| tensor(&self.bias_values(dims), dims).require_grad())
    }

    /// The gradient of the bias in its own shape, from that of each pair: sums over broadcast axes.
    pub fn bias_gradient<T: num_traits::Float>(&self, pairs: &[T]) -> Vec<T> {
        let dims = self.bias.expect("the case has a bias");
        let mut sums = vec![T::zero(); dims.iter().product()];
        for (place, &gradient) in self.pairs().zip(pairs) {
            let sum = &mut sums[at(dims, place)];
            *sum = *sum + gradient;
        }
        sums
    }

    fn inputs_without_gradient(&self) -> [Vec<f32>; 3] {
        let [query, key, value, _] = self.inputs();
        [query, key, value]
    }

    fn bias_values(&self, dims: [usize; 4]) -> Vec<f32> {
        numbers(5, dims.iter().product())
    }

    fn pairs(&self) -> impl Iterator<Item = [usize; 4]> + use<> {
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.sizes;
        (0..batch * n_heads * seq_q * seq_k).map(move |index| {
            let (row, j) = (index / seq_k, index % seq_k);
            [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q, j]
        })
    }
}

impl<const D: usize> Mask<D> {
    fn values(&self) -> Vec<bool> {
        coins(6 + D as u64, self.dims.iter().product(), self.percent)
    }

    fn tensor<B: Backend>(&self) -> Tensor<B, D, Bool> {
        bools(&self.values(), self.dims)
    }
}

/// Numbers in another precision.
fn convert<T: From<f32>>(numbers: &[f32]) -> Vec<T> {
    numbers.iter().map(|&x| x.into()).collect()
}

/// Where a place lies in a row-major tensor whose axes of 1 are broadcast.
fn at<const D: usize>(dims: [usize; D], place: [usize; D]) -> usize {
    dims.iter().zip(place).fold(0, |index, (&dim, x)| index * dim + if dim == 1 { 0 } else { x })
}
