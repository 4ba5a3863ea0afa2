"""The names of PaddlePaddle Fluid, as names.def maps them.

`import paddle` finds python/compat/paddle when it is on the path, which
`fleetrun` and `python -m flotilla` see to; a notebook writes
`import flotilla.compat; flotilla.compat.install()`. A name that is not there
says so when it is asked for, with the nearest one.
"""
import difflib
import importlib
import os
import sys
import types

VERSION = "1.8.5+flotilla"


def _rows():
    """(paddle module, name or *, flotilla object) of each line."""
    path = os.path.join(os.path.dirname(__file__), "names.def")
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.split("#")[0].strip()
            if line:
                left, right = (side.strip() for side in line.split("="))
                module, _, name = left.rpartition(".")
                yield module, name, right


def _find(path):
    """The object that a dotted path names: a module, or something in one."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


class _Names(types.ModuleType):
    """A module of names that are looked up when they are asked for."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self._rows = {}
        self._stars = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._resolve(name)
        setattr(self, name, value)
        return value

    def _resolve(self, name):
        if name in self._rows:
            return _find(self._rows[name])
        for path in self._stars:
            module = _find(path)
            if hasattr(module, name):
                return getattr(module, name)
        near = difflib.get_close_matches(name, self.__dir__(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"{self.__name__} has no {name}{hint}")

    def __dir__(self):
        known = set(self._rows)
        for path in self._stars:
            known.update(n for n in dir(_find(path)) if not n.startswith("_"))
        prefix = self.__name__ + "."
        known.update(m[len(prefix):] for m in sys.modules
                     if m.startswith(prefix) and "." not in m[len(prefix):])
        return sorted(known)

    @property
    def __all__(self):
        return self.__dir__()


def _module(name):
    """The module, and its parents, made as they are needed."""
    found = sys.modules.get(name)
    if isinstance(found, _Names):
        return found
    made = _Names(name)
    if name == "paddle":
        made.__version__ = VERSION
        made.__file__ = getattr(found, "__file__", __file__)
        made.__path__ = list(getattr(found, "__path__", []))
    else:
        parent, _, last = name.rpartition(".")
        setattr(_module(parent), last, made)
    sys.modules[name] = made
    return made


def install():
    """Makes `paddle` and its modules importable in this process."""
    for module, name, path in _rows():
        m = _module(module)
        if name == "*":
            m._stars.append(path)
        else:
            m._rows[name] = path
