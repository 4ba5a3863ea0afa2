"""Parameters and state as one file of arrays each: fluid.save and load."""
import os
import pickle
import warnings

import numpy as np

from . import _core, ir, tensor
from .executor import Executor
from .io_vars import (get_program_persistable_vars, is_belong_to_optimizer,
                      is_model, is_parameter, load_vars, read_file,
                      read_files, set_value, value_of)

_SUFFIXES = (".pdparams", ".pdopt", ".pdmodel")


def _write(path, values):
    with open(path, "wb") as f:
        pickle.dump(values, f, protocol=2)


class _Arrays(pickle.Unpickler):
    """Reads arrays and nothing else: a model is data, not code."""

    _FREE = {("numpy.core.multiarray", "_reconstruct"),
             ("numpy._core.multiarray", "_reconstruct"),
             ("numpy", "ndarray"), ("numpy", "dtype"),
             ("collections", "OrderedDict"), ("_codecs", "encode")}

    def find_class(self, module, name):
        if (module, name) not in self._FREE:
            raise pickle.UnpicklingError(f"{module}.{name} is no array of a "
                                         "model")
        return super().find_class(module, name)


def _read(path):
    with open(path, "rb") as f:
        return _Arrays(f, encoding="latin1").load()


def _prefix(model_path):
    for suffix in _SUFFIXES:
        if model_path.endswith(suffix):
            return model_path[:-len(suffix)]
    return model_path


def _expect_arrays(program):
    tables = [p.name for p in program.all_parameters()
              if _core.var_look(p._handle)["is_table"]]
    if tables:
        raise NotImplementedError(
            f"save: rows of {', '.join(tables)} are in a table, which a file "
            "of arrays has no place for; io.save_persistables(executor, "
            "folder, program) saves them, of a job as well")


def save(program, model_path):
    """Parameters, the optimizer's state and the program, in three files."""
    if not os.path.basename(model_path):
        raise AssertionError("model_path is PATH/PREFIX; the prefix is empty")
    _expect_arrays(program)
    os.makedirs(os.path.dirname(model_path) or ".", exist_ok=True)
    for suffix, belongs in ((".pdparams", is_parameter),
                            (".pdopt", is_belong_to_optimizer)):
        _write(model_path + suffix, {v.name: value_of(v.name)
                                     for v in program.list_vars()
                                     if belongs(v)})
    with open(model_path + ".pdmodel", "w", encoding="utf-8") as f:
        f.write(program.to_string())


def _load_saved_vars(program, path, executor, var_list):
    """What save_vars and its like have written, into a program."""
    if executor is None:
        raise ValueError("executor is required when loading model file saved "
                         "with [ save_params, save_persistables, save_vars ]")
    if os.path.isdir(path):
        there = set(_saved_names(path))
        load_vars(executor, path, program,
                  [v for v in program.list_vars() if v.name in there])
        return
    if not os.path.isfile(path):
        raise ValueError(f"there is no model at {path} nor {path}.pdparams")
    if var_list is None:
        raise ValueError("var_list is required when loading model file saved "
                         "with [ save_params, save_persistables, save_vars ]")
    known = {v.name for v in program.list_vars()}
    for v in var_list:
        if v.name not in known:
            raise LookupError(f"loaded var [{v.name}] is not in program "
                              "variable list")
    load_vars(executor, os.path.dirname(path), program, var_list,
              filename=os.path.basename(path))


def _saved_names(path):
    """Of the variables in a folder."""
    if is_model(path):
        return _core.saved(ir.ctx, path, False)["names"]
    return [os.path.relpath(os.path.join(root, f), path)
            for root, _, files in os.walk(path) for f in files]


def load(program, model_path, executor=None, var_list=None):
    """What save has written, or save_vars and its like."""
    if executor is not None and not isinstance(executor, Executor):
        raise AssertionError(f"an Executor is wanted, not {type(executor)}")
    prefix = _prefix(model_path)
    if not os.path.exists(prefix + ".pdparams"):
        _load_saved_vars(program, model_path, executor, var_list)
        return
    for suffix, belongs in ((".pdparams", is_parameter),
                            (".pdopt", is_belong_to_optimizer)):
        wanted = [v.name for v in program.list_vars() if belongs(v)]
        if not wanted:
            continue
        if not os.path.exists(prefix + suffix):
            raise AssertionError(f"Optimizer file [{prefix + suffix}] not "
                                 "exits")
        _set_wanted(wanted, _read(prefix + suffix), prefix + suffix)


def _set_wanted(names, found, path):
    for name in names:
        if name not in found:
            raise AssertionError(f"Can not find [{name}] in model file "
                                 f"[{path}]")
    for name in names:
        set_value(name, found[name])


def _arrays(values):
    """The numbers alone."""
    return {name: np.asarray(value) for name, value in values.items()}


def _state_of_saved_vars(path, var_list):
    names = None if var_list is None else [_var_name(v) for v in var_list]
    if os.path.isfile(path):
        if names is None:
            raise ValueError("var_list can not be None when model_path is a "
                             "file type")
        return _arrays(read_file(path, names))
    if not os.path.isdir(path):
        raise ValueError(f"there is no model at {path} nor {path}.pdparams")
    if not is_model(path):
        return _arrays(read_files(path, names or _saved_names(path)))
    found = {name: np.array(value) for name, value in
             _core.saved(ir.ctx, path, True)["tensors"].items()}
    for name in names or ():
        if name not in found:
            raise RuntimeError(f"model {path} has no variable {name}")
    return {name: found[name] for name in names or found}


def _var_name(v):
    if not isinstance(v, ir.Variable):
        raise TypeError(f"value in var_list must be variable, not {type(v)}")
    return v.name


def load_program_state(model_path, var_list=None):
    """{name: array} of what save, or save_vars and its like, has written."""
    prefix = _prefix(model_path)
    if not os.path.exists(prefix + ".pdparams"):
        return _state_of_saved_vars(model_path, var_list)
    state = _read(prefix + ".pdparams")
    if os.path.exists(prefix + ".pdopt"):
        state.update(_read(prefix + ".pdopt"))
    return state


def _check_same(v, old, new):
    if old.shape != new.shape:
        raise AssertionError(
            "Parameter's shape does not match, the Program requires a "
            f"parameter with the shape of ({old.shape}), while the loaded "
            f"parameter (namely [ {v.name} ]) has a shape of  ({new.shape}).")
    if old.dtype != new.dtype:
        raise AssertionError(
            "Parameter's data type does not match, the Program requires a "
            f"parameter with a dtype of ({old.dtype}), while the loaded "
            f"parameter (namely [ {v.name} ]) has a dtype of  ({new.dtype}).")


def set_program_state(program, state_dict):
    """Values of a program's variables; names that it lacks are told."""
    used = set()
    for v in get_program_persistable_vars(program):
        if tensor.global_scope().find_var(v.name) is None:
            raise AssertionError(f"Variable [ {v.name} ] Not found, Please "
                                 "make sure run startup program")
        if v.name in state_dict:
            new = np.asarray(state_dict[v.name])
            _check_same(v, value_of(v.name), new)
            set_value(v.name, new)
            used.add(v.name)
    unused = [name for name in state_dict if name not in used]
    if unused:
        warnings.warn("This list is not set, Because of Paramerter not found "
                      f"in program. There are: {' '.join(unused)}")
