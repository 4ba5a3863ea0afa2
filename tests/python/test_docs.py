"""The README and the pages of docs/python: their Python runs, block after
block.

    test_docs.py PAGE ...
"""
import os
import re
import sys
import tempfile
import unittest

import flotilla as fl
from flotilla import _core

PAGES = [os.path.abspath(p) for p in sys.argv[1:]]
del sys.argv[1:]


def blocks(page):
    """(line, code) of each block of Python."""
    with open(page, encoding="utf-8") as f:
        text = f.read()
    for m in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
        yield text[:m.start(1)].count("\n"), m.group(1)


def run(page):
    """Runs its blocks in a folder and with programs of their own; how many."""
    names, n = {}, 0
    with tempfile.TemporaryDirectory() as folder, \
            fl.program_guard(fl.Program(), fl.Program()), \
            fl.unique_name.guard(), fl.scope_guard(fl.Scope()):
        os.chdir(folder)
        for line, code in blocks(page):
            exec(compile("\n" * line + code, page, "exec"), names)
            n += 1
        os.chdir("/")
    return n


class Pages(unittest.TestCase):
    def test_every_block_runs(self):
        for page in PAGES:
            with self.subTest(page):
                self.assertGreater(run(page), 0)


class Differences(unittest.TestCase):
    def test_operators_that_differ_from_1_8_are_named(self):
        page, = [p for p in PAGES if p.endswith("differences.md")]
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for name in _core.operator_names():
            if "PaddlePaddle 1.8" in _core.operator_look(name)["doc"]:
                self.assertIn(f"`{name}`", text)


if __name__ == "__main__":
    unittest.main()
