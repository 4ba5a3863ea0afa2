"""First values of parameters: an operator in the startup program each."""
import contextlib
import math

import numpy as np

from . import types


class Initializer:
    def __call__(self, param, block=None):
        raise NotImplementedError

    def _words(self):
        """The same for the rows of a table."""
        raise NotImplementedError(f"{type(self).__name__}: rows of a table "
                                  "begin with Constant, Uniform, Normal, "
                                  "TruncatedNormal or Xavier")

    @staticmethod
    def _fans(param):
        """Inputs and outputs of a layer with these weights."""
        shape = param.shape
        if not shape:
            return 1, 1
        if len(shape) == 1:
            return shape[0], shape[0]
        if len(shape) == 2:
            return shape[0], shape[1]
        field = int(np.prod(shape[2:]))
        return shape[1] * field, shape[0] * field

    @staticmethod
    def _write(block, kind, param, **attrs):
        attrs.update(shape=list(param.shape), dtype=param.dtype)
        return block.append_op(kind, outputs={"Out": param}, attrs=attrs)


def _is_number(x):
    return isinstance(x, (int, float, np.number))


class ConstantInitializer(Initializer):
    def __init__(self, value=0.0, force_cpu=False):
        self._value = value

    def _words(self):
        return f"constant({float(self._value)})"

    def __call__(self, param, block):
        return self._write(block, "fill_constant", param,
                           value=float(self._value))


class UniformInitializer(Initializer):
    def __init__(self, low=-1.0, high=1.0, seed=0):
        if low > high:
            raise ValueError(f"uniform numbers from {low} to {high}: there are "
                             "none")
        self._low, self._high, self._seed = low, high, seed

    def _words(self):
        return f"uniform({self._low},{self._high})"

    def __call__(self, param, block):
        return self._write(block, "uniform_random", param, min=self._low,
                           max=self._high, seed=self._seed)


class NormalInitializer(Initializer):
    _KIND, _WORD = "gaussian_random", "normal"

    def __init__(self, loc=0.0, scale=1.0, seed=0):
        self._mean, self._std, self._seed = loc, scale, seed

    def _words(self):
        return f"{self._WORD}({self._mean},{self._std})"

    def __call__(self, param, block):
        return self._write(block, self._KIND, param, mean=self._mean,
                           std=self._std, seed=self._seed)


class TruncatedNormalInitializer(NormalInitializer):
    _KIND, _WORD = "truncated_gaussian_random", "truncated_normal"


class _FanInitializer(Initializer):
    """Numbers whose spread follows from the size of the layer."""

    def __init__(self, uniform, seed):
        self._uniform, self._seed = uniform, seed

    def _draw(self, param, block, fans, of_uniform, of_normal):
        if self._uniform:
            limit = math.sqrt(of_uniform / float(fans))
            return self._write(block, "uniform_random", param, min=-limit,
                               max=limit, seed=self._seed)
        return self._write(block, "gaussian_random", param, mean=0.0,
                           std=math.sqrt(of_normal / float(fans)),
                           seed=self._seed)


class XavierInitializer(_FanInitializer):
    def __init__(self, uniform=True, fan_in=None, fan_out=None, seed=0):
        super().__init__(uniform, seed)
        self._fan_in, self._fan_out = fan_in, fan_out

    def _words(self):
        return "xavier"

    def __call__(self, param, block):
        fan_in, fan_out = self._fans(param)
        fans = ((fan_in if self._fan_in is None else self._fan_in) +
                (fan_out if self._fan_out is None else self._fan_out))
        return self._draw(param, block, fans, 6.0, 2.0)


class MSRAInitializer(_FanInitializer):
    def __init__(self, uniform=True, fan_in=None, seed=0):
        super().__init__(uniform, seed)
        self._fan_in = fan_in

    def __call__(self, param, block):
        fans = self._fan_in if self._fan_in is not None else \
            self._fans(param)[0]
        return self._draw(param, block, fans, 6.0, 2.0)


class NumpyArrayInitializer(Initializer):
    # By type of the parameter: the attribute that carries its values.
    _VALUES = {"float32": "fp32_values", "int32": "int32_values",
               "int64": "int64_values", "bool": "bool_values"}

    def __init__(self, value):
        if not isinstance(value, np.ndarray):
            raise TypeError(f"NumpyArrayInitializer takes an array, not "
                            f"{type(value)}")
        self._value = value

    def __call__(self, param, block):
        name = types.name_of(param.dtype)
        if name not in self._VALUES:
            raise TypeError(f"parameter {param.name}: first values of type "
                            f"{name} cannot be given as an array")
        values = self._value.astype(name).reshape(-1).tolist()
        return block.append_op(
            "assign_value", outputs={"Out": param},
            attrs={"dtype": param.dtype, "shape": list(self._value.shape),
                   self._VALUES[name]: values})


Constant, Uniform, Normal = (ConstantInitializer, UniformInitializer,
                             NormalInitializer)
TruncatedNormal, Xavier, MSRA = (TruncatedNormalInitializer, XavierInitializer,
                                 MSRAInitializer)


@contextlib.contextmanager
def init_on_cpu():
    """Here everything is on the CPU."""
    yield


def force_init_on_cpu():
    return True
