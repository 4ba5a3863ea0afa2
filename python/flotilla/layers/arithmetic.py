"""x + y, 2 * x, x < y: operators of Python on variables."""
import numpy as np

from .. import ir


def _temporary(v, dtype=None):
    return ir.default_main_program().current_block()._temporary(
        "tmp", dtype or v.dtype)


def _scaled(v, scale, bias):
    out = _temporary(v)
    out.block.append_op("scale", inputs={"X": v}, outputs={"Out": out},
                        attrs={"scale": float(scale), "bias": float(bias)})
    return out


def _constant(like, value):
    """A number as a tensor beside `like`."""
    out = _temporary(like)
    if like.shape and like.shape[0] == -1:
        out.block.append_op("fill_constant_batch_size_like",
                            inputs={"Input": like}, outputs={"Out": out},
                            attrs={"shape": [1 if n < 0 else n
                                             for n in like.shape],
                                   "value": float(value),
                                   "dtype": like.dtype})
    else:
        out.block.append_op("fill_constant", outputs={"Out": out},
                            attrs={"shape": list(like.shape) or [1],
                                   "value": float(value),
                                   "dtype": like.dtype})
    out.stop_gradient = True
    return out


# A number on the right of +, -, *, / is a scale and a bias.
_WITH_NUMBER = {
    "elementwise_add": lambda v, n: _scaled(v, 1.0, n),
    "elementwise_sub": lambda v, n: _scaled(v, 1.0, -n),
    "elementwise_mul": lambda v, n: _scaled(v, n, 0.0),
    "elementwise_div": lambda v, n: _scaled(v, 1.0 / n, 0.0),
}


def _binary(kind, reverse=False, gives_bool=False):
    def method(self, other):
        if isinstance(other, (int, float, np.number)):
            if not reverse and kind in _WITH_NUMBER:
                return _WITH_NUMBER[kind](self, float(other))
            other = _constant(self, other)
        elif not isinstance(other, ir.Variable):
            return NotImplemented
        x, y = (other, self) if reverse else (self, other)
        out = _temporary(x, "bool" if gives_bool else None)
        attrs = {} if gives_bool else {"axis": -1}
        out.block.append_op(kind, inputs={"X": x, "Y": y},
                            outputs={"Out": out}, attrs=attrs)
        return out

    return method


_METHODS = {
    "__add__": _binary("elementwise_add"),
    "__radd__": _binary("elementwise_add"),
    "__sub__": _binary("elementwise_sub"),
    "__rsub__": _binary("elementwise_sub", reverse=True),
    "__mul__": _binary("elementwise_mul"),
    "__rmul__": _binary("elementwise_mul"),
    "__truediv__": _binary("elementwise_div"),
    "__rtruediv__": _binary("elementwise_div", reverse=True),
    "__pow__": _binary("elementwise_pow"),
    "__rpow__": _binary("elementwise_pow", reverse=True),
    "__floordiv__": _binary("elementwise_floordiv"),
    "__mod__": _binary("elementwise_mod"),
    "__lt__": _binary("less_than", gives_bool=True),
    "__le__": _binary("less_equal", gives_bool=True),
    "__gt__": _binary("greater_than", gives_bool=True),
    "__ge__": _binary("greater_equal", gives_bool=True),
    "__neg__": lambda self: _scaled(self, -1.0, 0.0),
}


def patch():
    for name, method in _METHODS.items():
        setattr(ir.Variable, name, method)
