"""Values outside of programs: tensors with offsets, sparse rows, scopes."""
import contextlib

import numpy as np

from . import _core, show, types
from .ir import ctx


class CPUPlace:
    """This machine."""

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
        """Whether it is the CPU: yes."""
        return True


def _lengths_to_offsets(levels):
    return [[0] + np.cumsum(np.asarray(list(level), "int64")).tolist()
            for level in levels]


def _offsets_to_lengths(levels):
    return [np.diff(level).tolist() for level in levels]


def _fits(lod, n_rows=None):
    """Whether offsets rise from 0 and every level ends at the number of
    sequences of the next, the last one at the rows, if they are said."""
    ends = [len(level) - 1 for level in lod[1:]] + [n_rows]
    return all(len(level) > 1 and level[0] == 0 and end in (level[-1], None)
               and all(a <= b for a, b in zip(level, level[1:]))
               for level, end in zip(lod, ends))


def expect_dlpack():
    """Says so when numpy is too old for capsules."""
    if not hasattr(np, "from_dlpack"):
        raise NotImplementedError(f"numpy {np.__version__} has no DLPack; "
                                  "1.23 and later have")


class LoDTensor:
    """Numbers, and where sequences of them begin: offsets per level."""

    def __init__(self, of=None):
        """Of a value of the library, or with lengths of sequences."""
        self._dims = None  # said before there are numbers
        self._array, self._lod = None, []
        if isinstance(of, list):
            self.set_recursive_sequence_lengths(of)
        elif of is not None:
            self._keep(np.asarray(of), of.lod)

    def _keep(self, array, lod):
        """Where the numbers and offsets go: a scope has a way of its own."""
        self._array, self._lod = array, lod

    def _n_rows(self):
        shape = self.shape()
        return shape[0] if shape else 0

    # --- numbers ---

    def set(self, array, place=None, zero_copy=False):
        """Takes the numbers of an array."""
        array = np.ascontiguousarray(array)
        types.var_type(array.dtype)  # or it says what is possible
        self._keep(array, self._lod)

    def shape(self):
        """Its shape."""
        if self._array is not None:
            return list(self._array.shape)
        return [] if self._dims is None else list(self._dims)

    def _set_dims(self, dims):
        """The numbers stay where they are as many as before."""
        self._dims = list(dims)
        if self._array is None:
            return
        if self._array.size == np.prod(self._dims):
            self._keep(self._array.reshape(self._dims), self._lod)
        else:
            self._alloc(self._array.dtype)

    def _alloc(self, dtype):
        self._keep(np.zeros(self._dims or self.shape() or [0], dtype),
                   self._lod)

    def _alloc_float(self, place=None):
        self._alloc("float32")

    def _alloc_double(self, place=None):
        self._alloc("float64")

    def _alloc_int(self, place=None):
        self._alloc("int32")

    def _mutable_data(self, place=None, dtype=None):
        """The address of numbers of the type."""
        if dtype is not None and (self._array is None or
                                  self._dtype() != types.var_type(dtype)):
            self._alloc(types.to_numpy(dtype))
        return self._array.ctypes.data

    _ptr = _mutable_data

    def _dtype(self):
        if self._array is None:
            raise ValueError("a LoDTensor without numbers: set() gives it some")
        return types.var_type(self._array.dtype)

    def _is_initialized(self):
        return self._array is not None

    def _place(self):
        return CPUPlace()

    def _copy(self, place=None):
        copy = LoDTensor()
        copy._keep(np.array(self), self._lod)
        return copy

    def _get_dims(self):
        return self.shape()

    def _get_float_element(self, offset):
        return float(np.asarray(self).flat[offset])

    def _set_float_element(self, offset, value):
        array = np.array(self)
        array.flat[offset] = value
        self._keep(array, self._lod)

    _get_double_element = _get_float_element
    _set_double_element = _set_float_element

    def _to_dlpack(self):
        expect_dlpack()
        return np.array(self).__dlpack__()

    def _clear(self):
        self._dims = None
        self._keep(None, [])

    def _share_data_with(self, other):
        self._keep(other._array, other._lod)

    def __getitem__(self, index):
        part = LoDTensor()
        part.set(np.asarray(self._array)[index])
        return part

    def __array__(self, dtype=None, copy=None):
        if self._array is None:
            raise ValueError("a LoDTensor without numbers: set() gives it some")
        array = np.asarray(self._array, dtype=dtype)
        return array.copy() if copy else array

    def __buffer__(self, flags):
        """For memoryview and others, which ask for it from Python 3.12 on."""
        return memoryview(self.__array__())

    # --- offsets ---

    def set_lod(self, lod):
        """Takes offsets."""
        lod = [list(level) for level in lod]
        if not _fits(lod):
            raise ValueError(f"offsets {lod} are none: every level rises from 0"
                             " and ends at the number of sequences of the next")
        self._keep(self._array, lod)

    def lod(self):
        """Offsets, level by level."""
        return self._lod

    def set_recursive_sequence_lengths(self, lengths):
        """Takes lengths."""
        self.set_lod(_lengths_to_offsets(lengths))

    def recursive_sequence_lengths(self):
        """Lengths of its sequences, level by level."""
        return _offsets_to_lengths(self._lod)

    def has_valid_recursive_sequence_lengths(self):
        """Whether its lengths fit its rows."""
        return _fits(self._lod, self._n_rows())

    # --- for a run ---

    def _core(self):
        """A copy with its offsets, of the library's class."""
        return _core.tensor(np.asarray(self), self._lod, None, 0)

    def _fed(self):
        """What a run takes: the array itself, or one with its offsets."""
        return self._core() if self._lod else np.asarray(self)

    def __repr__(self):
        if self._array is None:
            return "LoDTensor(without numbers)"
        lod = (f"\tlod: {self._lod}\n" if self._lod else "")
        return (f"{lod}\tdim: {', '.join(map(str, self.shape()))}\n"
                f"\tdtype: {types.name_of(self._dtype())}\n"
                f"\tdata: {np.array2string(np.asarray(self))}\n")

    __str__ = __repr__

    def _repr_html_(self):
        if self._array is None:
            return "<b>LoDTensor</b> without numbers"
        lod = f" lod {self._lod}" if self._lod else ""
        return show.array(f"LoDTensor{lod}", self._array)


class SelectedRows:
    """Some rows of a table of `height` rows."""

    def __init__(self, rows=None, height=0, core=None):
        self._tensor = LoDTensor()
        self._keep(list(rows or []), height)
        if core is not None:
            self._keep(core.rows, core.height)
            self._tensor.set(np.asarray(core))

    def _keep(self, rows, height):
        self._rows, self._height = rows, height

    def rows(self):
        """Which rows it has."""
        return self._rows

    def set_rows(self, rows):
        """Says which rows it has."""
        self._keep(list(rows), self._height)

    def height(self):
        """How many rows the whole has."""
        return self._height

    def set_height(self, height):
        """Says how many rows the whole has."""
        self._keep(self._rows, height)

    def numel(self):
        """How many numbers its rows have."""
        return int(np.prod(self._tensor.shape()))

    def sync_index(self):
        """Rows are looked up as they are."""

    def get_tensor(self):
        """The values of its rows."""
        return self._tensor

    def _fed(self):
        return _core.tensor(np.asarray(self._tensor), [], self._rows,
                            self._height)

    def _repr_html_(self):
        return show.array(f"SelectedRows of {self._height}", self._tensor,
                          labels=self._rows)


class LoDTensorArray:
    """A list of tensors."""

    def __init__(self, core=None):
        self._items = [LoDTensor(item) for item in core.items] if core else []

    def _keep(self, items):
        self._items = items

    def append(self, tensor):
        copy = LoDTensor()
        copy._keep(np.array(tensor), tensor.lod())
        self._keep(self._items + [copy])

    def __setitem__(self, index, tensor):
        items = list(self._items)
        items[index] = tensor
        self._keep(items)

    def __getitem__(self, index):
        return self._items[index]

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        return iter(self._items)

    def _fed(self):
        return _core.tensor_array([item._core() for item in self._items])


def as_value(core):
    """A value of the library in its Python class."""
    if core.items is not None:
        return LoDTensorArray(core)
    return SelectedRows(core=core) if core.rows is not None else LoDTensor(core)


def create_lod_tensor(data, recursive_seq_lens, place=None):
    """A LoDTensor of an array, another one, or a list of sequences."""
    if isinstance(data, list):
        lengths = [len(s) for s in data]
        if [lengths] != recursive_seq_lens:
            raise AssertionError("data and recursive_seq_lens do not match")
        flat = np.concatenate([np.asarray(s) for s in data])
        data = flat.reshape([len(flat), 1]).astype("int64")
    if not isinstance(data, (np.ndarray, LoDTensor)):
        raise TypeError("data should be either a LoDTensor, a Numpy array or a "
                        f"list, not {type(data)}")
    t = LoDTensor()
    t.set(np.asarray(data))
    t.set_recursive_sequence_lengths(recursive_seq_lens)
    if not t.has_valid_recursive_sequence_lengths():
        raise AssertionError("the provided lod info is invalid")
    return t


def create_random_int_lodtensor(recursive_seq_lens, base_shape, place, low,
                                high):
    """Sequences of random whole numbers."""
    rows = sum(recursive_seq_lens[-1])
    data = np.random.randint(low, high + 1, [rows] + list(base_shape))
    return create_lod_tensor(data.astype("int64"), recursive_seq_lens, place)


# --- scopes ----------------------------------------------------------------

class _ScopeTensor(LoDTensor):
    """The tensor of a variable in a scope: it is read there, and written as
    soon as it has numbers."""

    def __init__(self, var):
        self._var = var
        self._waiting = []  # offsets that no numbers fit yet
        self._dims = None

    @property
    def _array(self):
        core = self._var._core()
        return None if core is None else np.asarray(core)

    @property
    def _lod(self):
        core = self._var._core()
        return self._waiting or ([] if core is None else core.lod)

    def _keep(self, array, lod):
        fits = array is not None and (not lod or _fits(lod, len(array)))
        self._waiting = [] if fits else lod
        if array is None:
            self._var._drop()
        else:
            self._var._write(_core.tensor(array, lod if fits else [], None, 0))


class _RowsTensor(LoDTensor):
    """The values of sparse rows in a scope."""

    def __init__(self, rows):
        self._of = rows
        self._dims = None
        self._lod = []

    @property
    def _array(self):
        return self._of._now()[2]

    def _keep(self, array, lod):
        self._of._change(array=array)


class _ScopeRows(SelectedRows):
    """Sparse rows in a scope; they are written when rows and values are as
    many."""

    def __init__(self, var):
        self._var = var
        self._waiting = {}
        self._tensor = _RowsTensor(self)

    def _now(self):
        """(rows, height, array): those of the scope with what waits."""
        core = self._var._core()
        rows, height, array = [], 0, None
        if core is not None:
            rows, height, array = core.rows or [], core.height, np.asarray(core)
        return (self._waiting.get("rows", rows),
                self._waiting.get("height", height),
                self._waiting.get("array", array))

    def _change(self, **fields):
        self._waiting.update(fields)
        rows, height, array = self._now()
        if array is None:
            return
        if self._waiting.get("rows") == []:
            array = array[:0]  # room for rows, of which there are none
        if len(array) == len(rows) and (len(rows) or "rows" in self._waiting):
            self._var._write(_core.tensor(array, [], rows, height))
            self._waiting = {}

    def set_rows(self, rows):
        self._change(rows=list(rows))

    def set_height(self, height):
        self._change(height=height)

    @property
    def _rows(self):
        return self._now()[0]

    @property
    def _height(self):
        return self._now()[1]


class _ScopeArray(LoDTensorArray):
    def __init__(self, var):
        self._var = var

    @property
    def _items(self):
        core = self._var._core()
        return [] if core is None else LoDTensorArray(core)._items

    def _keep(self, items):
        self._var._write(_core.tensor_array([i._core() for i in items]))


class _RankTable:
    """What lod_rank_table makes: numbers and lengths of sequences."""

    def __init__(self, table):
        self._table = table

    def items(self):
        return [tuple(int(n) for n in row) for row in self._table]


class _ScopeVar:
    """A variable of a scope: what it holds is said by what is asked for."""

    def __init__(self, scope, name):
        self._scope, self.name = scope, name
        self._faces = {}
        self._int = None

    def _core(self):
        return _core.scope_get(self._scope._handle, self.name)

    def _write(self, value):
        _core.scope_set(self._scope._handle, self.name, value)

    def _drop(self):
        _core.scope_drop(self._scope._handle, self.name)

    def _value(self):
        core = self._core()
        return LoDTensor() if core is None else as_value(core)

    def _face(self, kind):
        return self._faces.setdefault(kind, kind(self))

    def get_tensor(self):
        return self._face(_ScopeTensor)

    def get_selected_rows(self):
        return self._face(_ScopeRows)

    def get_lod_tensor_array(self):
        return self._face(_ScopeArray)

    get_fetch_list = get_lod_tensor_array

    def get_lod_rank_table(self):
        return _RankTable(np.asarray(self._value()))

    def is_int(self):
        return self._int is not None

    def set_int(self, value):
        self._int = int(value)

    def get_int(self):
        if self._int is None:
            raise ValueError(f"variable {self.name} holds no int")
        return self._int


class Scope:
    """Named values between runs, with a parent whose values it shows."""

    def __init__(self, handle=None, parent=None):
        self._parent = parent
        self._handle = handle or _core.scope_new(
            parent._handle if parent else None)
        self._kids = []
        self._vars = {}

    def var(self, name):
        """The variable of this scope; a new one has no value."""
        return self._vars.setdefault(name, _ScopeVar(self, name))

    def find_var(self, name):
        """The variable here or in a parent; None when there is none."""
        if name in self._vars or _core.scope_has(self._handle, name):
            return self.var(name)
        return self._parent.find_var(name) if self._parent else None

    def new_scope(self):
        """A scope that sees this one's variables."""
        kid = Scope(parent=self)
        self._kids.append(kid)
        return kid

    def drop_kids(self):
        """Forgets the scopes below it."""
        self._kids.clear()

    def erase(self, found):
        """Forgets variables."""
        for name in found:
            self._vars.pop(name, None)
            _core.scope_drop(self._handle, name)

    def local_var_names(self):
        """Names of its own variables."""
        kept = _core.scope_names(self._handle)
        return kept + [n for n in self._vars if n not in kept]


_global = Scope(_core.scope_current(ctx))
_current = _global


def global_scope():
    """The scope that runs use unless another is given."""
    return _current


@contextlib.contextmanager
def scope_guard(scope):
    """Runs inside use another scope."""
    global _current
    old, _current = _current, scope
    try:
        yield
    finally:
        _current = old
