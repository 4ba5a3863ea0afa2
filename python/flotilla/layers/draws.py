"""Layers that draw whole numbers, and places by their probabilities."""
from .. import ir, marks
from ..check import check_dtype, check_type, check_variable_and_dtype
from ..helper import LayerHelper
from .tensor import is_open, shape_slots, tensors_of


def _out(helper, out, dtype, layer, name=None):
    """The variable that is given, which has that type, or a new one."""
    if out is None and name is not None:
        return helper.create_variable(name=name, dtype=dtype)
    if out is None:
        return helper.create_variable_for_type_inference(dtype)
    check_variable_and_dtype(out, "out", [dtype], layer)
    return out


def _append(helper, device, kind, inputs, out, attrs):
    with marks.device_guard(device):
        helper.append_op(kind, inputs=inputs, outputs={"Out": out},
                         attrs=attrs)
    return out


def _shape(helper, shape, layer):
    """Slots and attributes of a shape."""
    check_type(shape, "shape", (list, tuple, ir.Variable), layer)
    if isinstance(shape, ir.Variable):
        return {"ShapeTensor": shape}, {}
    if not shape:
        raise AssertionError("The size of argument(shape) can't be zero.")
    if is_open(shape):
        return {"ShapeTensorList": tensors_of(helper, shape, "int64")}, {}
    if any(n <= 0 for n in shape):
        raise AssertionError("Each dimension size given in shape must not be "
                             "negative except one unknown dimension.")
    return {}, {"shape": list(shape)}


def randint(low, high=None, shape=None, out=None, dtype=None, device=None,
            stop_gradient=False, seed=0, name=None):
    """Whole random numbers in [low, high), or in [0, low)."""
    dtype = dtype or "int64"
    check_dtype(dtype, "dtype", ["int32", "int64"], "randint")
    helper = LayerHelper("randint", name=name)
    inputs, attrs = _shape(helper, [1] if shape is None else shape, "randint")
    if high is None:
        low, high = 0, low
    if low >= high:
        raise ValueError("randint's low must less then high, but received "
                         f"low = {low}, high = {high}")
    out = _out(helper, out, dtype, "randint", name)
    out.stop_gradient = stop_gradient
    return _append(helper, device, "randint", inputs, out,
                   {**attrs, "low": low, "high": high, "seed": seed,
                    "dtype": dtype})


def randn(shape, out=None, dtype=None, device=None, stop_gradient=True,
          name=None):
    """Normal random numbers of mean 0 and deviation 1."""
    check_type(shape, "shape", (list, tuple), "randn")
    if not shape:
        raise AssertionError("The size of argument(shape) can't be zero.")
    dtype = dtype or "float32"
    check_dtype(dtype, "create data type", ["float32", "float64"], "randn")
    helper = LayerHelper("randn", name=name)
    out = _out(helper, out, dtype, "randn")
    out.stop_gradient = stop_gradient
    slots, attrs = shape_slots(shape, "randn")
    return _append(helper, device, "gaussian_random", slots, out,
                   {**attrs, "mean": 0.0, "std": 1.0, "seed": 0,
                    "dtype": dtype})


def randperm(n, out=None, dtype="int64", device=None, stop_gradient=True,
             seed=0):
    """0 .. n - 1 in random order."""
    if n < 1:
        raise ValueError("The input n should be greater than 0 in randperm op.")
    check_dtype(dtype, "dtype", ["int64", "int32"], "randperm")
    if device not in (None, "cpu", "gpu"):
        raise ValueError("The input device should in [None, 'cpu', 'gpu'].")
    check_type(stop_gradient, "stop_gradient", bool, "randperm")
    helper = LayerHelper("randperm")
    out = _out(helper, out, dtype, "randperm")
    if stop_gradient:
        out.stop_gradient = True
    return _append(helper, None, "randperm", {}, out,
                   {"n": n, "dtype": out.dtype, "seed": seed})


def sampling_id(x, min=0.0, max=1.0, seed=0, dtype="float32"):
    """For each row of probabilities the place that a random number falls
    on."""
    return LayerHelper("sampling_id").apply(
        "sampling_id", {"X": x}, dtype=dtype,
        attrs={"min": float(min), "max": float(max), "seed": seed})
