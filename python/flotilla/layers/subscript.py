"""x[0], x[:, 1:3], x[..., -1], x[::-1]: parts of variables."""
import numpy as np

from .. import ir, names
from . import nn, tensor
from .arithmetic import _block

_END = 10000000  # behind the end of any axis, as Fluid writes it


def _spread(var, item):
    """One subscript for each axis that has one; ... stands for those that
    are not named."""
    items = list(item) if isinstance(item, tuple) else [item]
    dots = [i for i, one in enumerate(items) if one is Ellipsis]
    if len(dots) > 1:
        raise IndexError("only one ... is possible in a subscript")
    if dots:
        rest = len(var.shape) - (len(items) - 1)
        items[dots[0]:dots[0] + 1] = [slice(None)] * rest
    if len(items) > len(var.shape):
        raise IndexError(f"{len(items)} subscripts for variable {var.name}, "
                         f"which has {len(var.shape)} dimensions")
    return items


def _limits(one):
    """(start, end, is_taken_out) of a subscript without a step, or None for
    all of the axis."""
    if isinstance(one, slice):
        if one.start is None and one.stop is None:
            return None
        return (0 if one.start is None else one.start,
                _END if one.stop is None else one.stop, False)
    if isinstance(one, (int, ir.Variable)):
        last = isinstance(one, int) and one == -1
        return one, _END if last else one + 1, True
    raise TypeError("a subscript of a Variable is a whole number, a slice or "
                    f"..., not {one!r}")


def _cut(var, cuts):
    """[(axis, start, end, is_taken_out), ...] by one operator."""
    axes, starts, ends, _ = zip(*cuts)
    inputs = {"Input": var}
    attrs = {"axes": list(axes),
             "decrease_axis": [c[0] for c in cuts if c[3]],
             "infer_flags": [1] * len(axes)}
    for name, limits in (("starts", starts), ("ends", ends)):
        if any(isinstance(n, ir.Variable) for n in limits):
            slot = f"{name.capitalize()}TensorList"
            inputs[slot] = [_as_tensor(n) for n in limits]
            attrs["infer_flags"] = [-1] * len(axes)
        else:
            attrs[name] = list(limits)
    block = _block(var)
    name = names.generate(f"{var.name}_slice")
    out = block._vars[name] = ir.Variable(block, name, var.dtype)
    block.append_op("slice", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _as_tensor(n):
    return n if isinstance(n, ir.Variable) else tensor.fill_constant(
        [1], "int32", n)


def _step(var, axis, one):
    """The places of an axis, one behind another, by their numbers."""
    if var.shape[axis] < 0:
        raise ValueError(f"variable {var.name}: a step along axis {axis}, "
                         "whose length is not known before a run")
    places = list(range(*one.indices(var.shape[axis])))
    index = tensor.assign(np.array(places, "int64"))
    order = list(range(len(var.shape)))
    order[0], order[axis] = axis, 0
    if axis == 0:
        return nn.gather(var, index)
    return nn.transpose(nn.gather(nn.transpose(var, order), index), order)


def part(var, item):
    """What a subscript of a variable means."""
    items = _spread(var, item)
    for axis, one in enumerate(items):
        if isinstance(one, slice) and one.step not in (None, 1):
            var = _step(var, axis, one)
            items[axis] = slice(None)
    cuts = [(axis, *limits) for axis, limits in enumerate(map(_limits, items))
            if limits is not None]
    return _cut(var, cuts) if cuts else tensor.assign(var)


def patch():
    ir.Variable.__getitem__ = part
    ir.Variable.__iter__ = None  # or Python would try 0, 1, 2 ... for ever
