"""Every name of PaddlePaddle 1.8.5's modules of layers, optimizers and what
belongs to them takes the arguments that signatures.txt has, or says by name
that it is not there.

    python3 test_signatures.py --record >signatures.txt

under PaddlePaddle 1.8.5 writes the answers.
"""
import importlib
import inspect
import os
import sys
import unittest

try:
    import flotilla.compat
    flotilla.compat.install()
except ImportError:
    pass  # under PaddlePaddle itself

MODULES = ["layers", "optimizer", "initializer", "regularizer", "clip",
           "metrics", "nets", "evaluator", "average", "backward", "param_attr",
           "input"]


def parameters(what):
    """The parameters of a function or of a class as text."""
    found = inspect.signature(what).parameters.values()
    return " ".join(f"{p.name}={shown(p.default)}"
                    if p.default is not p.empty else
                    "*" * max(0, p.kind - 1) + p.name for p in found)


def shown(default):
    if isinstance(default, (type(None), bool, int, float, str, list)):
        return repr(default).replace(" ", "")
    return "?"


def module(name):
    return importlib.import_module("paddle.fluid." + name)


def record():
    for name in MODULES:
        for word in sorted(set(module(name).__all__)):
            what = getattr(module(name), word)
            if callable(what):
                print(name, word, parameters(what))


def recorded():
    """(module, name, parameters) of each line."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "signatures.txt")
    with open(path, encoding="utf-8") as f:
        for line in f:
            name, word, *words = line.split()
            yield name, word, " ".join(words)


class Signatures(unittest.TestCase):
    def test_what_is_there_takes_what_1_8_5_takes(self):
        for name, word, want in recorded():
            with self.subTest(name=f"{name}.{word}"):
                what = getattr(module(name), word)
                if not self.is_refused(what):
                    self.compare(want.split(), parameters(what).split())

    def compare(self, want, got):
        """A default that is an object of the original's is not compared."""
        got = [w if w.endswith("=?") and g.startswith(w[:-1]) else g
               for w, g in zip(want, got)] + got[len(want):]
        self.assertEqual(want, got)

    def test_what_is_not_there_says_so_by_name(self):
        refused = [(name, word) for name, word, _ in recorded()
                   if self.is_refused(getattr(module(name), word))]
        self.assertTrue(refused)
        for name, word in refused:
            with self.assertRaisesRegex(NotImplementedError,
                                        f"paddle.fluid.{name}.{word}: "):
                getattr(module(name), word)()

    @staticmethod
    def is_refused(what):
        return (isinstance(what, type) and what.__module__ ==
                "flotilla.compat" and what.__new__ is not object.__new__)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()
