"""Types of numbers and kinds of variables, with the numbers that Fluid gives
them, and the ways in which people write them."""
import enum

import numpy as np


class VarType(enum.IntEnum):
    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    UINT8 = 20
    INT8 = 21
    UINT64 = 100  # ours: keys of tables


# The library's number of a type, its word, and numpy's name.
_TYPES = {
    VarType.FP32: (0, "float32"),
    VarType.FP64: (1, "float64"),
    VarType.INT32: (2, "int32"),
    VarType.INT64: (3, "int64"),
    VarType.UINT64: (4, "uint64"),
    VarType.UINT8: (5, "uint8"),
    VarType.BOOL: (6, "bool"),
    VarType.FP16: (7, "float16"),
    VarType.INT8: (8, "int8"),
    VarType.INT16: (9, "int16"),
}
_BY_CORE = {number: kind for kind, (number, _) in _TYPES.items()}
_BY_NAME = {name: kind for kind, (_, name) in _TYPES.items()}
_BY_NAME.update({"fp32": VarType.FP32, "fp64": VarType.FP64, "fp16": VarType.FP16})

# Words of the texts of programs.
_BY_NAME.update({"f32": VarType.FP32, "f64": VarType.FP64,
                 "i32": VarType.INT32, "i64": VarType.INT64,
                 "u64": VarType.UINT64, "u8": VarType.UINT8})

KIND_DENSE, KIND_RAGGED, KIND_ROWS, KIND_ARRAY = 0, 1, 2, 3


class UnknownType(TypeError, ValueError):
    """A word that is no type: Fluid's checks of arguments raise the one, its
    conversions the other."""


def var_type(dtype):
    """VarType of whatever means a type: one, a name, numpy's, a class."""
    if isinstance(dtype, VarType):
        return dtype
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return VarType(dtype)
    try:
        name = dtype if dtype in _BY_NAME else np.dtype(dtype).name
    except TypeError:
        name = dtype
    if name not in _BY_NAME:
        raise UnknownType(f"no variable can have type {name}; there are "
                          f"{', '.join(n for _, n in _TYPES.values())}")
    return _BY_NAME[name]


def to_core(dtype):
    """The library's number of a type."""
    kind = var_type(dtype)
    if kind not in _TYPES:
        raise TypeError(f"no variable can have type {kind.name}")
    return _TYPES[kind][0]


def from_core(number):
    return _BY_CORE[number]


def name_of(dtype):
    """numpy's name, which is also the word of the library's attributes."""
    return _TYPES[var_type(dtype)][1]


def to_numpy(dtype):
    return np.dtype(name_of(dtype))


class AttrType(enum.IntEnum):
    """Fluid's types of attributes."""
    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOL = 6
    BOOLS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11


# By the library's number: bool, int, float, string, ints, floats, strings,
# block.
ATTR_TYPES = (AttrType.BOOL, AttrType.INT, AttrType.FLOAT, AttrType.STRING,
              AttrType.INTS, AttrType.FLOATS, AttrType.STRINGS, AttrType.BLOCK)


def attr_type_of(value):
    """The type of an attribute that the library does not know."""
    if isinstance(value, (list, tuple)):
        one = attr_type_of(value[0]) if value else AttrType.STRING
        return AttrType[one.name + "S"]
    for python, kind in ((bool, AttrType.BOOL), (int, AttrType.INT),
                         (float, AttrType.FLOAT)):
        if isinstance(value, python):
            return kind
    return AttrType.STRING
