"""Functions of columns as operators of the program (docs/features.md).

    columns, feeds = fl.features.build(
        "age = standard(age, 38, 14); who = cross(job, town)",
        format="csv:columns=age:float job:hash town:hash click:id",
        label="click")
    dataset.set_format(format)
    dataset.set_use_var(feeds)
"""
from typing import NamedTuple

from . import _core, ir, names
from .ir import Variable


class Column(NamedTuple):
    """One that the network gets: kind is "number" or "category"; width 0 stands
    for a list, height 0 for any id."""
    name: str
    var: Variable
    kind: str
    width: int
    height: int


def build(text, format, label=None, stats=None):
    """Appends the operators of the lines, or of a file "@PATH", to the main
    program; gives the columns and the variables that are fed."""
    program = ir.default_main_program()
    columns, feeds = _core.features(
        ir.ctx, program._handle, names.generate("features") + ".", text,
        format, label, stats)
    block = program.global_block()
    return ([Column(name, block.var(var), *rest)
             for name, var, *rest in columns],
            [block.var(name) for name in feeds])
