"""What the library says of operators, and how Fluid writes what it takes: roles,
slots, attributes."""
import numpy as np

from . import _core, types

# Our numbers of roles, and Fluid's by ours.
ROLES = {"forward": 0, "backward": 1, "optimize": 2, "lr": 3, "rpc": 4}
FLUID_ROLES = (0x0000, 0x0001, 0x0002, 0x0010, 0x0003)

_ATTR_STRING = 3
_ATTR_BLOCK = 7

_operators = {}


class UnknownOperator(_core.NotFoundError, ValueError):
    """No operator is called so."""


def operator_view(kind):
    """What the library says of an operator: slots and attributes."""
    view = _operators.get(kind)
    if view is None:
        try:
            view = _core.operator_look(kind[:-5] if kind.endswith("_grad")
                                       else kind)
        except _core.NotFoundError as e:
            _, _, hint = str(e).partition("; ")
            raise UnknownOperator(f'Operator "{kind}" has not been registered.'
                                  + (f" {hint}" if hint else "")) from None
        view["attr_types"] = {name: t for name, t, _ in view["attrs"]}
        _operators[kind] = view
    return view


def as_list(x):
    """A list of what may be one."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


def attr_value(name, kind, value):
    """Fluid's way to write an attribute in the library's."""
    if kind == _ATTR_STRING and name.endswith("dtype") and value != "":
        return types.name_of(value)
    if kind == _ATTR_BLOCK:
        return getattr(value, "idx", value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def expect_bools(**given):
    for name, value in given.items():
        if not isinstance(value, bool):
            raise AssertionError(f"The type of {name} parameter is wrong, "
                                 f"expected bool, but received {type(value)}.")


def grad_var_name(name):
    """The name of a variable's gradient."""
    return name + "@GRAD"
