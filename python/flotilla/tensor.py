"""Values outside of programs: tensors with offsets, sparse rows, scopes."""
import contextlib

import numpy as np

from . import _core, types
from .ir import ctx


class CPUPlace:
    def __repr__(self):
        return "CPUPlace"

    __str__ = __repr__

    def __eq__(self, other):
        return isinstance(other, CPUPlace)

    def __hash__(self):
        return 0

    def _equals(self, other):
        return self == other

    def _type(self):
        """Fluid's number of the kind of place: there is one."""
        return 0

    def is_cpu_place(self):
        return True


def _lengths_to_offsets(levels):
    return [[0] + np.cumsum(level).astype("int64").tolist()
            for level in levels]


def _offsets_to_lengths(levels):
    return [np.diff(level).tolist() for level in levels]


class LoDTensor:
    """Numbers, and where sequences of them begin: offsets per level."""

    def __init__(self, core=None):
        self._array = None if core is None else np.asarray(core)
        self._lod = [] if core is None else core.lod

    def set(self, array, place=None):
        self._array = np.ascontiguousarray(array)

    def set_lod(self, lod):
        self._lod = [list(level) for level in lod]

    def lod(self):
        return self._lod

    def set_recursive_sequence_lengths(self, lengths):
        self._lod = _lengths_to_offsets(lengths)

    def recursive_sequence_lengths(self):
        return _offsets_to_lengths(self._lod)

    def has_valid_recursive_sequence_lengths(self):
        if not self._lod:
            return True
        ends = [level[-1] for level in self._lod]
        counts = [len(level) - 1 for level in self._lod[1:]]
        rows = [len(self._array)] if self._array is not None else [0]
        rising = all(a <= b for level in self._lod
                     for a, b in zip(level, level[1:]))
        return rising and ends == counts + rows

    def shape(self):
        return [] if self._array is None else list(self._array.shape)

    def _dtype(self):
        return types.var_type(self._array.dtype)

    def _is_initialized(self):
        return self._array is not None

    def _place(self):
        return CPUPlace()

    def _fed(self):
        """What a run takes: the array itself, or one with its offsets."""
        if self._array is None:
            raise ValueError("a LoDTensor without numbers: set() gives it some")
        if not self._lod:
            return self._array
        return _core.tensor(self._array, self._lod, None, 0)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype=dtype)

    def __repr__(self):
        return f"LoDTensor(lod={self._lod}, data={self._array!r})"


class SelectedRows:
    """Some rows of a table of `height` rows."""

    def __init__(self, rows=None, height=0, core=None):
        self._rows = list(rows or [])
        self._height = height
        self._tensor = LoDTensor()
        if core is not None:
            self._rows, self._height = core.rows, core.height
            self._tensor.set(np.asarray(core))

    def rows(self):
        return self._rows

    def set_rows(self, rows):
        self._rows = list(rows)

    def height(self):
        return self._height

    def set_height(self, height):
        self._height = height

    def get_tensor(self):
        return self._tensor

    def _fed(self):
        return _core.tensor(self._tensor._array, [], self._rows, self._height)


def as_value(core):
    """A value of the library in its Python class."""
    return SelectedRows(core=core) if core.rows is not None else LoDTensor(core)


def create_lod_tensor(data, recursive_seq_lens, place=None):
    """A LoDTensor of an array, another one, or a list of sequences."""
    if isinstance(data, list):
        lengths = [len(s) for s in data]
        if [lengths] != recursive_seq_lens:
            raise AssertionError("data and recursive_seq_lens do not match")
        flat = np.concatenate([np.asarray(s) for s in data])
        data = flat.reshape([len(flat), 1]).astype("int64")
    t = LoDTensor()
    t.set(np.asarray(data))
    t.set_recursive_sequence_lengths(recursive_seq_lens)
    if not t.has_valid_recursive_sequence_lengths():
        raise AssertionError("the provided lod info is invalid")
    return t


def create_random_int_lodtensor(recursive_seq_lens, base_shape, place, low,
                                high):
    rows = sum(recursive_seq_lens[-1])
    data = np.random.randint(low, high + 1, [rows] + list(base_shape))
    return create_lod_tensor(data.astype("int64"), recursive_seq_lens, place)


# --- scopes ----------------------------------------------------------------

class _ScopeTensor:
    """The value of a variable in a scope; set() writes it there."""

    def __init__(self, var):
        self._var = var

    def set(self, array, place=None):
        self._var._write(np.ascontiguousarray(array))

    def __getattr__(self, name):
        return getattr(self._var._value(), name)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._var._value(), dtype=dtype)

    def set_lod(self, lod):
        value = self._var._value()
        value.set_lod(lod)
        self._var._write(value._fed())

    def set_recursive_sequence_lengths(self, lengths):
        self.set_lod(_lengths_to_offsets(lengths))


class _ScopeRows(SelectedRows):
    """Sparse rows in a scope; they are written when they have values."""

    def __init__(self, var):
        core = _core.scope_get(var._scope._handle, var.name)
        has_rows = core is not None and core.rows is not None
        super().__init__(core=core if has_rows else None)
        self._var = var

    def set_rows(self, rows):
        super().set_rows(rows)
        self._write()

    def set_height(self, height):
        super().set_height(height)
        self._write()

    def get_tensor(self):
        return _RowsTensor(self)

    def _write(self):
        array = self._tensor._array
        if array is not None and len(array) == len(self._rows):
            self._var._write(self._fed())


class _RowsTensor:
    """The values of sparse rows in a scope."""

    def __init__(self, rows):
        self._rows = rows

    def set(self, array, place=None):
        self._rows._tensor.set(array)
        self._rows._write()

    def __getattr__(self, name):
        return getattr(self._rows._tensor, name)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._rows._tensor, dtype=dtype)


class _ScopeVar:
    def __init__(self, scope, name):
        self._scope, self.name = scope, name

    def _value(self):
        core = _core.scope_get(self._scope._handle, self.name)
        return LoDTensor() if core is None else as_value(core)

    def _write(self, value):
        _core.scope_set(self._scope._handle, self.name, value)

    def get_tensor(self):
        return _ScopeTensor(self)

    def get_selected_rows(self):
        return _ScopeRows(self)

    def is_int(self):
        return False


class Scope:
    """Named values between runs, with a parent whose values it shows."""

    def __init__(self, handle=None, parent=None):
        self._parent = parent
        self._handle = handle or _core.scope_new(
            parent._handle if parent else None)
        self._kids = []

    def var(self, name):
        return _ScopeVar(self, name)

    def find_var(self, name):
        """The variable here or in a parent; None when there is none."""
        if _core.scope_get(self._handle, name) is None:
            return None
        return _ScopeVar(self, name)

    def new_scope(self):
        kid = Scope(parent=self)
        self._kids.append(kid)
        return kid

    def drop_kids(self):
        self._kids.clear()

    def erase(self, found):
        for name in found:
            _core.scope_drop(self._handle, name)

    def local_var_names(self):
        return _core.scope_names(self._handle)


_global = Scope(_core.scope_current(ctx))
_current = _global


def global_scope():
    return _current


@contextlib.contextmanager
def scope_guard(scope):
    global _current
    old, _current = _current, scope
    try:
        yield
    finally:
        _current = old
