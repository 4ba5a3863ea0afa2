"""Layers that follow from an operator's descriptor: functions of one tensor,
of two, comparisons, logic, reductions. An operator of these families that is
new in the library has its layer without a line here."""
from .. import _core
from ..helper import LayerHelper
from ..ir import operator_view

# Families by what an operator takes and gives: one X, or X and Y.
_COMPARING = ("less_than", "less_equal", "greater_than", "greater_equal",
              "equal", "not_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_REDUCING = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
             "reduce_prod", "reduce_all", "reduce_any")


def _slot_names(view, side):
    return [s["name"] for s in view[side] if not s["is_optional"]]


def _default(kind, text):
    if kind == 0:
        return text == "true"
    if kind == 1:
        return int(text)
    if kind == 2:
        return float(text)
    return text


def _unary(kind, view):
    """kind(x, attributes..., name=None)."""
    attrs = [(n, _default(t, d)) for n, t, d in view["attrs"] if t <= 3]

    def layer(x, *args, name=None, **given):
        if len(args) > len(attrs):
            raise TypeError(f"{kind} takes {len(attrs)} settings, not "
                            f"{len(args)}")
        values = dict(attrs)
        values.update(zip((n for n, _ in attrs), args))
        wrong = set(given) - set(values)
        if wrong:
            raise TypeError(f"{kind} has no setting {sorted(wrong)[0]}")
        values.update(given)
        helper = LayerHelper(kind, name=name)
        out = helper.like(x)
        helper.append_op(kind, inputs={"X": x}, outputs={"Out": out},
                         attrs=values)
        return out

    return layer


def _elementwise(kind):
    def layer(x, y, axis=-1, act=None, name=None):
        helper = LayerHelper(kind, name=name, act=act)
        out = helper.like(x)
        helper.append_op(kind, inputs={"X": x, "Y": y}, outputs={"Out": out},
                         attrs={"axis": axis})
        return helper.append_activation(out)

    return layer


def _boolean(kind):
    def layer(x, y, out=None, cond=None, name=None, force_cpu=None):
        helper = LayerHelper(kind, name=name)
        out = out or cond
        if out is None:
            out = helper.create_variable_for_type_inference("bool", True)
        helper.append_op(kind, inputs={"X": x, "Y": y}, outputs={"Out": out})
        return out

    return layer


def _reducing(kind):
    def layer(input, dim=None, keep_dim=False, name=None):
        helper = LayerHelper(kind, name=name)
        out = helper.like(input)
        if dim is not None and not isinstance(dim, (list, tuple)):
            dim = [dim]
        helper.append_op(kind, inputs={"X": input}, outputs={"Out": out},
                         attrs={"dim": list(dim or [0]),
                                "keep_dim": keep_dim,
                                "reduce_all": not dim})
        return out

    return layer


def _make(kind, view):
    if kind.startswith("elementwise_"):
        return _elementwise(kind)
    if kind in _COMPARING or kind in _LOGICAL:
        return _boolean(kind)
    if kind in _REDUCING:
        return _reducing(kind)
    if (_slot_names(view, "inputs") == ["X"] and
            _slot_names(view, "outputs") == ["Out"] and
            not any(s["is_list"] for s in view["inputs"])):
        return _unary(kind, view)
    return None


def _all():
    made = {}
    for kind in _core.operator_names():
        view = operator_view(kind)
        layer = _make(kind, view)
        if layer is not None:
            layer.__name__ = layer.__qualname__ = kind
            layer.__doc__ = view["doc"]
            made[kind] = layer
    return made


layers = _all()
