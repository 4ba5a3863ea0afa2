"""Attributes that operators get from where they are added: the part of the net
that they belong to, and the device that is wished for."""
import collections
import contextlib

_marks = {}  # attributes that operators get which are added now


class NameScope:
    """A part of a net: parts of one name in the same part are numbered."""

    def __init__(self, name="", parent=None):
        self._name, self._parent = name, parent
        self._n_children = collections.Counter()  # by their names

    def child(self, prefix):
        n = self._n_children[prefix]
        self._n_children[prefix] += 1
        return NameScope(f"{prefix}_{n}" if n else prefix, self)

    def parent(self):
        return self._parent

    def name(self):
        return self._name

    def _path(self):
        return f"{self._parent._path()}{self._name}/" if self._parent else "/"


_name_scope = NameScope()


@contextlib.contextmanager
def _marking(**marks):
    global _marks
    old, _marks = _marks, {**_marks, **marks}
    try:
        yield
    finally:
        _marks = old


@contextlib.contextmanager
def name_scope(prefix=None):
    """A name for a part of a net; its operators have it as op_namescope."""
    global _name_scope
    if not prefix:
        raise AssertionError("namescope prefix can not be empty.")
    _name_scope = _name_scope.child(prefix)
    try:
        with _marking(op_namescope=_name_scope._path()):
            yield
    finally:
        _name_scope = _name_scope.parent()


@contextlib.contextmanager
def device_guard(device=None):
    """The device that is wished for, which operators have as op_device; they
    compute on the CPU."""
    if device not in (None, "", "cpu", "gpu"):
        raise ValueError("The Attr(device) should be 'cpu' or 'gpu', and it "
                         "can also be empty string or None when there is no "
                         f"need to specify device. But received {device}")
    with _marking(op_device=device or ""):
        yield


def current():
    return _marks
