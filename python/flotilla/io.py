"""Models at rest. A model is a folder of versions that Flotilla's tools read;
see docs/formats/model.md."""
import os
import pickle

import numpy as np

from . import _core, ir, tensor


def _program(p):
    if p is not None and not isinstance(p, ir.Program):
        p = getattr(p, "_program", p)
    if p is not None and not isinstance(p, ir.Program):
        raise TypeError(f"a Program is wanted, not {type(p)}")
    return p or ir.default_main_program()


def is_parameter(var):
    return isinstance(var, ir.Parameter)


def is_persistable(var):
    return var.persistable and not var.is_data


def _chosen(program, vars, predicate):
    """The names that are meant; None for every persistent variable."""
    if vars is not None:
        return [v if isinstance(v, str) else v.name for v in vars]
    if predicate is None or predicate is is_persistable:
        return None
    return [v.name for v in program.list_vars() if predicate(v)]


def save_vars(executor, dirname, main_program=None, vars=None, predicate=None,
              filename=None):
    program = _program(main_program)
    _core.save(executor._handle, dirname, program._handle,
               _chosen(program, vars, predicate),
               tensor.global_scope()._handle)


def load_vars(executor, dirname, main_program=None, vars=None, predicate=None,
              filename=None):
    program = _program(main_program)
    _core.load(executor._handle, dirname, program._handle,
               _chosen(program, vars, predicate),
               tensor.global_scope()._handle)


def save_params(executor, dirname, main_program=None, filename=None):
    save_vars(executor, dirname, main_program, predicate=is_parameter)


def load_params(executor, dirname, main_program=None, filename=None):
    load_vars(executor, dirname, main_program, predicate=is_parameter)


def save_persistables(executor, dirname, main_program=None, filename=None):
    save_vars(executor, dirname, main_program)


def load_persistables(executor, dirname, main_program=None, filename=None):
    load_vars(executor, dirname, main_program)


def save_inference_model(dirname, feeded_var_names, target_vars, executor,
                         main_program=None, model_filename=None,
                         params_filename=None, export_for_deployment=True,
                         program_only=False):
    """What predictions need; gives the names of the targets."""
    targets = [v.name for v in ir._as_list(target_vars)]
    _core.save_inference(executor._handle, dirname,
                         ir._as_list(feeded_var_names), targets,
                         _program(main_program)._handle,
                         tensor.global_scope()._handle)
    return targets


def load_inference_model(dirname, executor, model_filename=None,
                         params_filename=None, pserver_endpoints=None):
    """[program, names of feeds, targets]; its values are in the scope."""
    saved = _core.saved(ir.ctx, dirname, True)
    program = ir.Program.from_text(saved["program"])
    scope = tensor.global_scope()
    for name, value in saved["tensors"].items():
        _core.scope_set(scope._handle, name, value)
    block = program.global_block()
    return [program, saved["feeds"], [block.var(n) for n in saved["targets"]]]


def get_program_parameter(program):
    return [v for v in program.list_vars() if is_parameter(v)]


def get_program_persistable_vars(program):
    return [v for v in program.list_vars() if is_persistable(v)]


# --- one file of arrays ------------------------------------------------------

def _values(vars, scope):
    found = {}
    for v in vars:
        value = scope.find_var(v.name)
        if value is None:
            raise RuntimeError(f"variable {v.name} has no value: run the "
                               "startup program first")
        found[v.name] = np.asarray(value.get_tensor())
    return found


def _write(path, values):
    with open(path, "wb") as f:
        pickle.dump(values, f, protocol=2)


def _read(path):
    with open(path, "rb") as f:
        return pickle.load(f, encoding="latin1")


def save(program, model_path):
    """Parameters, the optimizer's state and the program, in three files."""
    base = os.path.basename(model_path)
    if not base:
        raise AssertionError("model_path is PATH/PREFIX; the prefix is empty")
    os.makedirs(os.path.dirname(model_path) or ".", exist_ok=True)
    scope = tensor.global_scope()
    parameters = get_program_parameter(program)
    others = [v for v in get_program_persistable_vars(program)
              if not is_parameter(v)]
    _write(model_path + ".pdparams", _values(parameters, scope))
    if others:
        _write(model_path + ".pdopt", _values(others, scope))
    with open(model_path + ".pdmodel", "w", encoding="utf-8") as f:
        f.write(str(program))


def load_program_state(model_path, var_list=None):
    """{name: array} of what save wrote."""
    state = {}
    for suffix in (".pdparams", ".pdopt"):
        if os.path.exists(model_path + suffix):
            state.update(_read(model_path + suffix))
    if not state:
        raise ValueError(f"there is no model at {model_path}.pdparams")
    wanted = None if var_list is None else {v.name for v in var_list}
    return {k: v for k, v in state.items() if wanted is None or k in wanted}


def set_program_state(program, state_dict):
    scope = tensor.global_scope()
    for v in get_program_persistable_vars(program):
        if v.name not in state_dict:
            continue
        value = np.asarray(state_dict[v.name])
        if tuple(value.shape) != tuple(v.shape):
            raise AssertionError(f"variable {v.name} has shape {v.shape}, and "
                                 f"its saved value {value.shape}")
        scope.var(v.name).get_tensor().set(value)


def load(program, model_path, executor=None, var_list=None):
    set_program_state(program, load_program_state(model_path, var_list))
