"""Measures sentence embeddings in transformers, for the benchmark that starts this (lines.py).

    python embeddings.py 2          # the threads that it may use
"""

import sys
import time

import lines
import turns


def answer(state, request):
    """The reply to a request; `state` has the model and what was prepared."""
    match request["do"]:
        case "load":
            state["model"], version = load(request["model"])
            return {"version": version}
        case "prepare":
            step = {"embed": Embed, "attend": Attend}[request["part"]]
            state["step"] = step(state["model"], request["tokens"])
            return {}
        case "turn":
            seconds = turns.take(state["step"].run, request["seconds"], request["runs"])
            return {"seconds": seconds}
        case "outcome":
            return {"outcome": state["step"].outcome()}
        case other:
            raise ValueError(f"no such request: {other}")


def load(folder):
    import torch
    import transformers

    torch.set_num_threads(int(sys.argv[1]))
    model = transformers.BertModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", add_pooling_layer=False
    )
    return model.eval(), f"transformers {transformers.__version__}, torch {torch.__version__}"


class Step:
    def __init__(self, model, tokens):
        import torch

        self.torch, self.model, self.tokens = torch, model, torch.tensor(tokens)
        with torch.inference_mode():
            self.hidden = model.embeddings(self.tokens)

    def run(self):
        begin = time.perf_counter()
        with self.torch.inference_mode():
            result = self.compute()
        seconds = time.perf_counter() - begin
        del result
        return seconds

    def outcome(self):
        """A vector for each sentence, one behind the other."""
        with self.torch.inference_mode():
            return self.vectors(self.compute()).flatten().tolist()


class Embed(Step):
    """Tokens to vectors of length 1."""

    def compute(self):
        mean = self.model(self.tokens).last_hidden_state.mean(1)
        return self.torch.nn.functional.normalize(mean, dim=1)

    def vectors(self, result):
        return result


class Attend(Step):
    """The attention of each layer with its projections, on the tokens that come to the first."""

    def compute(self):
        return [
            layer.attention.output.dense(layer.attention.self(self.hidden)[0])
            for layer in self.model.encoder.layer
        ]

    def vectors(self, result):
        return sum(result).mean(1)


lines.serve(answer)
