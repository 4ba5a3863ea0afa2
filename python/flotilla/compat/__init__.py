"""The names of PaddlePaddle Fluid, as names.def maps them.

This folder has a package `paddle` (and `fleetx`) in it, and is on Python's path
only when somebody asks for it: `fleetrun script.py`, `python -m flotilla
script.py`, or by hand. A notebook writes

    import flotilla.compat; flotilla.compat.install()

A name that is not there says so when it is asked for, with the nearest one; one
that makes no sense here is there, and says why when it is called.
"""
import importlib
import importlib.machinery
import os
import sys
import types

from .. import near

VERSION = "1.8.5+flotilla"
FOLDER = os.path.dirname(os.path.abspath(__file__))


def _rows():
    """(module, name or *, flotilla object or None, why not) of each line."""
    path = os.path.join(os.path.dirname(FOLDER), "names.def")
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.split("#")[0].strip()
            if not line:
                continue
            left, right, why = _sides(line)
            module, _, last = left.rpartition(".")
            for name in last.strip("{}").split(","):
                yield module, name, right, why


def _sides(line):
    left, sign, right = line.partition(" = ")
    if sign:
        return left.strip(), right.strip(), None
    left, _, why = line.partition(" ! ")
    return left.strip(), None, why.strip()


def _find(path):
    """The object that a dotted path names: a module, or something in one."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def _refused(name, why):
    """Stands for what makes no sense here: may be imported and inherited from,
    and says why when it is called."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {why}")

    return type(name.rpartition(".")[2], (), {"__new__": refuse})


class _Names(types.ModuleType):
    """A module of names that are looked up when they are asked for."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, _Finder,
                                                       is_package=False)
        self.__path__ = [p for p in [os.path.join(FOLDER, *name.split("."))]
                         if os.path.isdir(p)]
        self._rows = {}
        self._stars = []
        self._why = {}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value, stays = self._resolve(name)
        if stays:
            setattr(self, name, value)
        return value

    def _resolve(self, name):
        """The value, and whether it will be the same next time: the attributes
        of an object may change."""
        if name in self._rows:
            return _find(self._rows[name]), True
        for path in self._stars:
            owner = _find(path)
            if hasattr(owner, name):
                return (getattr(owner, name),
                        isinstance(owner, types.ModuleType))
        if any(os.path.isdir(os.path.join(p, name)) for p in self.__path__):
            return importlib.import_module(f"{self.__name__}.{name}"), True
        why = self._why_not(name)
        if why:
            return _refused(f"{self.__name__}.{name}", why), True
        raise AttributeError(f"{self.__name__} has no {name}"
                             f"{near.hint(name, self.__dir__())}")

    def _why_not(self, name):
        """Why a name makes no sense here; a part of a module refuses what the
        whole does."""
        parent = sys.modules.get(self.__name__.rpartition(".")[0])
        whys = [self._why] + ([parent._why] if isinstance(parent, _Names)
                              else [])
        found = (w.get(name) for w in whys)
        return next((w for w in found if w), self._why.get("*"))

    def __dir__(self):
        known = set(self._rows) | set(self._why) - {"*"}
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
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(_module(parent), last, made)
    else:
        made.__version__ = VERSION
        made.__file__ = os.path.join(FOLDER, name, "__init__.py")
    sys.modules[name] = made
    return made


class _Finder:
    """Lets importlib.reload() have a module of names: it stays as it is."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if isinstance(target, _Names):
            return importlib.machinery.ModuleSpec(name, _Finder,
                                                  is_package=True)
        return None

    @staticmethod
    def get_code(name):
        """For python -m: there is nothing to run but names."""
        return compile("", name, "exec")

    @staticmethod
    def create_module(spec):
        return sys.modules.get(spec.name)

    @staticmethod
    def exec_module(module):
        pass


def install():
    """Makes `paddle` and its modules importable in this process."""
    found = sys.modules.get("paddle")
    if isinstance(found, _Names):
        return
    at = getattr(found, "__file__", None)
    if at and not os.path.realpath(at).startswith(os.path.realpath(FOLDER)):
        raise ImportError(f"another paddle is imported already, from {at}; "
                          "install these names before it, or run the script "
                          "by python -m flotilla")
    sys.meta_path.append(_Finder)
    for module, name, path, why in _rows():
        m = _module(module)
        if why:
            m._why[name] = why
        elif name == "*":
            m._stars.append(path)
        else:
            m._rows[name] = path
            m.__dict__.pop(name, None)  # a function named like its module
