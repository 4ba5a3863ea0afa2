"""Making tensors and putting them together."""
import numpy as np

from .. import ir, names, types
from ..attr import ParamAttr
from ..check import check_type
from ..helper import LayerHelper
from ..initializer import ConstantInitializer, NumpyArrayInitializer


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False,
                     default_initializer=None):
    helper = LayerHelper("create_parameter")
    attr = attr or ParamAttr(name=name)
    return helper.create_parameter(attr, shape, types.var_type(dtype), is_bias,
                                   default_initializer)


def create_global_var(shape, value, dtype, persistable=False, force_cpu=False,
                      name=None):
    helper = LayerHelper("global_var")
    v = helper.create_global_variable(
        name=name or names.generate("global_var"), shape=shape, dtype=dtype,
        persistable=persistable, stop_gradient=True)
    helper.set_variable_initializer(v, ConstantInitializer(float(value)))
    return v


def cast(x, dtype):
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("cast", inputs={"X": x}, outputs={"Out": out},
                     attrs={"in_dtype": x.dtype,
                            "out_dtype": types.var_type(dtype)})
    return out


def concat(input, axis=0, name=None):
    helper = LayerHelper("concat", name=name)
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    out = helper.create_variable_for_type_inference(inputs[0].dtype)
    slots = {"X": inputs}
    attrs = {}
    if isinstance(axis, ir.Variable):
        slots["AxisTensor"] = axis
    else:
        attrs["axis"] = axis
    helper.append_op("concat", inputs=slots, outputs={"Out": out}, attrs=attrs)
    return out


def sums(input, out=None):
    helper = LayerHelper("sum")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if out is None:
        out = helper.create_variable_for_type_inference(inputs[0].dtype)
    helper.append_op("sum", inputs={"X": inputs}, outputs={"Out": out})
    return out


def assign(input, output=None):
    helper = LayerHelper("assign")
    if isinstance(input, ir.Variable):
        if output is None:
            output = helper.like(input)
        helper.append_op("assign", inputs={"X": input},
                         outputs={"Out": output})
        return output
    array = np.asarray(input)
    if array.dtype == np.float64:
        array = array.astype("float32")
    name = array.dtype.name
    if name not in NumpyArrayInitializer._VALUES:
        raise TypeError(f"assign: an array of type {name} cannot be assigned; "
                        "float32, int32, int64 and bool can")
    if output is None:
        output = helper.create_variable_for_type_inference(name)
    helper.append_op("assign_value", outputs={"Out": output},
                     attrs={"dtype": name, "shape": list(array.shape),
                            NumpyArrayInitializer._VALUES[name]:
                                array.reshape(-1).tolist()})
    return output


def fill_constant(shape, dtype, value, force_cpu=False, out=None, name=None):
    helper = LayerHelper("fill_constant", name=name)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype)
    check_type(shape, "shape", (list, tuple, ir.Variable), "fill_constant")
    inputs, attrs = shape_slots(shape)
    attrs["dtype"] = types.var_type(dtype)
    if isinstance(value, ir.Variable):
        inputs["ValueTensor"] = value
    else:
        attrs["value"] = float(value)
    helper.append_op("fill_constant", inputs=inputs, outputs={"Out": out},
                     attrs=attrs)
    out.stop_gradient = True
    return out


def shape_slots(shape):
    """A shape of numbers, a tensor, or a list of both, as slots and
    attributes."""
    if isinstance(shape, ir.Variable):
        return {"ShapeTensor": shape}, {}
    if not any(isinstance(n, ir.Variable) for n in shape):
        return {}, {"shape": [int(n) for n in shape]}
    parts = [n if isinstance(n, ir.Variable) else
             fill_constant([1], "int32", n) for n in shape]
    known = [-1 if isinstance(n, ir.Variable) else int(n) for n in shape]
    return {"ShapeTensorList": parts}, {"shape": known}


def fill_constant_batch_size_like(input, shape, dtype, value, input_dim_idx=0,
                                  output_dim_idx=0, force_cpu=False):
    helper = LayerHelper("fill_constant_batch_size_like")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("fill_constant_batch_size_like",
                     inputs={"Input": input}, outputs={"Out": out},
                     attrs={"shape": list(shape),
                            "dtype": types.var_type(dtype),
                            "value": float(value),
                            "input_dim_idx": input_dim_idx,
                            "output_dim_idx": output_dim_idx})
    out.stop_gradient = True
    return out


def ones(shape, dtype, force_cpu=False):
    return fill_constant(shape, dtype, 1.0)


def zeros(shape, dtype, force_cpu=False, name=None):
    return fill_constant(shape, dtype, 0.0, name=name)


def argmax(x, axis=0):
    return _arg("arg_max", x, axis)


def argmin(x, axis=0):
    return _arg("arg_min", x, axis)


def _arg(kind, x, axis):
    helper = LayerHelper(kind)
    out = helper.create_variable_for_type_inference("int64", True)
    helper.append_op(kind, inputs={"X": x}, outputs={"Out": out},
                     attrs={"axis": axis})
    return out


def argsort(input, axis=-1, descending=False, name=None):
    helper = LayerHelper("argsort", name=name)
    out = helper.like(input)
    indices = helper.create_variable_for_type_inference("int64", True)
    helper.append_op("argsort", inputs={"X": input},
                     outputs={"Out": out, "Indices": indices},
                     attrs={"axis": axis, "descending": descending})
    return out, indices


def range(start, end, step, dtype):
    """Numbers from start to below end."""
    def tensor(n):
        return n if isinstance(n, ir.Variable) else fill_constant([1], dtype, n)

    out = LayerHelper("range").apply(
        "range", {"Start": tensor(start), "End": tensor(end),
                  "Step": tensor(step)}, dtype=dtype)
    out.stop_gradient = True
    return out


def increment(x, value=1.0, in_place=True):
    helper = LayerHelper("increment")
    out = x if in_place else helper.like(x)
    helper.append_op("increment", inputs={"X": x}, outputs={"Out": out},
                     attrs={"step": float(value)})
    return out


def sum(x):
    inputs = x if isinstance(x, (list, tuple)) else [x]
    for v in inputs:
        check_type(v, "x", ir.Variable, "sum")
    return LayerHelper("sum").apply("sum", {"X": list(inputs)})


def zeros_like(x, out=None):
    return _filled_like(x, out, 0.0)


def ones_like(x, out=None):
    return _filled_like(x, out, 1.0)


def _filled_like(x, out, value):
    helper = LayerHelper("fill_any_like")
    out = out or helper.like(x)
    helper.append_op("fill_any_like", inputs={"X": x}, outputs={"Out": out},
                     attrs={"value": value})
    return out
