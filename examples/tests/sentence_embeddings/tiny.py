"""Writes what transformers makes of the tiny model that the tests write, for their `--check`:

    python tiny.py       # writes tiny/embeddings.json; needs torch and transformers

The weights come from integers that the tests make too (tiny.rs), so no file of weights is kept.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import torch
from transformers import BertConfig, BertModel

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "../../sentence_embeddings"))
import fixture

SENTENCES = [
    "The dog barks.",
    "A hound is loud.",
    "é",
    "The cat sleeps on the mat under the tree in the sleeping dog",  # over 10 word pieces
    "",
    "Is the submarine barking?",
]
BATCHES = [[0, 2, 1], [3, 4, 5, 2]]


def splitmix(seed):
    """The numbers of mha_examples::random::SplitMix64."""
    word = 2**64 - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & word
        x = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & word
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & word
        yield x ^ (x >> 31)


def parameter(seed, name, shape):
    """From -1/2 to 1/2 in steps of 1/1024, around 1 for what norms multiply with."""
    numbers = splitmix(seed)
    values = [((next(numbers) >> 32) * 1024 >> 32) - 512 for _ in range(shape.numel())]
    middle = 1.0 if name.endswith("LayerNorm.weight") else 0.0
    return torch.tensor(values, dtype=torch.float32).reshape(shape) / 1024 + middle


with tempfile.TemporaryDirectory() as folder:
    for file in (here / "tiny").iterdir():
        shutil.copy(file, folder)
    with open(f"{folder}/tokenizer_config.json", "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}, file)
    model = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False)
    names = sorted(name for name, _ in model.named_parameters())
    parameters = dict(model.named_parameters())
    for seed, name in enumerate(names):
        parameters[name].data = parameter(seed, name, parameters[name].shape)
    model.save_pretrained(folder)
    fixture.write(folder, here / "tiny/embeddings.json", SENTENCES, BATCHES)
