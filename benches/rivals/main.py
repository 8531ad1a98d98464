"""Measures attention in a library for Python, for the benchmark that starts this (lines.py).

    python main.py torch 2          # the library, and the threads that it may use
"""

import sys

import numpy

import lines
import memory
import turns


def answer(state, request):
    """The reply to a request; `state` has the library, the layer and what was prepared."""
    if "library" not in state:
        state["library"] = import_library(sys.argv[1], int(sys.argv[2]))
    match request["do"]:
        case "load":
            state["layer"] = state["library"].Layer(read_weights(request), request["n_heads"])
            return {"version": state["library"].VERSION}
        case "prepare":
            state.pop("step", None)
            tokens = numpy.fromfile(request["tokens"], dtype="<f4")
            tokens = tokens.reshape(request["batch"], -1, request["d_model"])
            state["step"], variant = state["layer"].prepare(
                request["op"], tokens, request["causal"], request["window"], request["variant"]
            )
            return {"variant": variant}
        case "turn":
            seconds = turns.take(state["step"].run, request["seconds"], request["runs"])
            return {"seconds": seconds}
        case "outcome":
            parts = [
                (name, numpy.ascontiguousarray(values, dtype="<f4"))
                for name, values in state["step"].outcome()
            ]
            with open(request["file"], "wb") as file:
                for _, values in parts:
                    file.write(values.tobytes())
            return {"parts": [[name, values.size] for name, values in parts]}
        case "peak":
            return {"peak_mb": memory.rise(state["step"].run)}
        case "release":
            state.pop("step", None)
            return {}
        case other:
            raise ValueError(f"no such request: {other}")


def read_weights(request):
    """The weight `[in, out]` and the bias of each projection, as they stand in the file."""
    d_model = request["d_model"]
    numbers = numpy.fromfile(request["weights"], dtype="<f4").reshape(4, d_model + 1, d_model)
    names = ["query", "key", "value", "output"]
    return {name: (rows[:-1].copy(), rows[-1].copy()) for name, rows in zip(names, numbers)}


def import_library(name, threads):
    match name:
        case "torch":
            import torch_layer as library
        case "onnxruntime":
            import onnxruntime_layer as library
        case other:
            raise ValueError(f"no such library: {other}")
    library.set_threads(threads)
    return library


lines.serve(answer)
