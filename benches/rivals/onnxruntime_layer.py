"""Multi-head attention in ONNX Runtime: four projections around its MultiHeadAttention."""

import time

import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

VERSION = f"onnxruntime {onnxruntime.__version__}"

options = onnxruntime.SessionOptions()


def set_threads(threads):
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3


class Layer:
    """The weights, and how a case is made of them."""

    def __init__(self, weights, n_heads):
        self.weights, self.n_heads = weights, n_heads

    def prepare(self, op, tokens, causal, window, variant):
        if op != "forward" or window:
            raise ValueError("only forward passes without a window")
        model = build(self.weights, self.n_heads, causal).SerializeToString()
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        return Forward(session, tokens), None


def build(weights, n_heads, causal):
    """The graph from `tokens` to `result`, both `[batch, length, d_model]`."""
    nodes, initializers = [], []

    def projection(name, source, target):
        weight, bias = weights[name]
        initializers.append(numpy_helper.from_array(weight, f"{name}.weight"))
        initializers.append(numpy_helper.from_array(bias, f"{name}.bias"))
        product = f"{name}.product"
        nodes.append(helper.make_node("MatMul", [source, f"{name}.weight"], [product]))
        nodes.append(helper.make_node("Add", [product, f"{name}.bias"], [target]))

    for name in ["query", "key", "value"]:
        projection(name, "tokens", name)
    nodes.append(
        helper.make_node(
            "MultiHeadAttention",
            ["query", "key", "value"],
            ["context"],
            domain="com.microsoft",
            num_heads=n_heads,
            unidirectional=int(causal),
        )
    )
    projection("output", "context", "result")

    d_model = weights["query"][0].shape[0]
    shape = ["batch", "length", d_model]
    tokens, result = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ["tokens", "result"]
    )
    graph = helper.make_graph(nodes, "attention", [tokens], [result], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.checker.check_model(model)
    return model


class Forward:
    def __init__(self, session, tokens):
        self.session, self.tokens = session, tokens

    def compute(self):
        return self.session.run(None, {"tokens": self.tokens})[0]

    def run(self):
        begin = time.perf_counter()
        self.compute()
        return time.perf_counter() - begin

    def outcome(self):
        return [("output", self.compute())]
