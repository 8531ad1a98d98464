//! A case as a call of the function, and of a module.

use burn::tensor::{Bool, Tensor, backend::Backend};
use mha::oracle::Sizes;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Path, Position, Sink};

use super::{Case, Leaves};
use crate::tensor;

impl Case {
    /// The options of the function's call on a path, and what to ask gradients of. The plain path
    /// gives the weights too.
    pub fn options<B: Backend>(&self, path: Path) -> (AttentionOptions<B>, Leaves<B>) {
        let Sizes { n_heads, n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        let mut options = AttentionOptions::default().return_lse().mask(self.mask()).path(path);
        if path == Path::Plain {
            options = options.return_weights();
        }
        let memory = |which: usize, width: usize| {
            tensor(&self.memory_values(which), [self.bias_kv, n_kv_heads, width]).require_grad()
        };
        let leaves = Leaves {
            bias: self.bias_tensor(),
            table: match &self.position {
                Position::T5(buckets) => {
                    Some(tensor(&self.table_values(), [buckets.n_buckets, n_heads]).require_grad())
                }
                _ => None,
            },
            memory: (self.bias_kv > 0).then(|| [memory(0, head_dim), memory(1, value_dim)]),
            sinks: (self.sink == Sink::Learned)
                .then(|| tensor(&self.sink_values(), [n_heads]).require_grad()),
            head_scale: self.head_scale_tensor(),
        };
        if let Some(bias) = &leaves.bias {
            options = options.bias(bias.clone());
        }
        match (&self.position, &leaves.table) {
            (Position::Alibi, _) => options = options.alibi(mha::alibi_slopes(n_heads)),
            (Position::T5(buckets), Some(table)) => {
                options = options.t5(*buckets, table.clone());
            }
            _ => {}
        }
        if let Some([key, value]) = &leaves.memory {
            options = options.memory(key.clone(), value.clone());
        }
        options = match self.sink {
            Sink::Quiet => options.quiet_softmax(),
            Sink::ZeroKey => options.zero_attention(),
            _ => options,
        };
        if let Some(sinks) = &leaves.sinks {
            options = options.sink(sinks.clone());
        }
        if let Some(scale) = &leaves.head_scale {
            options = options.head_scale(scale.clone());
        }
        if let Some(scale) = self.scale {
            options = options.scale(scale);
        }
        if let Some(cap) = self.softcap {
            options = options.softcap(cap);
        }
        if let Some((seed, probability)) = self.dropout {
            options = options.dropout(probability).dropout_seed(seed);
        }
        (options, leaves)
    }

    /// All masks of the case as one.
    pub fn mask<B: Backend>(&self) -> Mask<B> {
        let mut mask: Mask<B> = self.rules.iter().cloned().collect();
        if let Some(dense) = self.pad {
            mask = mask.and(Mask::block_keys(self.dense(dense)));
        }
        if let Some(dense) = self.attn {
            mask = mask.and(Mask::block(self.dense::<B, _>(dense)));
        }
        if let Some(dense) = self.heads {
            mask = mask.and(Mask::block(self.dense::<B, _>(dense)));
        }
        mask
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
            .with_position(self.position.clone())
            .with_bias_kv(self.bias_kv)
            .with_sink(self.sink)
            .with_gate(self.gate)
            .with_dropout(self.dropout.map_or(0.0, |(_, probability)| probability));
        (config.scale, config.softcap, config.qk_norm) = (self.scale, self.softcap, self.qk_norm);
        config.bias = self.projection_bias;
        config
    }

    /// `d_model`, `d_key`, `d_value` and `d_output` of the case's module.
    pub fn module_widths(&self) -> [usize; 4] {
        self.widths.unwrap_or([self.sizes.n_heads * self.sizes.head_dim; 4])
    }

    /// Gives a module's input the masks, bias, head scale and seed of the case; masks by the setters
    /// of `burn::nn` where these say it.
    pub fn apply<B: Backend>(&self, input: MhaInput<B>) -> MhaInput<B> {
        self.apply_with(input, self.bias_tensor(), self.head_scale_tensor())
    }

    /// [`apply`](Self::apply) with the tensors of bias and head scale.
    pub(crate) fn apply_with<B: Backend>(
        &self,
        mut input: MhaInput<B>,
        bias: Option<Tensor<B, 4>>,
        head_scale: Option<Tensor<B, 1>>,
    ) -> MhaInput<B> {
        if let Some(dense) = self.pad {
            input = input.mask_pad(self.dense(dense));
        }
        if let Some(dense) = self.attn {
            input = input.mask_attn(self.dense(dense));
        }
        if let Some(dense) = self.heads {
            input = input.mask(Mask::block(self.dense::<B, _>(dense)));
        }
        for rule in &self.rules {
            input = input.mask(rule.clone().into());
        }
        if let Some(bias) = bias {
            input = input.bias(bias);
        }
        if let Some(scale) = head_scale {
            input = input.head_scale(scale);
        }
        match self.dropout {
            Some((seed, _)) => input.dropout_seed(seed),
            None => input,
        }
    }

    /// The padding mask.
    pub fn pad_tensor<B: Backend>(&self) -> Tensor<B, 2, Bool> {
        self.dense(self.pad.expect("the case has padding"))
    }

    /// The additive bias, in its own shape.
    pub(crate) fn bias_tensor<B: Backend>(&self) -> Option<Tensor<B, 4>> {
        self.bias.map(|dims| tensor(&self.bias_values(dims), dims).require_grad())
    }

    /// The head scales.
    pub fn head_scale_tensor<B: Backend>(&self) -> Option<Tensor<B, 1>> {
        let scale = || tensor(&self.head_scale_values(), [self.sizes.n_heads]).require_grad();
        self.head_scale.then(scale)
    }
}
