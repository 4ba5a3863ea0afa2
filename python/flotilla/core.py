"""What programs ask PaddlePaddle's core and framework for besides programs:
names, sizes of types, defaults of operators."""
import numpy as np

from . import fluid, ir, tensor, types
from .types import VarType

# --- names of variables and types --------------------------------------------

kGradVarSuffix = GRAD_VAR_SUFFIX = "@GRAD"
kEmptyVarName = EMPTY_VAR_NAME = "@EMPTY@"
kTempVarName = TEMP_VAR_NAME = "@TEMP@"
kZeroVarSuffix = ZERO_VAR_SUFFIX = "@ZERO"


def grad_var_suffix():
    return kGradVarSuffix


def empty_var_name():
    return kEmptyVarName


def size_of_dtype(dtype):
    return types.to_numpy(dtype).itemsize


def dtype_is_floating(dtype):
    return types.var_type(dtype) in (VarType.FP16, VarType.FP32, VarType.FP64)


def get_op_attrs_default_value(kind):
    """{attribute: default} of an operator."""
    name = kind.decode() if isinstance(kind, bytes) else kind
    return {n: _read(types.ATTR_TYPES[t], text)
            for n, t, text in ir.operator_view(name)["attrs"]}


_READERS = {types.AttrType.BOOL: lambda text: text == "true",
            types.AttrType.INT: int, types.AttrType.FLOAT: float,
            types.AttrType.BLOCK: int}


def _read(kind, text):
    """A value of an attribute from the library's text."""
    if text.startswith("["):
        one = _READERS.get(types.AttrType[kind.name[:-1]], str)
        return [one(part) for part in text[1:-1].split(",") if part]
    return _READERS.get(kind, str)(text)


def has_grad_op_maker(kind):
    """Whether the operator has a gradient."""
    return bool(ir.operator_view(kind)["has_gradient"])


def get_variable_tensor(scope, name):
    return scope.find_var(name).get_tensor()


def from_dlpack(capsule):
    """A tensor with the numbers of a DLPack capsule."""
    tensor.expect_dlpack()
    t = tensor.LoDTensor()
    t.set(np.from_dlpack(_Capsule(capsule)))
    return t


class _Capsule:
    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **how):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0  # the CPU


# --- feeds and fetches as variables of a scope -------------------------------

def set_feed_variable(scope, value, var_name, index):
    """Value `index` of the array that feeds are in."""
    array = scope.var(var_name).get_lod_tensor_array()
    for _ in range(len(array), index + 1):
        array.append(value)
    array[index] = value


def get_fetch_variable(scope, var_name, index):
    """Value `index` of the array that fetches are in."""
    return scope.find_var(var_name).get_lod_tensor_array()[index]


# --- programs and places ------------------------------------------------------

def _get_var(name, program=None):
    return (program or ir.default_main_program()).global_block().var(name)


def _current_expected_place():
    return tensor.CPUPlace()


def _cpu_num():
    return len(fluid.cpu_places())
