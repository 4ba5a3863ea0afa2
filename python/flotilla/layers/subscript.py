"""x[0], x[:, 1:3], x[..., -1], x[::-1]: parts of variables."""
from .. import ir, names
from . import places, tensor
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


def _append(var, kind, axes, limits, **attrs):
    """An operator that cuts axes; limits are {attribute: one for each axis},
    where one may be a variable."""
    inputs, flags = {"Input": var}, [1] * len(axes)
    for name, given in limits.items():
        if any(isinstance(n, ir.Variable) for n in given):
            slot = f"{name.capitalize()}TensorList"
            inputs[slot] = [_as_tensor(n) for n in given]
            flags = [-1] * len(axes)
        else:
            attrs[name] = list(given)
    block = _block(var)
    name = names.generate(f"{var.name}_{kind}")
    out = block._vars[name] = ir.Variable(block, name, var.dtype)
    block.append_op(kind, inputs=inputs, outputs={"Out": out},
                    attrs=dict(attrs, axes=list(axes), infer_flags=flags))
    return out


def _cut(var, cuts):
    """[(axis, start, end, is_taken_out), ...] by one operator."""
    axes, starts, ends, _ = zip(*cuts)
    return _append(var, "slice", axes, {"starts": starts, "ends": ends},
                   decrease_axis=[c[0] for c in cuts if c[3]])


def _as_tensor(n):
    return n if isinstance(n, ir.Variable) else tensor.fill_constant(
        [1], "int32", n)


def _has_step(one):
    return (isinstance(one, slice) and one.step is not None and
            (isinstance(one.step, ir.Variable) or one.step != 1))


def _stepped(one):
    """Start, end and step of a subscript that has one; limits that are not
    said are those of the axis."""
    back = not isinstance(one.step, ir.Variable) and one.step < 0
    return (one.start if one.start is not None else -1 if back else 0,
            one.stop if one.stop is not None else -_END if back else _END,
            one.step)


def _steps(var, items):
    """Axes that are walked in steps, all at once; one that is turned round is
    turned round."""
    turned = [axis for axis, one in items
              if one.start is None and one.stop is None and
              not isinstance(one.step, ir.Variable) and one.step == -1]
    walked = [(axis, *_stepped(one)) for axis, one in items
              if axis not in turned]
    if turned:
        var = places.reverse(var, turned)
    if not walked:
        return var
    axes, starts, ends, strides = zip(*walked)
    return _append(var, "strided_slice", axes,
                   {"starts": starts, "ends": ends, "strides": strides})


def part(var, item):
    """What a subscript of a variable means."""
    items = _spread(var, item)
    stepped = [(axis, one) for axis, one in enumerate(items) if _has_step(one)]
    if stepped:
        var = _steps(var, stepped)
        for axis, _ in stepped:
            items[axis] = slice(None)
    cuts = [(axis, *limits) for axis, limits in enumerate(map(_limits, items))
            if limits is not None]
    if cuts:
        return _cut(var, cuts)
    return var if stepped else tensor.assign(var)


def patch():
    ir.Variable.__getitem__ = part
    ir.Variable.__iter__ = None  # or Python would try 0, 1, 2 ... for ever
