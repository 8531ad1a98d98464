"""Multi-head attention in PyTorch: `nn.MultiheadAttention` and a module around
`scaled_dot_product_attention`, whichever is faster."""

import time

import torch
from torch import nn
from torch.nn import functional

import turns

VERSION = f"torch {torch.__version__}"

# Beyond this length nn.MultiheadAttention, which may store all scores, is not tried.
LONGEST_FOR_MODULE = 8192


def set_threads(threads):
    torch.set_num_threads(threads)


class Layer:
    """The weights, and how a case is made of them."""

    def __init__(self, weights, n_heads):
        names = ["query", "key", "value"]
        self.n_heads = n_heads
        self.packed = nn.Parameter(
            torch.cat([torch.from_numpy(weights[name][0]).T for name in names]).contiguous()
        )
        self.packed_bias = nn.Parameter(
            torch.cat([torch.from_numpy(weights[name][1]) for name in names])
        )
        weight, bias = weights["output"]
        self.output = nn.Parameter(torch.from_numpy(weight).T.contiguous())
        self.output_bias = nn.Parameter(torch.from_numpy(bias))

    def parameters(self):
        return [self.packed, self.packed_bias, self.output, self.output_bias]

    def prepare(self, op, tokens, causal, window, variant):
        """The step and its variant: the given one, or the fastest."""
        tokens = torch.from_numpy(tokens)
        if op == "decode":
            return Decode(self, tokens), "sdpa"
        length = tokens.shape[1]
        step = {"forward": Forward, "train_step": TrainStep}[op]
        makers = {"sdpa": sdpa_forward, "module": module_forward}
        if variant:
            makers = {variant: makers[variant]}
        elif length > LONGEST_FOR_MODULE:
            del makers["module"]
        return turns.fastest(
            [
                (step(self, tokens, make(self, length, causal, window)), name)
                for name, make in makers.items()
            ]
        )


def window_mask(length, window):
    """True where a query sees a key: itself and `window - 1` before it."""
    positions = torch.arange(length)
    behind = positions[:, None] - positions[None, :]
    return (behind >= 0) & (behind < window)


def project_heads(layer, tokens):
    """Query, key and value, `[batch, heads, length, head_dim]` each, of one matrix product."""
    batch, length, d_model = tokens.shape
    packed = functional.linear(tokens, layer.packed, layer.packed_bias)
    packed = packed.view(batch, length, 3, layer.n_heads, d_model // layer.n_heads)
    return packed.permute(2, 0, 3, 1, 4).unbind(0)


def project_out(layer, context):
    batch, _, length, _ = context.shape
    merged = context.transpose(1, 2).reshape(batch, length, -1)
    return functional.linear(merged, layer.output, layer.output_bias)


def sdpa_forward(layer, length, causal, window):
    mask = window_mask(length, window) if window else None

    def forward(tokens):
        query, key, value = project_heads(layer, tokens)
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal and mask is None
        )
        return project_out(layer, context)

    return forward


def module_forward(layer, length, causal, window):
    d_model = layer.output.shape[0]
    module = nn.MultiheadAttention(d_model, layer.n_heads, dropout=0.0, batch_first=True)
    module.in_proj_weight, module.in_proj_bias = layer.packed, layer.packed_bias
    module.out_proj.weight, module.out_proj.bias = layer.output, layer.output_bias
    hidden = None
    if window:
        hidden = ~window_mask(length, window)
    elif causal:
        hidden = nn.Transformer.generate_square_subsequent_mask(length)

    def forward(tokens):
        module.train(torch.is_grad_enabled())
        only_causal = causal and not window
        return module(
            tokens, tokens, tokens, need_weights=False, attn_mask=hidden, is_causal=only_causal
        )[0]

    return forward


class Forward:
    def __init__(self, layer, tokens, forward):
        self.tokens, self.forward = tokens, forward

    def run(self):
        begin = time.perf_counter()
        with torch.inference_mode():
            self.result = self.forward(self.tokens)
        seconds = time.perf_counter() - begin
        del self.result
        return seconds

    def outcome(self):
        with torch.inference_mode():
            return [("output", self.forward(self.tokens).numpy())]


class TrainStep:
    def __init__(self, layer, tokens, forward):
        self.layer, self.forward = layer, forward
        self.tokens = tokens.requires_grad_()

    def step(self):
        for leaf in [self.tokens, *self.layer.parameters()]:
            leaf.grad = None
        self.forward(self.tokens).square().mean().backward()

    def run(self):
        begin = time.perf_counter()
        self.step()
        return time.perf_counter() - begin

    def outcome(self):
        self.step()
        packed, packed_bias, output, output_bias = (x.grad for x in self.layer.parameters())
        weights = [*packed.chunk(3), output]
        biases = [*packed_bias.chunk(3), output_bias]
        parts = [("input", self.tokens.grad.numpy())]
        for name, weight, bias in zip(["query", "key", "value", "output"], weights, biases):
            parts += [(f"{name}.weight", weight.T.numpy()), (f"{name}.bias", bias.numpy())]
        return parts


class Decode:
    """One token behind the others, whose keys and values stand in tensors with room for it."""

    @torch.inference_mode()
    def __init__(self, layer, tokens):
        self.layer, self.token, cached = layer, tokens[:, -1:].contiguous(), tokens[:, :-1]
        self.cached = cached.shape[1]
        batch, room, d_model = tokens.shape
        shape = [batch, layer.n_heads, room, d_model // layer.n_heads]
        self.keys, self.values = torch.empty(shape), torch.empty(shape)
        _, key, value = project_heads(layer, cached)
        self.keys[:, :, : self.cached] = key
        self.values[:, :, : self.cached] = value

    @torch.inference_mode()
    def step(self):
        query, key, value = project_heads(self.layer, self.token)
        self.keys[:, :, self.cached :] = key
        self.values[:, :, self.cached :] = value
        context = functional.scaled_dot_product_attention(query, self.keys, self.values)
        return project_out(self.layer, context)

    def run(self):
        begin = time.perf_counter()
        self.step()
        return time.perf_counter() - begin

    def outcome(self):
        return [("output", self.step().numpy())]
