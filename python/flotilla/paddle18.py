"""Tensors as files of PaddlePaddle 1.8 have them (docs/formats/paddle18.md):
one variable, or several one behind the other in the order of their names. A
value is an array, a LoDTensor where it has sequences, or SelectedRows."""
import struct

import numpy as np

from . import types
from .tensor import LoDTensor, SelectedRows
from .types import VarType

_TYPES = (VarType.BOOL, VarType.INT16, VarType.INT32, VarType.INT64,
          VarType.FP16, VarType.FP32, VarType.FP64, VarType.UINT8,
          VarType.INT8)


def _varint(n):
    """A number as protocol buffers write it; negative ones as 64 bits."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _describe(array):
    """TensorDesc: 1 data_type, 2 dims*."""
    kind = int(types.var_type(array.dtype))
    return (b"\x08" + _varint(kind) +
            b"".join(b"\x10" + _varint(n) for n in array.shape))


def write(f, value):
    """An array, a tensor with its sequences, or rows."""
    if isinstance(value, SelectedRows):
        rows = np.asarray(value.rows(), "<i8")
        f.write(struct.pack("<IQ", 0, len(rows)) + rows.tobytes() +
                struct.pack("<q", value.height()))
        _write_numbers(f, value.get_tensor())
        return
    lod = value.lod() if isinstance(value, LoDTensor) else []
    f.write(struct.pack("<IQ", 0, len(lod)))
    for level in lod:
        offsets = np.asarray(level, "<u8").tobytes()
        f.write(struct.pack("<Q", len(offsets)) + offsets)
    _write_numbers(f, value)


def _write_numbers(f, value):
    array = np.ascontiguousarray(value)
    text = _describe(array)
    f.write(struct.pack("<Ii", 0, len(text)))
    f.write(text)
    f.write(array.tobytes())


class _Reader:
    """Bytes of a file, which may end too early."""

    def __init__(self, data, what):
        self._data, self._at, self._what = data, 0, what

    def fail(self, why):
        raise ValueError(f"{self._what}: {why}, at byte {self._at}")

    def take(self, n):
        if n < 0 or self._at + n > len(self._data):
            self.fail(f"{n} bytes more are wanted than there are")
        self._at += n
        return self._data[self._at - n:self._at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def is_done(self):
        return self._at == len(self._data)

    def varint(self):
        n = shift = 0
        while True:
            byte = self.take(1)[0]
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n - (1 << 64) if n >> 63 else n
            if shift > 63:
                self.fail("a number is too long")


def _description(data, what):
    r = _Reader(data, what)
    kind, dims = None, []
    while not r.is_done():
        key = r.varint()
        if key == 0x08:
            kind = r.varint()
        elif key == 0x10:
            dims.append(r.varint())
        elif key == 0x12:  # packed
            packed = _Reader(r.take(r.varint()), what)
            while not packed.is_done():
                dims.append(packed.varint())
        else:
            r.fail(f"field {key >> 3} of a tensor is not known")
    if kind not in _TYPES:
        r.fail(f"type {kind} of a tensor is not known")
    return types.to_numpy(VarType(kind)), dims


def _begin(r):
    if r.number("I") != 0:
        r.fail("no tensor of PaddlePaddle 1.8 begins")
    return r.number("Q")


def _read_one(r, what):
    lod = [np.frombuffer(r.take(r.number("Q")), "<u8").tolist()
           for _ in range(_begin(r))]
    array = _read_numbers(r, what)
    if not lod:
        return array
    found = LoDTensor()
    found.set(array)
    try:
        found.set_lod(lod)
    except ValueError as e:
        r.fail(str(e))
    return found


def _read_numbers(r, what):
    if r.number("I") != 0:
        r.fail("the version of a tensor is not 0")
    dtype, dims = _description(r.take(r.number("i")), what)
    n = int(np.prod(dims, dtype="int64"))
    array = np.frombuffer(r.take(n * dtype.itemsize), dtype=dtype)
    return array.reshape(dims).copy()


def read_rows(data, what):
    """The rows of a file's bytes."""
    r = _Reader(data, what)
    rows = np.frombuffer(r.take(8 * _begin(r)), "<i8").tolist()
    found = SelectedRows(rows, r.number("q"))
    found.get_tensor().set(_read_numbers(r, what))
    return found


def read_all(data, what):
    """The tensors of a file's bytes; `what` names it in errors."""
    r = _Reader(data, what)
    found = []
    while not r.is_done():
        found.append(_read_one(r, what))
    return found
