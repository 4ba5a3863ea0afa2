"""Parts of tensors, by place: cut, turned, padded, taken apart and put in."""
import numpy as np

from .. import ir, types
from ..check import check_type
from ..helper import LayerHelper
from .nn import reshape, stack
from .tensor import (assign, fill_constant, is_open, numbers_known,
                     tensors_of, zeros)


def strided_slice(input, axes, starts, ends, strides):
    """Places from starts on, strides apart, before ends."""
    helper = LayerHelper("strided_slice")
    inputs, attrs = {"Input": input}, {"axes": list(axes)}
    flags = [1] * len(axes)
    for word, given in (("Starts", starts), ("Ends", ends),
                        ("Strides", strides)):
        check_type(given, word.lower(), (list, tuple, ir.Variable),
                   "strided_slice")
        if isinstance(given, ir.Variable):
            given.stop_gradient = True
            inputs[word + "Tensor"] = given
            continue
        attrs[word.lower()] = numbers_known(given)
        if is_open(given):
            inputs[word + "TensorList"] = tensors_of(helper, given)
            flags = [-1 if isinstance(n, ir.Variable) else flag
                     for n, flag in zip(given, flags)]
    attrs["infer_flags"] = flags
    return helper.apply("strided_slice", inputs, attrs=attrs)


def reverse(x, axis):
    """From the last place to the first along one axis or several."""
    check_type(x, "x", ir.Variable, "reverse")
    return LayerHelper("reverse").apply(
        "reverse", {"X": x},
        attrs={"axis": [axis] if isinstance(axis, int) else list(axis)})


def flip(input, dims, name=None):
    """The same as reverse, for a list of axes."""
    check_type(input, "X", ir.Variable, "flip")
    check_type(dims, "dims", (list, tuple), "flip")
    assert len(dims) > 0, "flip: there are no dims"
    return LayerHelper("flip", name=name).apply(
        "flip", {"X": input}, attrs={"dims": list(dims)})


def pad(x, paddings, pad_value=0.0, name=None):
    """x with pad_value around it."""
    return LayerHelper("pad", name=name).apply(
        "pad", {"X": x}, attrs={"paddings": list(paddings),
                                "pad_value": float(pad_value)})


def pad_constant_like(x, y, pad_value=0.0, name=None):
    """y, padded to the size of x."""
    check_type(x, "x", ir.Variable, "pad_constant_like")
    return LayerHelper("pad_constant_like", name=name).apply(
        "pad_constant_like", {"X": x, "Y": y},
        attrs={"pad_value": float(pad_value)})


def crop(x, shape=None, offsets=None, name=None):
    """The part of x that has a shape, or that of another variable, and begins
    at offsets."""
    check_type(shape, "shape", (list, tuple, ir.Variable), "crop")
    inputs, attrs = {"X": x}, {}
    if isinstance(shape, ir.Variable):
        inputs["Y"] = shape
    else:
        attrs["shape"] = list(shape)
    if isinstance(offsets, ir.Variable):
        inputs["Offsets"] = offsets
    else:
        attrs["offsets"] = list(offsets or [0] * len(x.shape))
    return LayerHelper("crop", name=name).apply("crop", inputs, attrs=attrs)


def _check_places(given, least, what):
    """Numbers of a list are whole ones, and not below `least`."""
    for n in given:
        if isinstance(n, ir.Variable):
            continue
        check_type(n, what, int, "crop_tensor")
        if n < least or (what == "shape" and n == 0):
            raise ValueError(f"crop_tensor: {n} in {what} is not possible")


def crop_tensor(x, shape=None, offsets=None, name=None):
    """The part of x that has a shape, where -1 is all that is left, and begins
    at offsets; both may be variables, or have some."""
    helper = LayerHelper("crop_tensor", name=name)
    inputs, attrs = {"X": x}, {}
    offsets = [0] * len(x.shape) if offsets is None else offsets
    for what, given, whole, least in (("offsets", offsets, "Offsets", 0),
                                      ("shape", shape, "Shape", -1)):
        check_type(given, what, (list, tuple, ir.Variable), "crop_tensor")
        if isinstance(given, ir.Variable):
            given.stop_gradient = True
            inputs[whole] = given
            continue
        _check_places(given, least, what)
        attrs[what] = numbers_known(given)
        if is_open(given):
            inputs[whole + "Tensor"] = tensors_of(helper, given)
    return helper.apply("crop_tensor", inputs, attrs=attrs)


def unstack(x, axis=0, num=None):
    """The parts along an axis, which they lack."""
    helper = LayerHelper("unstack")
    check_type(x, "x", ir.Variable, "unstack")
    num = x.shape[axis] if num is None else num
    outs = [helper.like(x) for _ in range(num)]
    helper.append_op("unstack", inputs={"X": x}, outputs={"Y": outs},
                     attrs={"axis": axis, "num": num})
    return outs


def unbind(input, axis=0):
    """The parts along an axis whose length is known, which they lack."""
    helper = LayerHelper("unbind")
    check_type(input, "input", ir.Variable, "unbind")
    if input.shape[axis] < 0:
        raise ValueError(f"unbind: axis {axis} of {input.name} is open")
    outs = [helper.like(input) for _ in range(input.shape[axis])]
    helper.append_op("unbind", inputs={"X": input}, outputs={"Out": outs},
                     attrs={"axis": axis})
    return outs


def multiplex(inputs, index):
    """Each row from the one of several tensors that index names."""
    check_type(inputs, "inputs", list, "multiplex")
    if len(inputs) < 2:
        raise ValueError("inputs should be a list object with at least 2 "
                         "elements.")
    return LayerHelper("multiplex").apply(
        "multiplex", {"X": inputs, "Ids": index})


def index_select(input, index, dim=0):
    """The places of an axis that index lists."""
    check_type(input, "input", ir.Variable, "index_select")
    check_type(index, "index", ir.Variable, "index_select")
    return LayerHelper("index_select").apply(
        "index_select", {"X": input, "Index": index}, attrs={"dim": dim})


def scatter_nd_add(ref, index, updates, name=None):
    """ref, with updates added at the places that index names."""
    if ref.dtype != updates.dtype:
        raise ValueError("ref and updates must have same data type.")
    return LayerHelper("scatter_nd_add", name=name).apply(
        "scatter_nd_add", {"X": ref, "Index": index, "Updates": updates})


def scatter_nd(index, updates, shape, name=None):
    """Zeros with updates added at the places that index names."""
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def size(input):
    """How many numbers there are."""
    return LayerHelper("size").apply("size", {"Input": input}, dtype="int64")


def _found(kind, x):
    return LayerHelper(kind).apply(kind, {"X": x}, dtype="bool")


def isfinite(x):
    """Whether all numbers are finite."""
    return _found("isfinite", x)


def has_inf(x):
    """Whether one of the numbers is infinite."""
    return _found("isinf", x)


def has_nan(x):
    """Whether one of the numbers is not a number."""
    return _found("isnan", x)


def diag(diagonal):
    """A matrix with these numbers on its diagonal."""
    check_type(diagonal, "diagonal", (ir.Variable, np.ndarray), "diag")
    if not isinstance(diagonal, ir.Variable):
        diagonal = assign(diagonal)
    return LayerHelper("diag").apply("diag", {"Diagonal": diagonal})


def eye(num_rows, num_columns=None, batch_shape=None, dtype="float32"):
    """A matrix with ones on its diagonal, or several."""
    if not isinstance(num_rows, int) or num_rows < 0:
        raise TypeError("num_rows should be a non-negative int")
    if num_columns is None:
        num_columns = num_rows
    elif not isinstance(num_columns, int) or num_columns < 0:
        raise TypeError("num_columns should be a non-negative int")
    helper = LayerHelper("eye")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("eye", outputs={"Out": out},
                     attrs={"num_rows": num_rows, "num_columns": num_columns,
                            "dtype": types.var_type(dtype)})
    out.stop_gradient = True
    return out if batch_shape is None else _repeated(out, batch_shape)


def _repeated(x, batch_shape):
    check_type(batch_shape, "batch_shape", list, "eye")
    for n in reversed(batch_shape):
        if not isinstance(n, int) or n < 1:
            raise TypeError("batch_shape should be a positive int list")
        x = stack([x] * n, axis=0)
    x.stop_gradient = True
    return x


def linspace(start, stop, num, dtype):
    """num numbers at equal distances from start to stop."""
    def tensor(n, kind):
        return n if isinstance(n, ir.Variable) else fill_constant([1], kind, n)

    return LayerHelper("linspace").apply(
        "linspace", {"Start": tensor(start, dtype), "Stop": tensor(stop, dtype),
                     "Num": tensor(num, "int32")}, dtype=dtype)


def _triangle(layer, input, diagonal, name):
    check_type(diagonal, "diagonal", int, layer)
    if len(input.shape) < 2:
        raise ValueError(f"{layer}: input needs two dimensions or more")
    helper = LayerHelper(layer, name=name)
    out = helper.create_variable(name=helper.name, dtype=input.dtype,
                                 persistable=False)
    helper.append_op("tril_triu", inputs={"X": input}, outputs={"Out": out},
                     attrs={"diagonal": diagonal, "lower": layer == "tril"})
    return out


def tril(input, diagonal=0, name=None):
    """The lower triangle of each matrix."""
    return _triangle("tril", input, diagonal, name)


def triu(input, diagonal=0, name=None):
    """The upper triangle of each matrix."""
    return _triangle("triu", input, diagonal, name)


def cumsum(x, axis=None, exclusive=None, reverse=None):
    """Sums so far."""
    given = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return LayerHelper("cumsum").apply(
        "cumsum", {"X": x},
        attrs={k: v for k, v in given.items() if v is not None})


def roll(input, shifts, dims=None):
    """Places moved on along axes, or as one row of numbers; what leaves at one
    end comes in at the other."""
    shape = list(input.shape)
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    check_type(shifts, "shifts", (list, tuple), "roll")
    check_type(dims, "dims", (list, tuple, type(None)), "roll")
    helper = LayerHelper("roll")
    out = helper.like(input)
    if dims is None:
        input, dims = reshape(input, [-1, 1]), [0]
    helper.append_op("roll", inputs={"X": input}, outputs={"Out": out},
                     attrs={"dims": list(dims), "shifts": list(shifts)})
    return reshape(out, shape, inplace=True)


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the numbers of the last axis on their diagonals."""
    if not isinstance(input, ir.Variable):
        input = assign(np.asarray(input))
    return LayerHelper("diag_embed").apply(
        "diag_embed", {"Input": input},
        attrs={"offset": offset, "dim1": dim1, "dim2": dim2})


def meshgrid(input, name=None):
    """Vectors as the axes of a grid: for each one its value at every point."""
    check_type(input, "input", (list, tuple), "meshgrid")
    helper = LayerHelper("meshgrid", name=name)
    outs = [helper.like(v) for v in input]
    helper.append_op("meshgrid", inputs={"X": list(input)},
                     outputs={"Out": outs})
    return outs
