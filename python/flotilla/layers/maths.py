"""Functions of numbers beyond those that follow from a descriptor."""
from .. import types
from ..check import check_type, check_variable_and_dtype
from ..helper import LayerHelper
from ..initializer import Constant
from .generated import elementwise_add, elementwise_mul, exp, log, reduce_sum


def prelu(x, mode, param_attr=None, name=None):
    """A rectifier whose slope below 0 is learned."""
    sizes = {"all": [1], "channel": [1, x.shape[1], 1, 1],
             "element": [1] + list(x.shape)[1:]}
    if mode not in sizes:
        raise ValueError("mode should be one of all, channel, element.")
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    alpha = helper.create_parameter(helper.param_attr, sizes[mode], x.dtype,
                                    default_initializer=Constant(0.25))
    return helper.apply("prelu", {"X": x, "Alpha": alpha},
                        attrs={"mode": mode})


def bilinear_tensor_product(x, y, size, act=None, name=None, param_attr=None,
                            bias_attr=None):
    """x W_i y for each of `size` matrices that are learned."""
    helper = LayerHelper("bilinear_tensor_product", x=x, act=act, name=name,
                         param_attr=param_attr, bias_attr=bias_attr)
    dtype = helper.input_dtype("x")
    w = helper.create_parameter(helper.param_attr,
                                [size, x.shape[1], y.shape[1]], dtype)
    out = helper.create_variable_for_type_inference(dtype)
    inputs = {"X": x, "Y": y, "Weight": w}
    if helper.bias_attr:
        inputs["Bias"] = helper.create_parameter(helper.bias_attr, [1, size],
                                                 dtype, is_bias=True)
    helper.append_op("bilinear_tensor_product", inputs=inputs,
                     outputs={"Out": out})
    return helper.append_activation(out)


def label_smooth(label, prior_dist=None, epsilon=0.1, dtype="float32",
                 name=None):
    """Labels that are less sure of themselves."""
    if not 0 <= epsilon <= 1:
        raise ValueError("The value of epsilon must be between 0 and 1.")
    label.stop_gradient = True
    inputs = {"X": label}
    if prior_dist is not None:
        inputs["PriorDist"] = prior_dist
    return LayerHelper("label_smooth", name=name).apply(
        "label_smooth", inputs, attrs={"epsilon": float(epsilon)},
        dtype=dtype)


def log_softmax(input, axis=None, dtype=None, name=None):
    """The logarithm of softmax."""
    helper = LayerHelper("log_softmax", name=name)
    if dtype is not None:
        input = helper.apply("cast", {"X": input}, dtype=dtype,
                             attrs={"in_dtype": input.dtype,
                                    "out_dtype": types.var_type(dtype)})
    share = helper.apply("softmax", {"X": input},
                         attrs={"axis": -1 if axis is None else axis})
    return helper.apply("log", {"X": share})


def logsumexp(x, dim=None, keepdim=False, out=None, name=None):
    """The logarithm of the sum of exp(x)."""
    assert x is not None, "x cannot be None in logsumexp"
    check_variable_and_dtype(x, "x", ["float32", "float64"], "logsumexp")
    total = reduce_sum(exp(x, name), dim=dim, keep_dim=keepdim)
    if out is None:
        return log(total, name)
    LayerHelper("logsumexp", name=name).append_op(
        "log", inputs={"X": total}, outputs={"Out": out})
    return out


def addcmul(input, tensor1, tensor2, value=1.0, out=None, name=None):
    """input + value * tensor1 * tensor2; value is of their kind."""
    whole = types.name_of(input.dtype) in ("int32", "int64")
    check_type(value, "value", int if whole else float, "addcmul")
    found = elementwise_add(input, elementwise_mul(tensor1, tensor2) * value)
    if out is None:
        return found
    LayerHelper("addcmul", name=name).append_op(
        "assign", inputs={"X": found}, outputs={"Out": out})
    return out


def addmm(input, x, y, alpha=1.0, beta=1.0, name=None):
    """beta input + alpha x y."""
    for v, slot in ((input, "Input"), (x, "X"), (y, "Y")):
        check_variable_and_dtype(v, slot, ["float32", "float64"], "addmm")
    helper = LayerHelper("addmm", name=name)
    out = helper.like(x)
    helper.append_op("addmm", inputs={"Input": input, "X": x, "Y": y},
                     outputs={"Out": out},
                     attrs={"Alpha": float(alpha), "Beta": float(beta)})
    return out


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False,
             name=None):
    """Whether two variables are the same but for a little."""
    check_type(rtol, "rtol", float, "allclose")
    check_type(atol, "atol", float, "allclose")
    check_type(equal_nan, "equal_nan", bool, "allclose")
    return LayerHelper("allclose", name=name).apply(
        "allclose", {"Input": input, "Other": other}, dtype="bool",
        attrs={"rtol": rtol, "atol": atol, "equal_nan": equal_nan})


def cross(input, other, dim=None):
    """The cross product along an axis of three places; the first such axis
    unless dim says which."""
    return LayerHelper("cross").apply(
        "cross", {"X": input, "Y": other},
        attrs={} if dim is None else {"dim": dim})


def kron(x, y, out=None, name=None):
    """Each number of x times all of y, in its place."""
    helper = LayerHelper("kron", name=name)
    out = helper.like(x) if out is None else out
    helper.append_op("kron", inputs={"X": x, "Y": y}, outputs={"Out": out})
    return out


def dist(x, y, p=2):
    """How far x and y are apart by the norm p."""
    return LayerHelper("dist").apply("dist", {"X": x, "Y": y},
                                     attrs={"p": float(p)})


def trace(input, offset=0, dim1=0, dim2=1, out=None, name=None):
    """The sums over the diagonals of matrices."""
    helper = LayerHelper("trace", name=name)
    out = helper.like(input) if out is None else out
    helper.append_op("trace", inputs={"Input": input}, outputs={"Out": out},
                     attrs={"offset": offset, "dim1": dim1, "dim2": dim2})
    return out
