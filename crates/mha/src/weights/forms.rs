//! What each family calls the tensors of a layer, and how it lays them out: one table.

use super::Family::*;
use super::form::Part::{Gate, Key, Output, Query, Value};
use super::form::{Axes, Form, Order, Pack, Part};
use crate::RotaryLayout::{Half, Interleaved};

const fn pack(name: &'static str, parts: &'static [Part]) -> Pack {
    Pack { name, parts }
}

const NO_BIAS: [bool; 4] = [false; 4];
const ALL: [bool; 4] = [true; 4];
const ALL_BUT_KEY: [bool; 4] = [true, false, true, true];
const ALL_BUT_OUTPUT: [bool; 4] = [true, true, true, false];
const OUTPUT_ONLY: [bool; 4] = [false, false, false, true];

/// What most forms have in common.
const PLAIN: Form = Form {
    family: Mha,
    weights: &[],
    biases: &[],
    bias_sets: &[NO_BIAS, ALL],
    axes: Axes::OutIn,
    order: Order::Blocks,
    others: &[],
    rotary: None,
    refused: &[],
};

const LLAMA_NORMS: &[(&str, &str)] = &[
    ("q_norm.weight", "query_norm.gamma"),
    ("k_norm.weight", "key_norm.gamma"),
    ("sinks", "sinks"),
];

const LLAMA: Form = Form {
    family: Llama,
    weights: &[
        pack("q_proj.weight", &[Query]),
        pack("k_proj.weight", &[Key]),
        pack("v_proj.weight", &[Value]),
        pack("o_proj.weight", &[Output]),
    ],
    biases: &[
        pack("q_proj.bias", &[Query]),
        pack("k_proj.bias", &[Key]),
        pack("v_proj.bias", &[Value]),
        pack("o_proj.bias", &[Output]),
    ],
    bias_sets: &[NO_BIAS, ALL_BUT_OUTPUT, ALL],
    others: LLAMA_NORMS,
    rotary: Some(Half),
    ..PLAIN
};

const BURN_NN: Form = Form {
    family: BurnNn,
    weights: &[
        pack("query.weight", &[Query]),
        pack("key.weight", &[Key]),
        pack("value.weight", &[Value]),
        pack("output.weight", &[Output]),
    ],
    biases: &[
        pack("query.bias", &[Query]),
        pack("key.bias", &[Key]),
        pack("value.bias", &[Value]),
        pack("output.bias", &[Output]),
    ],
    axes: Axes::InOut,
    ..PLAIN
};

const GPT2: Form = Form {
    family: Gpt2,
    weights: &[pack("c_attn.weight", &[Query, Key, Value]), pack("c_proj.weight", &[Output])],
    biases: &[pack("c_attn.bias", &[Query, Key, Value]), pack("c_proj.bias", &[Output])],
    bias_sets: &[ALL],
    axes: Axes::InOut,
    ..PLAIN
};

const NEOX: Form = Form {
    family: GptNeox,
    weights: &[
        pack("query_key_value.weight", &[Query, Key, Value]),
        pack("dense.weight", &[Output]),
    ],
    biases: &[pack("query_key_value.bias", &[Query, Key, Value]), pack("dense.bias", &[Output])],
    order: Order::PerHead,
    rotary: Some(Half),
    ..PLAIN
};

const FLAX: Form = Form {
    family: Flax,
    weights: &[
        pack("query.kernel", &[Query]),
        pack("key.kernel", &[Key]),
        pack("value.kernel", &[Value]),
        pack("out.kernel", &[Output]),
    ],
    biases: &[
        pack("query.bias", &[Query]),
        pack("key.bias", &[Key]),
        pack("value.bias", &[Value]),
        pack("out.bias", &[Output]),
    ],
    axes: Axes::Heads,
    refused: &["query_ln.scale", "key_ln.scale"],
    ..PLAIN
};

const MLX: Form = Form {
    family: Mlx,
    weights: &[
        pack("query_proj.weight", &[Query]),
        pack("key_proj.weight", &[Key]),
        pack("value_proj.weight", &[Value]),
        pack("out_proj.weight", &[Output]),
    ],
    biases: &[
        pack("query_proj.bias", &[Query]),
        pack("key_proj.bias", &[Key]),
        pack("value_proj.bias", &[Value]),
        pack("out_proj.bias", &[Output]),
    ],
    ..PLAIN
};

const PYTORCH_MEMORY: &[(&str, &str)] = &[("bias_k", "bias_k"), ("bias_v", "bias_v")];
const PYTORCH_BIASES: &[Pack] =
    &[pack("in_proj_bias", &[Query, Key, Value]), pack("out_proj.bias", &[Output])];

/// All forms. Of two that have a place for a module, the first is written.
pub(crate) const FORMS: &[Form] = &[
    Form {
        family: Mha,
        weights: &[
            pack("query.weight", &[Query]),
            pack("key.weight", &[Key]),
            pack("value.weight", &[Value]),
            pack("output.weight", &[Output]),
            pack("gate.weight", &[Gate]),
        ],
        biases: &[
            pack("query.bias", &[Query]),
            pack("key.bias", &[Key]),
            pack("value.bias", &[Value]),
            pack("output.bias", &[Output]),
            pack("gate.bias", &[Gate]),
        ],
        axes: Axes::InOut,
        others: &[
            ("query_norm.gamma", "query_norm.gamma"),
            ("query_norm.beta", "query_norm.beta"),
            ("key_norm.gamma", "key_norm.gamma"),
            ("key_norm.beta", "key_norm.beta"),
            ("bias_k", "bias_k"),
            ("bias_v", "bias_v"),
            ("relative_bias", "relative_bias"),
            ("sinks", "sinks"),
        ],
        ..PLAIN
    },
    BURN_NN,
    Form {
        family: PyTorch,
        weights: &[
            pack("in_proj_weight", &[Query, Key, Value]),
            pack("out_proj.weight", &[Output]),
        ],
        biases: PYTORCH_BIASES,
        others: PYTORCH_MEMORY,
        ..PLAIN
    },
    Form {
        family: PyTorch,
        weights: &[
            pack("q_proj_weight", &[Query]),
            pack("k_proj_weight", &[Key]),
            pack("v_proj_weight", &[Value]),
            pack("out_proj.weight", &[Output]),
        ],
        biases: PYTORCH_BIASES,
        others: PYTORCH_MEMORY,
        ..PLAIN
    },
    Form {
        family: Bert,
        weights: &[
            pack("self.query.weight", &[Query]),
            pack("self.key.weight", &[Key]),
            pack("self.value.weight", &[Value]),
            pack("output.dense.weight", &[Output]),
        ],
        biases: &[
            pack("self.query.bias", &[Query]),
            pack("self.key.bias", &[Key]),
            pack("self.value.bias", &[Value]),
            pack("output.dense.bias", &[Output]),
        ],
        bias_sets: &[ALL],
        // Relative positions that add products of their own.
        refused: &["self.distance_embedding.weight"],
        ..PLAIN
    },
    GPT2,
    Form {
        weights: &[
            pack("q_attn.weight", &[Query]),
            pack("c_attn.weight", &[Key, Value]),
            pack("c_proj.weight", &[Output]),
        ],
        biases: &[
            pack("q_attn.bias", &[Query]),
            pack("c_attn.bias", &[Key, Value]),
            pack("c_proj.bias", &[Output]),
        ],
        ..GPT2
    },
    Form { family: NanoGpt, axes: Axes::OutIn, bias_sets: &[NO_BIAS, ALL], ..GPT2 },
    // Qwen3-Next: the gate of each head behind its query.
    Form {
        weights: &[
            pack("q_proj.weight", &[Query, Gate]),
            pack("k_proj.weight", &[Key]),
            pack("v_proj.weight", &[Value]),
            pack("o_proj.weight", &[Output]),
        ],
        biases: &[
            pack("q_proj.bias", &[Query, Gate]),
            pack("k_proj.bias", &[Key]),
            pack("v_proj.bias", &[Value]),
            pack("o_proj.bias", &[Output]),
        ],
        order: Order::PerHead,
        ..LLAMA
    },
    LLAMA,
    Form {
        family: Phi3,
        weights: &[pack("qkv_proj.weight", &[Query, Key, Value]), pack("o_proj.weight", &[Output])],
        biases: &[pack("qkv_proj.bias", &[Query, Key, Value]), pack("o_proj.bias", &[Output])],
        bias_sets: &[NO_BIAS, ALL_BUT_OUTPUT, ALL],
        rotary: Some(Half),
        ..PLAIN
    },
    Form {
        family: MetaLlama,
        weights: &[
            pack("wq.weight", &[Query]),
            pack("wk.weight", &[Key]),
            pack("wv.weight", &[Value]),
            pack("wo.weight", &[Output]),
        ],
        bias_sets: &[NO_BIAS],
        rotary: Some(Interleaved),
        ..PLAIN
    },
    NEOX,
    Form { family: Bloom, rotary: None, ..NEOX },
    Form {
        family: T5,
        weights: &[
            pack("q.weight", &[Query]),
            pack("k.weight", &[Key]),
            pack("v.weight", &[Value]),
            pack("o.weight", &[Output]),
        ],
        bias_sets: &[NO_BIAS],
        others: &[("relative_attention_bias.weight", "relative_bias")],
        ..PLAIN
    },
    Form {
        family: Whisper,
        weights: &[
            pack("q_proj.weight", &[Query]),
            pack("k_proj.weight", &[Key]),
            pack("v_proj.weight", &[Value]),
            pack("out_proj.weight", &[Output]),
        ],
        biases: &[
            pack("q_proj.bias", &[Query]),
            pack("k_proj.bias", &[Key]),
            pack("v_proj.bias", &[Value]),
            pack("out_proj.bias", &[Output]),
        ],
        bias_sets: &[NO_BIAS, OUTPUT_ONLY, ALL_BUT_KEY, ALL],
        // GPT-J's; the others in this family have no rotary positions.
        rotary: Some(Interleaved),
        ..PLAIN
    },
    Form {
        family: FlashAttention,
        weights: &[pack("Wqkv.weight", &[Query, Key, Value]), pack("out_proj.weight", &[Output])],
        biases: &[pack("Wqkv.bias", &[Query, Key, Value]), pack("out_proj.bias", &[Output])],
        bias_sets: &[NO_BIAS, ALL_BUT_OUTPUT, OUTPUT_ONLY, ALL],
        refused: &["dwconv_qkv.weight"],
        ..PLAIN
    },
    Form {
        family: FlashAttention,
        weights: &[
            pack("Wq.weight", &[Query]),
            pack("Wkv.weight", &[Key, Value]),
            pack("out_proj.weight", &[Output]),
        ],
        biases: &[
            pack("Wq.bias", &[Query]),
            pack("Wkv.bias", &[Key, Value]),
            pack("out_proj.bias", &[Output]),
        ],
        bias_sets: &[NO_BIAS, ALL_BUT_OUTPUT, OUTPUT_ONLY, ALL],
        refused: &["dwconv_q.weight", "dwconv_kv.weight"],
        ..PLAIN
    },
    FLAX,
    Form {
        family: Keras,
        weights: &[
            pack("query.kernel", &[Query]),
            pack("key.kernel", &[Key]),
            pack("value.kernel", &[Value]),
            pack("attention_output.kernel", &[Output]),
        ],
        biases: &[
            pack("query.bias", &[Query]),
            pack("key.bias", &[Key]),
            pack("value.bias", &[Value]),
            pack("attention_output.bias", &[Output]),
        ],
        refused: &[],
        ..FLAX
    },
    Form {
        family: Equinox,
        weights: &[
            pack("query_proj.weight", &[Query]),
            pack("key_proj.weight", &[Key]),
            pack("value_proj.weight", &[Value]),
            pack("output_proj.weight", &[Output]),
        ],
        biases: &[
            pack("query_proj.bias", &[Query]),
            pack("key_proj.bias", &[Key]),
            pack("value_proj.bias", &[Value]),
            pack("output_proj.bias", &[Output]),
        ],
        bias_sets: &[],
        ..MLX
    },
    MLX,
];
