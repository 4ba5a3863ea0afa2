"""Making tensors and putting them together."""
import numpy as np

from .. import ir, names, types
from ..attr import ParamAttr
from ..check import check_dtype, check_type, check_variable_and_dtype
from ..helper import LayerHelper
from ..initializer import VALUES, ConstantInitializer, Initializer


def create_tensor(dtype, name=None, persistable=False):
    """A variable that an operator is going to fill."""
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype,
                                  persistable=persistable)


def _check_sizes(shape, layer):
    for n in shape:
        check_type(n, "item of shape", (int, np.integer), layer)


def create_parameter(shape, dtype, name=None, attr=None, is_bias=False,
                     default_initializer=None):
    """A parameter that belongs to no layer."""
    _check_sizes(shape, "create_parameter")
    check_type(attr, "attr", (type(None), ParamAttr), "create_parameter")
    check_type(default_initializer, "default_initializer",
               (type(None), Initializer), "create_parameter")
    helper = LayerHelper("create_parameter", name=name)
    attr = attr or ParamAttr(name=name)
    return helper.create_parameter(attr, shape, types.var_type(dtype), is_bias,
                                   default_initializer)


def _number(value):
    """One, which may be an array of one."""
    return float(np.asarray(value).reshape(()))


def create_global_var(shape, value, dtype, persistable=False, force_cpu=False,
                      name=None):
    """A variable with a value that outlives runs."""
    _check_sizes(shape, "create_global_var")
    helper = LayerHelper("global_var", name=name)
    v = helper.create_global_variable(
        name=name, shape=shape, dtype=dtype, persistable=persistable,
        stop_gradient=True)
    helper.set_variable_initializer(
        v, ConstantInitializer(_number(value), force_cpu))
    return v


def cast(x, dtype):
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("cast", inputs={"X": x}, outputs={"Out": out},
                     attrs={"in_dtype": x.dtype,
                            "out_dtype": types.var_type(dtype)})
    return out


def is_array(x):
    """Whether it is an array of tensors."""
    return (isinstance(x, ir.Variable) and
            x.type == types.VarType.LOD_TENSOR_ARRAY)


def joined(helper, array, axis, use_stack):
    """The values of an array as one tensor."""
    out = helper.create_variable_for_type_inference(array.dtype)
    index = helper.create_variable_for_type_inference("int32")
    helper.append_op("tensor_array_to_tensor", inputs={"X": array},
                     outputs={"Out": out, "OutIndex": index},
                     attrs={"axis": axis, "use_stack": use_stack})
    return out, index


def concat(input, axis=0, name=None):
    helper = LayerHelper("concat", name=name)
    if is_array(input):
        return joined(helper, input, axis, use_stack=False)[0]
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
    """The sum of tensors of one shape."""
    helper = LayerHelper("sum")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if out is None:
        out = helper.create_variable_for_type_inference(inputs[0].dtype)
    helper.append_op("sum", inputs={"X": inputs}, outputs={"Out": out})
    return out


def assign(input, output=None):
    helper = LayerHelper("assign")
    if isinstance(input, ir.Variable):
        check_dtype(input.dtype, "input",
                    ["float16", "float32", "float64", "int32", "int64",
                     "bool"], "assign")
        if output is None:
            output = helper.like(input)
        helper.append_op("assign", inputs={"X": input},
                         outputs={"Out": output})
        return output
    check_type(input, "input", (ir.Variable, np.ndarray), "assign")
    array, name = input, input.dtype.name
    if name not in VALUES:
        raise TypeError(f"assign: an array of type {name} cannot be assigned; "
                        "float32, int32, int64 and bool can")
    if output is None:
        output = helper.create_variable_for_type_inference(name)
    helper.append_op("assign_value", outputs={"Out": output},
                     attrs={"dtype": name, "shape": list(array.shape),
                            VALUES[name]:
                                array.reshape(-1).tolist()})
    return output


def _number_attrs(value, dtype):
    """A number as an attribute, with all digits of an integer."""
    whole = types.name_of(dtype) in ("int64", "int32")
    return {"value": float(value),
            "str_value": str(int(value) if whole else float(value))}


def fill_constant(shape, dtype, value, force_cpu=False, out=None):
    check_type(shape, "shape", (list, tuple, ir.Variable), "fill_constant")
    if out is not None:
        check_variable_and_dtype(out, "out", [types.name_of(dtype)],
                                 "fill_constant")
    helper = LayerHelper("fill_constant")
    inputs, attrs = shape_slots(shape)
    if isinstance(value, ir.Variable):
        inputs["ValueTensor"] = value
    else:
        attrs.update(_number_attrs(value, dtype))
    if out is None:
        out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("fill_constant", inputs=inputs, outputs={"Out": out},
                     attrs={**attrs, "dtype": out.dtype,
                            "force_cpu": force_cpu}, stop_gradient=True)
    return out


def _as_count(v, what, layer):
    """A tensor in a shape; fill_constant has them all as int32."""
    check_dtype(v.dtype, what, ("int32", "int64"), layer)
    v.stop_gradient = True
    if layer == "fill_constant" and types.name_of(v.dtype) == "int64":
        return cast(v, "int32")
    return v


def shape_slots(shape, layer="fill_constant"):
    """A shape of numbers, a tensor, or a list of both, as slots and
    attributes."""
    if isinstance(shape, ir.Variable):
        return {"ShapeTensor": _as_count(shape, "shape", layer)}, {}
    assert len(shape) > 0, f"{layer}: the shape has no dimensions"
    known = numbers_known(shape)
    if not is_open(shape):
        return {}, {"shape": known}
    parts = [_as_count(n, f"shape[{i}]", layer) if isinstance(n, ir.Variable)
             else fill_constant([1], "int32", n, force_cpu=True)
             for i, n in enumerate(shape)]
    return {"ShapeTensorList": parts}, {"shape": known}


def is_open(values):
    """Whether a list has variables among its numbers."""
    return any(isinstance(n, ir.Variable) for n in values)


def numbers_known(values):
    """Numbers of a list, -1 for those that are variables."""
    return [-1 if isinstance(n, ir.Variable) else int(n) for n in values]


def counts(v):
    """A tensor in the place of a list of numbers. What is fed decides whether
    it has whole ones, so a declaration as floats is taken for an oversight."""
    v.stop_gradient = True
    if v.is_data and types.name_of(v.dtype) in ("float32", "float64"):
        v._change(dtype=types.to_core("int32"), shape=(int(np.prod(v.shape)),))
    return v


def tensors_of(helper, values, dtype="int32"):
    """Numbers and variables of one number as variables."""
    made = []
    for n in values:
        if isinstance(n, ir.Variable):
            n.stop_gradient = True
            made.append(n)
        else:
            out = helper.create_variable_for_type_inference(dtype)
            made.append(fill_constant([1], dtype, int(n), force_cpu=True,
                                      out=out))
    return made


def fill_constant_batch_size_like(input, shape, dtype, value, input_dim_idx=0,
                                  output_dim_idx=0, force_cpu=False):
    helper = LayerHelper("fill_constant_batch_size_like")
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op("fill_constant_batch_size_like",
                     inputs={"Input": input}, outputs={"Out": out},
                     attrs={"shape": list(shape),
                            "dtype": types.var_type(dtype),
                            "input_dim_idx": input_dim_idx,
                            "output_dim_idx": output_dim_idx,
                            "force_cpu": force_cpu,
                            **_number_attrs(value, dtype)})
    out.stop_gradient = True
    return out


def ones(shape, dtype, force_cpu=False):
    """A tensor of ones."""
    assert np.prod(shape) > 0, f"a tensor of shape {shape} has no numbers"
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape, dtype, force_cpu=False):
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu)


def argmax(x, axis=0):
    """Where the largest number along an axis stands."""
    return _arg("arg_max", x, axis)


def argmin(x, axis=0):
    """Where the smallest number along an axis stands."""
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


def arange(start, end, step=1, dtype=None, name=None):
    """Numbers from start up to end in steps, floats unless said."""
    return range(start, end, step, dtype or "float32")


def full(shape, fill_value, out=None, dtype=None, device=None,
         stop_gradient=True, name=None):
    """A number everywhere."""
    helper = LayerHelper("full", name=name)
    dtype = dtype or "float32"
    if out is None:
        out = helper.create_variable_for_type_inference(dtype)
    fill_constant(shape=shape, dtype=dtype, value=fill_value, out=out)
    out.stop_gradient = stop_gradient
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
    """Zeros in the shape of another tensor."""
    return _filled_like("zeros_like", "fill_zeros_like", x, out)


def ones_like(x, out=None):
    """Ones in the shape of another tensor."""
    return _filled_like("ones_like", "fill_any_like", x, out, value=1.0)


def full_like(input, fill_value, out=None, dtype=None, device=None,
              stop_gradient=True, name=None):
    """A tensor of the shape of another, the same number everywhere."""
    helper = LayerHelper("full_like", name=name)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype or input.dtype)
    helper.append_op("fill_any_like", inputs={"X": input},
                     outputs={"Out": out},
                     attrs={"value": fill_value,
                            "dtype": types.var_type(dtype or input.dtype)})
    out.stop_gradient = stop_gradient
    return out


def _filled_like(layer, kind, x, out, **attrs):
    helper = LayerHelper(layer)
    out = helper.like(x) if out is None else out
    helper.append_op(kind, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    out.stop_gradient = True
    return out
