"""Arguments of layers: what is no variable, or of another type, is refused
where it was given."""
from . import ir, types


def check_type(value, name, expected, op_name, extra=""):
    if not isinstance(value, expected):
        raise TypeError(f"The type of '{name}' in {op_name} must be "
                        f"{expected}, but received {type(value)}. {extra}")


def check_dtype(dtype, name, expected, op_name, extra=""):
    found = types.name_of(dtype)
    if found not in expected:
        raise TypeError(f"The data type of '{name}' in {op_name} must be "
                        f"{list(expected)}, but received {found}. {extra}")


def check_variable_and_dtype(value, name, expected, op_name, extra=""):
    check_type(value, name, ir.Variable, op_name, extra)
    check_dtype(value.dtype, name, expected, op_name, extra)
