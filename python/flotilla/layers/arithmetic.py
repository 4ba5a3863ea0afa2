"""x + y, 2 * x, x < y: operators of Python on variables."""
from .. import ir
from ..types import VarType

_INTEGERS = (VarType.UINT8, VarType.INT8, VarType.INT16, VarType.INT32,
             VarType.INT64)


def _block(v):
    return v.block.program.current_block()


def _temporary(v, dtype):
    return _block(v)._temporary("tmp", dtype)


def _scaled(v, scale, bias):
    out = _temporary(v, v.dtype)
    out.block.append_op("scale", inputs={"X": v}, outputs={"Out": out},
                        attrs={"scale": float(scale), "bias": float(bias)})
    return out


def _filled(like, shape, value):
    """A number as a tensor of this shape."""
    out = _temporary(like, like.dtype)
    out.block.append_op("fill_constant", outputs={"Out": out},
                        attrs={"shape": list(shape), "value": float(value),
                               "dtype": like.dtype, "force_cpu": False},
                        stop_gradient=True)
    return out


def _filled_like(like, value):
    """A number as a tensor of the shape of `like`, which may be open."""
    open_at = [i for i, n in enumerate(like.shape) if n < 0]
    if not open_at:
        return _filled(like, like.shape, value)
    shape = [1 if n < 0 and i != open_at[0] else n
             for i, n in enumerate(like.shape)]
    out = _temporary(like, like.dtype)
    out.block.append_op("fill_constant_batch_size_like",
                        inputs={"Input": like}, outputs={"Out": out},
                        attrs={"shape": shape, "value": float(value),
                               "dtype": like.dtype,
                               "input_dim_idx": open_at[0],
                               "output_dim_idx": open_at[0]},
                        stop_gradient=True)
    return out


# A number on the right of these is a scale and a bias; so it is on the left
# of the reversed one.
_WITH_NUMBER = {
    "__add__": lambda v, n: _scaled(v, 1.0, n),
    "__radd__": lambda v, n: _scaled(v, 1.0, n),
    "__sub__": lambda v, n: _scaled(v, 1.0, -n),
    "__rsub__": lambda v, n: _scaled(v, -1.0, n),
    "__mul__": lambda v, n: _scaled(v, n, 0.0),
    "__rmul__": lambda v, n: _scaled(v, n, 0.0),
    "__truediv__": lambda v, n: _scaled(v, 1.0 / n, 0.0),
}


def _by_scale(method, kind, v, other):
    """v and a number by one scale, or None where that would not be right: a
    division of integers, or no number."""
    if (method not in _WITH_NUMBER or not isinstance(other, (int, float)) or
            (kind == "elementwise_div" and v.dtype in _INTEGERS)):
        return None
    if v.dtype in _INTEGERS:
        assert other == int(other), (
            f"variable {v.name} has integers; {other} is none")
    return _WITH_NUMBER[method](v, float(other))


def _binary(method, kind, reverse, gives_bool):
    def apply(self, other):
        out = _by_scale(method, kind, self, other)
        if out is not None:
            return out
        if not isinstance(other, ir.Variable):
            other = (_filled_like(self, other) if reverse else
                     _filled(self, [1], other))
        if other.dtype != self.dtype:
            other = other.astype(self.dtype)
        x, y = (other, self) if reverse else (self, other)
        out = _temporary(x, "bool" if gives_bool else self.dtype)
        axis = 0 if y.shape and y.shape[0] == -1 else -1
        out.block.append_op(kind, inputs={"X": x, "Y": y},
                            outputs={"Out": out}, attrs={"axis": axis})
        return out

    apply.__name__ = method
    return apply


# method: (operator, the variable is on the right, a truth value comes out)
_METHODS = {
    "__add__": ("elementwise_add", False, False),
    "__radd__": ("elementwise_add", False, False),
    "__sub__": ("elementwise_sub", False, False),
    "__rsub__": ("elementwise_sub", True, False),
    "__mul__": ("elementwise_mul", False, False),
    "__rmul__": ("elementwise_mul", False, False),
    "__truediv__": ("elementwise_div", False, False),
    "__rtruediv__": ("elementwise_div", True, False),
    "__pow__": ("elementwise_pow", False, False),
    "__rpow__": ("elementwise_pow", True, False),
    "__floordiv__": ("elementwise_floordiv", False, False),
    "__mod__": ("elementwise_mod", False, False),
    "__eq__": ("equal", False, True),
    "__ne__": ("not_equal", False, True),
    "__lt__": ("less_than", False, True),
    "__le__": ("less_equal", False, True),
    "__gt__": ("greater_than", False, True),
    "__ge__": ("greater_equal", False, True),
}


def patch():
    for method, how in _METHODS.items():
        setattr(ir.Variable, method, _binary(method, *how))
    ir.Variable.__neg__ = lambda self: _scaled(self, -1.0, 0.0)
