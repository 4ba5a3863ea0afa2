"""Layers that follow from an operator's descriptor: functions of one tensor,
of two, comparisons, logic, reductions. An operator of these families that is
new in the library has its layer without a line here."""
import inspect

from .. import _core
from ..check import check_dtype
from ..helper import LayerHelper
from ..ir import Variable, operator_view

# Families by what an operator takes and gives: one X, or X and Y.
_COMPARING = ("less_equal", "greater_than", "greater_equal", "equal",
              "not_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_REDUCING = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
             "reduce_prod", "reduce_all", "reduce_any", "frobenius_norm")

_KINDS = _core.operator_names()

# How the text of a default is read, by type of attribute: a truth value, a
# whole number, a number, a text.
_READ = (lambda text: text == "true", int, float, str)


def _slot_names(view, side):
    return [s["name"] for s in view[side] if not s["is_optional"]]


def _parameter(name, default=None):
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                             default=default)


def _unary(kind, view):
    """kind(x, attributes..., name=None)."""
    attrs = [(n, _READ[t](d)) for n, t, d in view["attrs"] if t < len(_READ)]
    signature = inspect.Signature(
        [_parameter("x", inspect.Parameter.empty)] +
        [_parameter(n, default) for n, default in attrs] +
        [_parameter("name")])

    def layer(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{kind}: {e}") from None
        given.apply_defaults()
        values = given.arguments
        x, name = values.pop("x"), values.pop("name")
        return LayerHelper(kind, name=name).apply(kind, {"X": x}, attrs=values)

    layer.__signature__ = signature
    return layer


def _elementwise(kind):
    def layer(x, y, axis=-1, act=None, name=None):
        helper = LayerHelper(kind, name=name, act=act)
        return helper.append_activation(
            helper.apply(kind, {"X": x, "Y": y}, attrs={"axis": axis}))

    return layer


def _truth(helper, kind, inputs, out, attrs=None):
    """An operator that gives truth values, into a variable if one is given."""
    if out is None:
        out = helper.create_variable_for_type_inference("bool", True)
    helper.append_op(kind, inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _comparing(kind):
    def layer(x, y, cond=None):
        return _truth(LayerHelper(kind), kind, {"X": x, "Y": y}, cond)

    return layer


def _logical(kind):
    def layer(x, y, out=None, name=None):
        return _truth(LayerHelper(kind, name=name), kind, {"X": x, "Y": y},
                      out)

    return layer


def less_than(x, y, force_cpu=None, cond=None):
    attrs = {} if force_cpu is None else {"force_cpu": force_cpu}
    return _truth(LayerHelper("less_than"), "less_than", {"X": x, "Y": y},
                  cond, attrs)


def logical_not(x, out=None, name=None):
    return _truth(LayerHelper("logical_not", name=name), "logical_not",
                  {"X": x}, out)


def _reducing(kind):
    def layer(input, dim=None, keep_dim=False, name=None):
        if dim is not None and not isinstance(dim, (list, tuple)):
            dim = [dim]
        return LayerHelper(kind, name=name).apply(
            kind, {"X": input},
            attrs={"dim": list(dim) if dim else [0], "keep_dim": keep_dim,
                   "reduce_all": not dim})

    return layer


# Layers whose parameters have other names than the operator's attributes, or
# no name.

def softshrink(x, alpha=None):
    return LayerHelper("softshrink").apply("softshrink", {"X": x},
                                           attrs={"lambda": alpha})


def hard_shrink(x, threshold=None):
    return LayerHelper("hard_shrink").apply("hard_shrink", {"X": x},
                                            attrs={"threshold": threshold})


def thresholded_relu(x, threshold=None):
    return LayerHelper("thresholded_relu").apply(
        "thresholded_relu", {"X": x}, attrs={"threshold": threshold})


def gelu(x, approximate=False):
    return LayerHelper("gelu").apply("gelu", {"X": x},
                                     attrs={"approximate": approximate})


def selu(x, scale=None, alpha=None, name=None):
    """scale * x, or scale * alpha * (exp(x) - 1) below 0."""
    given = {"scale": scale, "alpha": alpha}
    return LayerHelper("selu", name=name).apply(
        "selu", {"X": x},
        attrs={k: v for k, v in given.items() if v is not None})


def erf(x):
    return LayerHelper("erf").apply("erf", {"X": x})


def mish(x, threshold=20, name=None):
    if not threshold > 0:
        raise ValueError(f"threshold of mish should be greater than 0, but "
                         f"got {threshold}")
    return LayerHelper("mish", name=name).apply(
        "mish", {"X": x}, attrs={"threshold": threshold})


def dot(x, y, name=None):
    return LayerHelper("dot", name=name).apply("dot", {"X": x, "Y": y})


def sign(x):
    return LayerHelper("sign").apply("sign", {"X": x})


def pow(x, factor=1.0, name=None):
    inputs, attrs = {"X": x}, {}
    if isinstance(factor, Variable):
        check_dtype(factor.dtype, "factor", ["float32"], "pow")
        factor.stop_gradient = True
        inputs["FactorTensor"] = factor
    else:
        attrs["factor"] = factor
    return LayerHelper("pow", name=name).apply("pow", inputs, attrs=attrs)


def elementwise_equal(x, y, name=None):
    """Whether X and Y are equal, element by element."""
    return _truth(LayerHelper("elementwise_equal", name=name), "equal",
                  {"X": x, "Y": y}, None)


def log1p(x, out=None, name=None):
    helper = LayerHelper("log1p", name=name)
    out = helper.like(x) if out is None else out
    helper.append_op("log1p", inputs={"X": x}, outputs={"Out": out})
    return out


def _make(kind, view):
    if kind.startswith("elementwise_"):
        return _elementwise(kind)
    if kind in _COMPARING:
        return _comparing(kind)
    if kind in _LOGICAL:
        return _logical(kind)
    if kind in _REDUCING:
        return _reducing(kind)
    if (_slot_names(view, "inputs") == ["X"] and
            _slot_names(view, "outputs") == ["Out"] and
            not any(s["is_list"] for s in view["inputs"])):
        return _unary(kind, view)
    return None


def describe(name, layer):
    """A layer without a sentence of its own has that of its operator."""
    for kind in (name, name + "2"):
        if (inspect.isfunction(layer) and layer.__doc__ is None and
                kind in _KINDS):
            layer.__doc__ = operator_view(kind)["doc"]


def _all():
    made = {}
    for kind in _KINDS:
        view = operator_view(kind)
        layer = globals().get(kind) or _make(kind, view)
        if layer is not None:
            layer.__name__ = layer.__qualname__ = kind
            layer.__doc__ = view["doc"]
            made[kind] = layer
    return made


layers = {**_all(), "elementwise_equal": elementwise_equal}
globals().update(layers)
