"""Writes the seeds that PyTorch and safetensors make: python make.py

The others are by hand. Storages of the pickles are as long as those that the target `pickle` adds: 64
bytes.
"""

import argparse
import collections
import io
import pathlib
import zipfile

import torch
from safetensors.torch import save

HERE = pathlib.Path(__file__).parent


def archive(value, protocol):
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol)
    return buffer.getvalue()


def pickle(value, protocol):
    return zipfile.ZipFile(io.BytesIO(archive(value, protocol))).read("archive/data.pkl")


def put(path, data):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


numbers = torch.arange(16.0).reshape(2, 2, 4)
values = {
    "views": collections.OrderedDict(a=numbers, b=numbers.permute(2, 0, 1), c=numbers[1, :, ::2], d=numbers[0, 1, 3]),
    "parameter": {"p": torch.nn.Parameter(numbers), "e": torch.empty(0, 3)},
    "types": {
        "h": torch.ones(32).half(),
        "f8": torch.ones(64).to(torch.float8_e4m3fn),
        "i": torch.ones(8, dtype=torch.int64),
        "u": torch.ones(32, dtype=torch.uint16),
    },
    "nested": {"state_dict": {"x": numbers}, "epoch": 3, "list": [1.5, (numbers,), None, "a"], 7: {True: b"x"}},
    "objects": {"args": argparse.Namespace(lr=0.1), "set": {1}, "big": 2**70, "x": numbers},
    "kinds": {"n": torch._neg_view(numbers), "c": torch.ones(4, dtype=torch.complex128), "s": numbers.to_sparse()},
}
for name, value in values.items():
    for protocol in (2, 5):
        put(f"pickle/{name}-{protocol}", pickle(value, protocol))
put("pytorch/views", archive(values["views"], 2))
put("pytorch/nested", archive(values["nested"], 4))
small = {"a": numbers[0].contiguous(), "b": torch.ones(3).bfloat16(), "c": torch.empty(0, 2), "d": torch.tensor(1)}
put("safetensors/small", save(small, {"format": "pt"}))
put("safetensors/none", save({}))
