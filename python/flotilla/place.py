"""Which line of the user's script built what an error is about.

The library knows operators and variables by the tags that they were built
with; a program keeps the line of the script under each (Program._extra).
"""
import linecache
import sys


def caller():
    """(file, line) outside of this package that is being run."""
    frame = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").startswith("flotilla."):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("?", 0)


def text(where):
    """A line as people read it: where it is, and what stands there."""
    path, number = where
    source = linecache.getline(path, number).strip()
    return f"{path}, line {number}" + (f": {source}" if source else "")


def _add(error, what, where):
    """Adds a line to the error's sentence; its attribute `place` is the first
    one."""
    if not hasattr(error, "place"):
        error.place = where
    error.args = (f"{error}\n  {what}: {text(where)}",)


def name_lines(error, program):
    """Adds the lines of what an error of the library is about; one of Python's
    own has no place."""
    for what, kind in (("op", "operator"), ("var", "variable")):
        name = getattr(error, what, None)
        tag = getattr(error, f"{what}_tag", None)
        where = program._extra.get(tag, {}).get("op_callstack")
        if name and where:
            _add(error, f"{kind} {name} comes from", where)


class Declared(Exception):
    """What an error is about, and the line of the script that it is from."""


def caused(error, what, where):
    """The error, with that line as its cause: scripts compare its sentence
    with that of 1.8."""
    if where:
        error.place = where
        error.__cause__ = Declared(f"{what} comes from: {text(where)}")
    return error


def name_line(error, what, where):
    """The same for something that is being built."""
    _add(error, f"{what} comes from", where)
