"""Arguments of layers: what is no variable, or of another type, is refused
where it was given. checks.def says what each layer takes."""
import functools
import inspect
import os

import numpy as np

from . import ir, types

_CLASSES = {"Variable": ir.Variable, "list": list, "tuple": tuple, "int": int,
            "float": float, "bool": bool, "str": str, "ndarray": np.ndarray,
            "None": type(None)}


def check_type(value, name, expected, op_name, extra=""):
    if not isinstance(value, expected):
        raise TypeError(f"The type of '{name}' in {op_name} must be "
                        f"{expected}, but received {type(value)}. {extra}")


def check_dtype(dtype, name, expected, op_name, extra=""):
    found = types.name_of(dtype)
    if found == "uint64" and "int64" in expected:
        return  # ids of tables
    if found not in expected:
        raise TypeError(f"The data type of '{name}' in {op_name} must be "
                        f"{list(expected)}, but received {found}. {extra}")


def check_variable_and_dtype(value, name, expected, op_name, extra=""):
    check_type(value, name, ir.Variable, op_name, extra)
    check_dtype(value.dtype, name, expected, op_name, extra)


def _check_class(value, name, words, op_name):
    check_type(value, name, tuple(_CLASSES[w] for w in words), op_name)


def _check_variables(value, name, words, op_name):
    for v in value if isinstance(value, (list, tuple)) else [value]:
        check_variable_and_dtype(v, name, words, op_name)


def _check_rows(value, name, words, op_name):
    check_type(value, name, ir.Variable, op_name)
    if value.type != types.VarType.SELECTED_ROWS:
        raise TypeError(f"'{name}' in {op_name} must be SelectedRows")


_KINDS = {"variable": check_variable_and_dtype, "variables": _check_variables,
          "dtype": check_dtype, "type": _check_class, "rows": _check_rows}


def _read():
    """{layer: [(argument, check, words), ...]}."""
    rows = {}
    path = os.path.join(os.path.dirname(__file__), "checks.def")
    with open(path, encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                layer, argument, kind = words[:3]
                rows.setdefault(layer, []).append(
                    (argument, _KINDS[kind], words[3:]))
    return rows


CHECKS = _read()


def checked(name, layer):
    """The layer, with its arguments checked as checks.def says."""
    rows = CHECKS.get(name)
    if rows is None or not inspect.isfunction(layer):
        return layer
    signature = inspect.signature(layer)

    @functools.wraps(layer)
    def first_checked(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            given = {}  # the layer says what is wrong
        for argument, check, words in rows:
            if given.get(argument) is not None:
                check(given[argument], argument, words, name)
        return layer(*args, **kwargs)

    return first_checked
