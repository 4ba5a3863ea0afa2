"""Variables at rest: saved into a model, a file or bytes, and loaded."""
import io
import os
import warnings

import numpy as np

from . import _core, feeding, ir, paddle18, tensor
from .types import VarType

_NOT_KEPT = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER)


def valid_program(program):
    """The program that is meant: the default one for None, that of a compiled
    one."""
    if program is None:
        return ir.default_main_program()
    inner = getattr(program, "_program", program)
    if not isinstance(inner, ir.Program):
        raise TypeError("The type of input main_program is invalid, expected "
                        f"type is fluid.Program, but received {type(program)}")
    if inner is not program:
        warnings.warn("The input is a CompiledProgram, this is not "
                      "recommended.")
    return inner


def is_parameter(var):
    """Whether it is a parameter."""
    return isinstance(var, ir.Parameter)


def is_persistable(var):
    """Whether it outlives a run."""
    return (var.type not in _NOT_KEPT and var.persistable and
            not var.is_data)


def is_belong_to_optimizer(var):
    """State that is kept with the parameters."""
    return not is_parameter(var) and is_persistable(var)


def get_program_parameter(program):
    """The parameters of a program."""
    return [v for v in program.list_vars() if is_parameter(v)]


def get_program_persistable_vars(program):
    """What of a program outlives a run."""
    return [v for v in program.list_vars() if is_persistable(v)]


def is_model(path):
    """Whether a path is that of a model of ours: a folder of versions, one of
    them, or one that the settings fs_get and fs_put reach."""
    return "://" in path or any(os.path.exists(os.path.join(path, name))
                                for name in ("CURRENT", "MANIFEST.json"))


def _names(program, vars, predicate):
    """The names that are meant."""
    if vars is not None:
        return [v if isinstance(v, str) else v.name for v in vars]
    return [v.name for v in program.list_vars()
            if (predicate or is_persistable)(v)]


def value_of(name):
    """The value in the scope, as an array."""
    found = tensor.global_scope().find_var(name)
    if found is None:
        raise RuntimeError(f"variable {name} has no value: run the startup "
                           "program first")
    return np.asarray(found.get_tensor())


def set_value(name, value):
    var = tensor.global_scope().var(name)
    if isinstance(value, tensor.SelectedRows):
        var._write(value._fed())
        return
    to = var.get_tensor()
    to._keep(np.ascontiguousarray(value), value.lod() if isinstance(
        value, tensor.LoDTensor) else [])


def _whole_value(name):
    """The value with its sequences or rows, if it has some."""
    found = tensor.global_scope().find_var(name)
    return value_of(name) if found is None else found._value()


def _is_dense(var):
    return var.type != VarType.SELECTED_ROWS and not var.lod_level


# --- saving ------------------------------------------------------------------

def _bytes_of(values):
    f = io.BytesIO()
    for value in values:
        paddle18.write(f, value)
    return f.getvalue()


def as_bytes(names):
    """Values of variables one behind the other, in the order of names."""
    values = {name: _whole_value(name) for name in sorted(names)}
    for name, value in values.items():
        if isinstance(value, tensor.SelectedRows):
            raise RuntimeError(f"variable {name} has rows, which a file of "
                               "several variables has no place for; save "
                               "without filename")
    return _bytes_of(values.values())


def write_file(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def write_each(dirname, names):
    """A file for each variable."""
    for name in names:
        write_file(os.path.join(dirname, name), _bytes_of([_whole_value(name)]))


def save_vars(executor, dirname, main_program=None, vars=None, predicate=None,
              filename=None):
    """Into a model, or, where one of the variables has sequences or rows, into
    a file each; with `filename` into that file of the folder; without either,
    the bytes of such a file are given."""
    program = valid_program(main_program)
    names = _names(program, vars, predicate)
    if not names:
        warnings.warn("no variable in your model, please ensure there are any "
                      "variables in your model to save")
        return None
    if filename is None and dirname is None:
        return as_bytes(names)
    if filename is not None:
        write_file(os.path.join(dirname, filename), as_bytes(names))
        return None
    block = program.global_block()
    if not all(map(_is_dense, filter(None, map(block._find, names)))):
        write_each(dirname, names)
        return None
    for name in names:
        feeding.widen(program, name, tensor.global_scope())
    whole = vars is None and predicate in (None, is_persistable)
    _core.save(executor._handle, dirname, program._handle,
               None if whole else names, tensor.global_scope()._handle)
    return None


def save_params(executor, dirname, main_program=None, filename=None):
    """Writes the parameters of a program."""
    return save_vars(executor, dirname, main_program, predicate=is_parameter,
                     filename=filename)


def save_persistables(executor, dirname, main_program=None, filename=None):
    """Writes all that outlives a run of a program."""
    return save_vars(executor, dirname, main_program, filename=filename)


# --- loading -----------------------------------------------------------------

def read_file(path, names):
    """{name: value} of a file of several variables, or of its bytes."""
    if isinstance(path, bytes):
        data, what = path, "the bytes of a model"
    else:
        with open(path, "rb") as f:
            data, what = f.read(), path
    found = paddle18.read_all(data, what)
    if len(found) != len(names):
        raise RuntimeError(f"{what} has {len(found)} variables, and "
                           f"{len(names)} are asked for")
    return dict(zip(sorted(names), found))


def read_files(dirname, names, rows=()):
    """{name: value} of a folder with a file for each variable; `rows` are the
    names of those that have rows."""
    found = {}
    for name in names:
        path = os.path.join(dirname, name)
        if not os.path.isfile(path):
            raise RuntimeError(f"there is no file {path} for variable {name}, "
                               f"and {dirname} is no model")
        if name in rows:
            with open(path, "rb") as f:
                found[name] = paddle18.read_rows(f.read(), path)
        else:
            found.update(read_file(path, [name]))
    return found


def _set_all(program, found):
    block = program.global_block()
    for name, value in found.items():
        v = block._find(name)
        if v is None or not is_parameter(v):
            continue
        shape = np.shape(value)
        if tuple(v.shape) != shape:
            raise RuntimeError(
                f"Variable's shape does not match, the Program requires a "
                f"parameter with the shape of ({v.shape}), while the loaded "
                f"parameter (namely [ {name} ]) has a shape of  "
                f"({shape}).")
    for name, value in found.items():
        set_value(name, value)


def _load_model(executor, dirname, program, names, whole):
    """From a model of ours. All of it when the program wants all that it has,
    and by servers, each of which takes its part; else what the program
    wants."""
    if whole and (program._is_distributed or
                  set(_core.saved(ir.ctx, dirname, False)["names"]) <= set(
                      names)):
        names = None
    _core.load(executor._handle, dirname, program._handle, names,
               tensor.global_scope()._handle)


def load_vars(executor, dirname, main_program=None, vars=None, predicate=None,
              filename=None):
    """From what save_vars, or PaddlePaddle 1.8, has written."""
    program = valid_program(main_program)
    for v in vars or ():
        if not isinstance(v, (ir.Variable, str)):
            raise AssertionError(f"{v!r} is no variable")
    names = _names(program, vars, predicate)
    if filename is not None:
        whole = filename if dirname is None else os.path.join(dirname,
                                                              filename)
        _set_all(program, read_file(whole, names))
    elif dirname is None:
        raise ValueError("The directory path and params cannot be None at the "
                         "same time.")
    elif os.path.isdir(dirname) and not is_model(dirname):
        rows = [v.name for v in program.list_vars()
                if v.type == VarType.SELECTED_ROWS]
        _set_all(program, read_files(dirname, names, rows))
    else:
        _load_model(executor, dirname, program, names, vars is None and
                    predicate in (None, is_persistable))


def load_params(executor, dirname, main_program=None, filename=None):
    """Reads the parameters of a program."""
    load_vars(executor, dirname, main_program, predicate=is_parameter,
              filename=filename)


def load_persistables(executor, dirname, main_program=None, filename=None):
    """Reads all that outlives a run of a program."""
    load_vars(executor, dirname, main_program, filename=filename)
