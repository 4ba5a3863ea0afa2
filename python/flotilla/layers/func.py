"""Functions of Python's as operators of a program."""
import inspect

import numpy as np

from .. import _core, ir
from ..check import check_type
from ..helper import LayerHelper
from ..tensor import LoDTensor

_functions = []  # by number: what was given, and what is called with values


def _takes_nothing(fn):
    try:
        return not inspect.signature(fn).parameters
    except ValueError:  # a builtin that does not say
        return False


def _register(fn, called=None):
    """The number of a function."""
    if fn is None or not callable(fn):
        raise TypeError("func must be a Python function")
    if called is None:
        called = (lambda *values: fn()) if _takes_nothing(fn) else fn
    _functions.append((fn, called))
    return len(_functions) - 1


def _result(value):
    """A result as the extension takes it."""
    if value is None:
        return None
    if not isinstance(value, LoDTensor):
        array = np.ascontiguousarray(value)
        value = LoDTensor()
        value.set(array)
    return value._core()


def _call(number, values, n_out):
    """What the operator runs: as many results as it has outputs."""
    given = [None if v is None else LoDTensor(v) for v in values]
    found = _functions[number][1](*given)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    if not n_out and found in ([], [None]):
        return []
    if len(found) != n_out:
        raise ValueError(f"py_func: {_functions[number][0]} gave {len(found)} "
                         f"values for {n_out} outputs")
    return [_result(v) for v in found]


_core.set_caller(_call)


def _listed(found, what):
    check_type(found, what, (list, tuple, ir.Variable, type(None)), "py_func")
    if found is None:
        return []
    return [found] if isinstance(found, ir.Variable) else list(found)


def _skipped(names, skip):
    """Places of the variables that the backward function does not take."""
    skip = _listed(skip, "skip_vars_in_backward_input")
    for v in skip:
        if v.name not in names:
            raise ValueError(f"Variable {v.name} is not found in forward "
                             "inputs and outputs")
    return [v.name for v in skip]


def _register_back(fn, names, skip):
    """The number of a backward function, which sees inputs, outputs and the
    gradients of these, without those that are skipped."""
    left = [i for i, name in enumerate(names) if name not in skip]

    def called(*values):
        return fn(*[values[i] for i in left], *values[len(names):])

    return _register(fn, called)


def py_func(func, x, out, backward_func=None,
            skip_vars_in_backward_input=None):
    """A function of Python's as an operator: it is called with the values of x
    as LoDTensors, and gives those of out, whose shapes and types are declared.
    backward_func gives the gradients of x for x, out and the gradients of out;
    without one none flows back."""
    x, outs = _listed(x, "X"), _listed(out, "Out")
    for v in outs:
        if not v.shape:
            raise ValueError("Output shapes of py_func op should be provided "
                             "by users manually")
        if v.is_data:
            v._change(is_data=False)  # declared for its shape, and not fed
    names = [v.name for v in x + outs]
    forward, back, skip = _register(func), -1, []
    if backward_func is not None:
        skip = _skipped(names, skip_vars_in_backward_input)
        back = _register_back(backward_func, names, skip)
    else:
        for v in outs:
            v.stop_gradient = True
    LayerHelper("py_func").append_op(
        "py_func", inputs={"X": x}, outputs={"Out": outs},
        attrs={"forward_callable_id": forward, "backward_callable_id": back,
               "backward_skip_vars": skip})
    return out


py_func.registered_func = lambda number: _functions[number][0]
py_func.registered_func_num = lambda: len(_functions)
