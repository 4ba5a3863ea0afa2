"""First values of parameters: an operator in front of the startup program
each."""
import contextlib
import math

import numpy as np

from . import ir, names, types
from .check import check_variable_and_dtype
from .types import VarType


class Initializer:
    """Writes the operator of a variable's first value."""

    _TMP = "init"  # in the name of what a 16-bit parameter is cast from

    def __call__(self, param, block=None):
        raise NotImplementedError

    def _words(self):
        """The same for the rows of a table."""
        raise NotImplementedError(f"{type(self).__name__}: rows of a table "
                                  "begin with Constant, Uniform, Normal, "
                                  "TruncatedNormal or Xavier")

    @staticmethod
    def _compute_fans(var):
        """Inputs and outputs of a layer with these weights."""
        shape = var.shape
        if not shape:
            return 1, 1
        if len(shape) == 1:
            return shape[0], shape[0]
        if len(shape) == 2:
            return shape[0], shape[1]
        field = int(np.prod(shape[2:]))
        return shape[1] * field, shape[0] * field

    def _write(self, block, kind, param, **attrs):
        """The operator that gives param its numbers. There are none of 16
        bits to draw: they are drawn wider and cast."""
        assert isinstance(param, ir.Variable), f"{param!r} is no variable"
        assert isinstance(block, ir.Block), f"{block!r} is no block"
        out = param
        if param.dtype == VarType.FP16:
            out = block.create_var(
                name=names.generate(f"{self._TMP}.{param.name}.tmp"),
                shape=param.shape, dtype=VarType.FP32)
        attrs = {"shape": list(param.shape), "dtype": out.dtype, **attrs}
        op = block._prepend_op(kind, outputs={"Out": out}, attrs=attrs)
        if out is not param:
            block.append_op("cast", inputs={"X": out}, outputs={"Out": param},
                            attrs={"in_dtype": out.dtype,
                                   "out_dtype": param.dtype})
        param.op = op
        return op


def _says(*needed):
    """Settings of an initializer are all given."""
    assert all(n is not None for n in needed), "None is no setting"


class ConstantInitializer(Initializer):
    """The same number everywhere."""

    _TMP = "constant_init"

    def __init__(self, value=0.0, force_cpu=False):
        _says(value)
        self._value = value
        self._force_cpu = force_cpu

    def _words(self):
        return f"constant({float(self._value)})"

    def __call__(self, param, block):
        return self._write(block, "fill_constant", param,
                           value=float(self._value),
                           force_cpu=self._force_cpu)


class _Random(Initializer):
    """Numbers that are drawn; a seed of 0 becomes that of the program."""

    def _write(self, block, kind, param, **attrs):
        check_variable_and_dtype(param, "Out",
                                 ["float16", "float32", "float64"], self._TMP)
        return super()._write(block, kind, param, **attrs)

    def _seed_for(self, block):
        if self._seed == 0:
            self._seed = block.program.random_seed
        return self._seed


class UniformInitializer(_Random):
    _TMP = "uniform_random"

    def __init__(self, low=-1.0, high=1.0, seed=0, diag_num=0, diag_step=0,
                 diag_val=1.0):
        _says(low, high, seed, diag_num, diag_step, diag_val)
        assert high >= low, f"there are no numbers from {low} to {high}"
        assert (diag_num > 0) == (diag_step > 0), (
            f"diag_num {diag_num} and diag_step {diag_step} go together")
        self._low, self._high, self._seed = low, high, seed
        self._diagonal = {"diag_num": diag_num, "diag_step": diag_step,
                          "diag_val": diag_val}

    def _words(self):
        return f"uniform({self._low},{self._high})"

    def __call__(self, param, block):
        return self._write(block, "uniform_random", param, min=self._low,
                           max=self._high, seed=self._seed_for(block),
                           **self._diagonal)


class NormalInitializer(_Random):
    _KIND, _WORD = "gaussian_random", "normal"
    _TMP = _KIND

    def __init__(self, loc=0.0, scale=1.0, seed=0):
        _says(loc, scale, seed)
        self._mean, self._std_dev, self._seed = loc, scale, seed

    def _words(self):
        return f"{self._WORD}({self._mean},{self._std_dev})"

    def __call__(self, param, block):
        return self._write(block, self._KIND, param, mean=self._mean,
                           std=self._std_dev, seed=self._seed_for(block))


class TruncatedNormalInitializer(NormalInitializer):
    _KIND, _WORD = "truncated_gaussian_random", "truncated_normal"
    _TMP = _KIND


class _FanInitializer(_Random):
    """Numbers whose spread follows from the size of the layer."""

    def _draw(self, param, block, fans):
        if self._uniform:
            limit = math.sqrt(6.0 / float(fans))
            return self._write(block, "uniform_random", param, min=-limit,
                               max=limit, seed=self._seed_for(block))
        return self._write(block, "gaussian_random", param, mean=0.0,
                           std=math.sqrt(2.0 / float(fans)),
                           seed=self._seed_for(block))


class XavierInitializer(_FanInitializer):
    _TMP = "xavier_init"

    def __init__(self, uniform=True, fan_in=None, fan_out=None, seed=0):
        _says(uniform, seed)
        self._uniform, self._seed = uniform, seed
        self._fan_in, self._fan_out = fan_in, fan_out

    def _words(self):
        return "xavier"

    def __call__(self, param, block):
        fan_in, fan_out = self._compute_fans(param)
        return self._draw(
            param, block,
            (fan_in if self._fan_in is None else self._fan_in) +
            (fan_out if self._fan_out is None else self._fan_out))


class MSRAInitializer(_FanInitializer):
    _TMP = "masra_init"

    def __init__(self, uniform=True, fan_in=None, seed=0):
        _says(uniform, seed)
        self._uniform, self._fan_in, self._seed = uniform, fan_in, seed

    def __call__(self, param, block):
        return self._draw(param, block, self._compute_fans(param)[0]
                          if self._fan_in is None else self._fan_in)


# By type: the attribute of assign_value that carries the numbers.
VALUES = {"float32": "fp32_values", "int32": "int32_values",
          "int64": "int64_values", "bool": "bool_values"}


class NumpyArrayInitializer(Initializer):
    """The numbers of an array."""

    _TMP = "numpy_array_init"

    def __init__(self, value):
        assert isinstance(value, np.ndarray), (
            f"NumpyArrayInitializer takes an array, not {type(value)}")
        self._value = value

    def __call__(self, param, block):
        return self._assign(param, block, self._value)

    def _assign(self, param, block, array):
        dtype = (VarType.FP32 if param.dtype == VarType.FP16 else param.dtype)
        name = types.name_of(dtype)
        if name not in VALUES:
            raise ValueError(f"parameter {param.name}: first values of type "
                             f"{name} cannot be given as an array")
        as_declared = array.size == np.prod(param.shape)
        return self._write(block, "assign_value", param,
                           shape=list(param.shape if as_declared else
                                      array.shape),
                           **{VALUES[name]:
                              array.astype(name).reshape(-1).tolist()})


class BilinearInitializer(NumpyArrayInitializer):
    """Weights of a transposed convolution that enlarges pictures."""

    _TMP = "bilinear_init"

    def __init__(self):
        super().__init__(np.zeros(0, "float32"))

    def __call__(self, param, block):
        if not isinstance(param, ir.Variable):
            raise ValueError(f"{param!r} is no variable")
        shape = param.shape
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ValueError(f"parameter {param.name}: bilinear weights are "
                             f"squares, [n, m, size, size], not {shape}")
        return self._assign(param, block, self._weights(shape))

    @staticmethod
    def _weights(shape):
        """A row's place counts with its fraction, as Fluid has it under
        Python 3."""
        size = shape[3]
        f = math.ceil(size / 2.0)
        c = (2 * f - 1 - f % 2) / (2.0 * f)
        i = np.arange(int(np.prod(shape)))
        x, y = i % size, (i / size) % size
        flat = (1 - abs(x / f - c)) * (1 - abs(y / f - c))
        return flat.reshape(shape).astype("float32")


Constant, Uniform, Normal = (ConstantInitializer, UniformInitializer,
                             NormalInitializer)
TruncatedNormal, Xavier, MSRA = (TruncatedNormalInitializer, XavierInitializer,
                                 MSRAInitializer)
Bilinear = BilinearInitializer


@contextlib.contextmanager
def init_on_cpu():
    """Here everything is on the CPU."""
    yield


def force_init_on_cpu():
    """Whether first values are made on the CPU: there is nothing else."""
    return True
