"""The layers of C and those of Python append the same operators.

    test_layers_c.py LAYERS_NET

LAYERS_NET prints the network that C builds.
"""
import re
import subprocess
import sys
import unittest

import flotilla as fl
from kit import NetCase

LAYERS_NET = sys.argv.pop(1)
L = fl.layers


def pooled(name, pool):
    ids = L.data(name, [1], dtype="int64", lod_level=1)
    rows = L.embedding(ids, [100, 8], is_sparse=True, param_attr="rows")
    return L.sequence_pool(rows, pool)


def tower():
    parts = [pooled("a", "sum"), pooled("b", "average"), L.data("x", [4])]
    h = L.fc(L.layer_norm(L.concat(parts, axis=1)), 16, act="relu")
    return L.fc(L.clip(h, 0, 5), 2, act="softmax")


def moved():
    cube = L.reshape(L.data("y", [6]), [-1, 2, 3])
    cut = L.slice(L.transpose(cube, [0, 2, 1]), axes=[1], starts=[0], ends=[2])
    return L.reduce_sum(L.square(cut), dim=1)


def net():
    cost = tower()
    label = L.data("label", [1], dtype="int64")
    cost = L.mean(L.cross_entropy(cost, label))
    wide = L.mean(L.sigmoid(moved()))
    return L.elementwise_add(cost, L.scale(wide, 0.5, 1.0))


# Outputs that C leaves out where nobody asks for them.
BESIDES = {"XShape", "MaxIndex", "MatchX", "Mean", "Variance"}
OPERATOR = re.compile(r"op (\w+) \((.*?)\) -> \((.*?)\)(?: \{(.*)\})?$")
SLOT = re.compile(r"(\w+)=(\[[^]]*\]|[^,]+)")


def slots(text, numbers):
    """(slot, variables); those that the network makes are numbered."""
    found = []
    for slot, names in SLOT.findall(text):
        names = names.strip("[]").split(",")
        found.append((slot, [numbers.get(n, n) for n in names]))
    return found


def operators(text):
    """Operators of a program as (type, inputs, outputs, attributes)."""
    numbers, found = {}, []
    for line in text.splitlines():
        if not line.startswith("op "):
            continue
        line = re.sub(r", infer_flags=\[[^]]*\]", "", line)  # Fluid's alone
        kind, ins, outs, attrs = OPERATOR.match(line).groups()
        read = slots(ins, numbers)
        made = [(s, v) for s, v in slots(outs, {}) if s not in BESIDES]
        for _, names in made:
            numbers.update((n, len(numbers)) for n in names)
        found.append((kind, read, [s for s, _ in made], attrs))
    return found


class LayersOfBoth(NetCase):
    maxDiff = None

    def test_the_same_network_has_the_same_operators(self):
        found = subprocess.run([LAYERS_NET], check=True, capture_output=True,
                               text=True, timeout=60)
        net()
        self.assertEqual(operators(str(self.main)), operators(found.stdout))


if __name__ == "__main__":
    unittest.main()
