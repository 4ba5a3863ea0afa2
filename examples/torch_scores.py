#!/usr/bin/env python3
"""Scores of a trained ctr_dnn, computed by PyTorch.

    flotilla train ctr_dnn --data day.txt --save model
    flotilla export model --safetensors model.safetensors
    flotilla data convert --format criteo --to multislot day.txt -o lines.txt
    examples/torch_scores.py model.safetensors lines.txt

prints a score per line, those of `flotilla predict`.
"""
import json
import sys

import torch


def load(path):  # what safetensors.torch.load_file does, with u64 as its bits
    types = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U64": torch.int64}
    raw = open(path, "rb").read()
    data = 8 + int.from_bytes(raw[:8], "little")
    return {name: torch.frombuffer(bytearray(raw[data + t["data_offsets"][0]:data + t["data_offsets"][1]]),
                                   dtype=types[t["dtype"]]).reshape(t["shape"])
            for name, t in json.loads(raw[8:data]).items()
            if name != "__metadata__" and 0 not in t["shape"]}


def slots(line):  # "1 0 13 0.5 ...": a count, then so many values, per slot
    words = iter(line.split())
    return [[next(words) for _ in range(int(n))] for n in words]


model = load(sys.argv[1])
table = model["SparseFeatFactors.value"]
row = {key % 2**64: i for i, key in enumerate(model["SparseFeatFactors.key"].tolist())}
for line in open(sys.argv[2]):
    values = slots(line)
    dense = next(v for v in values if len(v) == 13)
    ids = [int(v[0]) for v in values if v is not dense][1:]  # the first is the label
    x = torch.cat([table[row[i]] for i in ids] + [torch.tensor([float(v) for v in dense])])
    for i in range(4):
        x = x @ model[f"fc_{i}.w_0"] + model[f"fc_{i}.b_0"]
        x = torch.softmax(x, 0) if i == 3 else torch.relu(x)
    print("%.6f" % x[1].item())
