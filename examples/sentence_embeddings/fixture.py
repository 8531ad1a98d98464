"""Writes what transformers makes of the sentences below, for `--check`:

    python fixture.py ~/.cache/mha/all-MiniLM-L6-v2 embeddings.json

Pooling is that of the model's card: the mean over the real tokens, then length 1. Needs torch and
transformers.
"""

import json
import sys

import numpy
import torch
from transformers import AutoTokenizer, BertModel

RIVER = """The river rises in a bog between two hills, so small that a child can step over it, and for the \
first mile it has no name. Below the second bridge it turns east, past the mill that ground oats until the \
war, and there the anglers stand in the evenings, up to their knees, and speak of the fish that their \
fathers caught. In spring it carries the snow of the hills into the meadows; the farmers curse it then and \
thank it in July. At the weir it is already wide enough for boats, and from the weir to the sea it needs \
two days, through three towns and under eleven bridges, none of which are alike."""

SENTENCES = [
    "Hello",
    "A man is playing a guitar on the street.",
    "Someone makes music outdoors.",
    "The stock market fell sharply on Monday.",
    "Wie komme ich zum Bahnhof?",
    "The café's crème brûlée costs €4.50 — naïve façade, señor!",
    "东京的樱花开了",
    "Мороз и солнце; день чудесный!",
    "I can't believe it's 25°C already 🙂🎉",
    "antidisestablishmentarianism, electroencephalographically",
    RIVER,  # over 100 tokens
    " ".join([RIVER, RIVER]),  # over 256 tokens, of which the model reads 256
]

# Sentences that go through the model together, the shorter ones padded.
BATCHES = [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9], [10, 0, 11, 6]]


def write(folder, file, sentences, batches):
    """Embeds each sentence alone and the batches together with the model in `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    with open(f"{folder}/sentence_bert_config.json") as config:
        longest = json.load(config)["max_seq_length"]

    def embed(batch):
        inputs = tokenizer(
            [sentences[place] for place in batch],
            padding=True,
            truncation=True,
            max_length=longest,
            return_tensors="pt",
        )
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).float()
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, p=2, dim=1)

    tokens = tokenizer(sentences, truncation=True, max_length=longest)["input_ids"]
    batches = [[place] for place in range(len(sentences))] + batches
    embeddings = ",\n".join(numbers(embed(batch)) for batch in batches)
    parts = [
        '"sentences": ' + json.dumps(sentences, indent=0, ensure_ascii=False),
        '"tokens": ' + rows([[str(token) for token in row] for row in tokens]),
        '"batches": ' + rows([[str(place) for place in batch] for batch in batches]),
        '"embeddings": [\n' + embeddings + "\n]",
    ]
    with open(file, "w", encoding="utf-8") as out:
        out.write("{\n" + ",\n".join(parts) + "\n}\n")


def rows(rows):
    return "[\n" + ",\n".join("[" + ",".join(row) + "]" for row in rows) + "\n]"


def numbers(embeddings):
    """A list of rows, with the fewest digits that tell one f32 from the next."""
    shortest = lambda number: numpy.format_float_positional(number, unique=True, trim="0")
    return rows([[shortest(number) for number in row] for row in embeddings.numpy()])


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], SENTENCES, BATCHES)
