"""Models for prediction: a folder that the predictor opens, or, where files are
named, the text of the program and a file of its variables."""
import contextlib
import logging
import os
import tempfile
import warnings

import numpy as np

from . import _core, ir, tensor
from .executor import Executor
from .io_vars import (as_bytes, get_program_persistable_vars, is_model,
                      load_vars, valid_program, write_each, write_file)

_MARK = "# inference model: "


def _names_to_feed(names):
    names = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(n, str) for n in names):
        raise ValueError("'feed_var_names' should be a list of str.")
    return names


def _targets(vars, may_be_none):
    vars = [vars] if isinstance(vars, ir.Variable) else list(vars or ())
    if not (vars or may_be_none) or not all(isinstance(v, ir.Variable)
                                            for v in vars):
        raise ValueError("'target_vars' should be a list of Variable.")
    return [v.name for v in vars]


def _text(program, feeds, targets):
    """The program for prediction, with its feeds and targets in their order."""
    return (f"{_MARK}feeds={','.join(feeds)} targets={','.join(targets)}\n"
            f"{program}").encode()


def _expect_feeds(program, feeds, targets):
    for name in feeds:
        if not program.global_block().has_var(name):
            raise ValueError(
                f"feed {name} is not in what computes {', '.join(targets)}; "
                "leave it out of feeded_var_names")


def _write_files(dirname, program, feeds, targets, files):
    """The program, and its variables in one file or a file each."""
    model_filename, params_filename, program_only = files
    _expect_feeds(program, feeds, targets)
    write_file(os.path.join(dirname, model_filename or "__model__"),
               _text(program, feeds, targets))
    if program_only:
        warnings.warn("save_inference_model specified the param `program_only`"
                      " to True, It will not save params of Program.")
        return
    names = [v.name for v in get_program_persistable_vars(program)]
    if params_filename is not None:
        write_file(os.path.join(dirname, params_filename), as_bytes(names))
        return
    write_each(dirname, names)


def _show_program(dirname):
    """Beside a model, for scripts that look at its program alone."""
    if "://" not in dirname:
        saved = _core.saved(ir.ctx, dirname, False)
        write_file(os.path.join(dirname, "__model__"), _text(
            saved["program"], saved["feeds"], saved["targets"]))


def save_inference_model(dirname, feeded_var_names, target_vars, executor,
                         main_program=None, model_filename=None,
                         params_filename=None, export_for_deployment=True,
                         program_only=False):
    """What predictions need; gives the names of the targets. The whole program
    where it is not for deployment, which may have no targets."""
    feeds = _names_to_feed(feeded_var_names)
    targets = _targets(target_vars, not export_for_deployment)
    program = valid_program(main_program)
    if any(op.type == "auc" for op in program.global_block().ops):
        warnings.warn("please ensure that you have set the auc states to zeros"
                      " before saving inference model")
    pruned = program
    if export_for_deployment:
        pruned = program.clone(for_test=True)._prune_with_input(feeds, targets)
    if not get_program_persistable_vars(pruned) and not program_only:
        warnings.warn("no variable in your model, please ensure there are any "
                      "variables in your model to save")
    if model_filename or params_filename or program_only or (
            not export_for_deployment):
        _write_files(dirname, pruned, feeds, targets,
                     (model_filename, params_filename, program_only))
    else:
        _core.save_inference(executor._handle, dirname, feeds, targets,
                             program._handle, tensor.global_scope()._handle)
        _show_program(dirname)
    return targets


# --- loading -----------------------------------------------------------------

_loaded = set()  # tables of this process that models have brought


def _has_table(executor, name, shape):
    """Whether this process has it: rows of no ids are asked for."""
    program, ids, rows = ir.Program(), name + "@IDS", name + "@FOUND"
    block = program.global_block()
    block.create_parameter(shape, "float32", name=name, is_table=True)
    block.create_var(name=ids, shape=[-1, 1], dtype="int64", is_data=True)
    block.append_op("lookup_table", inputs={"W": name, "Ids": ids},
                    outputs={"Out": rows}, attrs={"is_sparse": True,
                                                  "is_distributed": True})
    try:
        executor.run(program, feed={ids: np.zeros((0, 1), "int64")},
                     fetch_list=[rows])
    except _core.NotFoundError:
        return False
    return True


def _bring_tables(executor, dirname, program, tables):
    """Tables of this process with the rows of a model. Those that are trained
    here stay: a model for prediction has no state of their rules."""
    startup, block = ir.Program(), program.global_block()
    names = []
    for name, settings in tables.items():
        if name not in _loaded and _has_table(executor, name,
                                              block.var(name).shape):
            logging.getLogger("flotilla").warning(
                "model %s: table %s is trained in this process and stays as "
                "it is; Predictor has the rows of the model", dirname, name)
            continue
        names.append(name)
        startup.global_block().append_op(
            "init_table", attrs={"table": name, "settings": settings})
    if not names:
        return
    executor.run(startup)
    _loaded.update(names)
    _core.load(executor._handle, dirname, program._handle, names,
               tensor.global_scope()._handle)


def _from_model(executor, dirname):
    saved = _core.saved(ir.ctx, dirname, True)
    program = ir.Program.from_text(saved["program"])
    for name, value in saved["tensors"].items():
        _core.scope_set(tensor.global_scope()._handle, name, value)
    _bring_tables(executor, dirname, program, saved["tables"])
    return program, saved["feeds"], saved["targets"]


def _from_paddle(executor, dirname, model_filename, params_filename):
    """A model of PaddlePaddle 1.8."""
    with tempfile.TemporaryDirectory() as folder:
        _core.import_paddle(ir.ctx, dirname, folder, model_filename,
                            params_filename)
        return _from_model(executor, folder)


def _from_text(executor, text, dirname, params):
    """The program of _write_files; its variables from a file of the folder, a
    file each, or bytes."""
    head, _, rest = text.decode().partition("\n")
    feeds, targets = (part.partition("=")[2].split(",")
                      for part in head[len(_MARK):].split(" "))
    program = ir.Program.from_text(rest)
    wanted = get_program_persistable_vars(program)
    if wanted:
        load_vars(executor, dirname, program, wanted, filename=params)
    return program, [f for f in feeds if f], [t for t in targets if t]


def _is_whole(dirname, program, model_filename):
    """Whether a folder is a model, and not files of which one is the
    program."""
    if model_filename is None:
        return is_model(dirname) or not os.path.isfile(program)
    if not os.path.isfile(program):
        raise ValueError(f"there is no file {program}")
    return False


def _is_text(data):
    return data.startswith(_MARK.encode())


def _from_bytes(executor, text, params):
    if params is None:
        raise ValueError("The path of params cannot be None when the directory"
                         " path is None.")
    if not _is_text(text):
        raise NotImplementedError(
            "load_inference_model: bytes of a program of PaddlePaddle are read"
            " from a folder; write them to a file __model__ there")
    return _from_text(executor, text, None, params)


def _from_folder(executor, dirname, model_filename, params_filename):
    if not os.path.isdir(dirname):
        raise ValueError(f"There is no directory named '{dirname}'")
    path = os.path.join(dirname, model_filename or "__model__")
    if _is_whole(dirname, path, model_filename):
        return _from_model(executor, dirname)
    with open(path, "rb") as f:
        data = f.read()
    if _is_text(data):
        return _from_text(executor, data, dirname, params_filename)
    return _from_paddle(executor, dirname, model_filename, params_filename)


def load_inference_model(dirname, executor, model_filename=None,
                         params_filename=None, pserver_endpoints=None):
    """[program, names of feeds, targets]; its values are in the scope."""
    if pserver_endpoints:
        raise NotImplementedError(
            "load_inference_model: a Predictor takes rows of servers, see "
            "flotilla.predict; pserver_endpoints has no meaning here")
    if dirname is None:
        found = _from_bytes(executor, model_filename, params_filename)
    elif "://" in dirname:
        found = _from_model(executor, dirname)
    else:
        found = _from_folder(executor, dirname, model_filename,
                             params_filename)
    program, feeds, targets = found
    block = program.global_block()
    return [program, feeds, [block.var(name) for name in targets]]


# --- for predictors ----------------------------------------------------------

def _save_text(folder, data, dirname, params):
    """A model of files that _write_files wrote, as a folder of versions."""
    with tensor.scope_guard(tensor.Scope()):
        executor = Executor()
        program, feeds, targets = _from_text(executor, data, dirname, params)
        _core.save_inference(executor._handle, folder, feeds, targets,
                             program._handle, tensor.global_scope()._handle)


@contextlib.contextmanager
def model_folder(path, model_filename=None, params_filename=None):
    """A folder that the predictor opens: the model's own, or one made of files
    that are something else."""
    program = os.path.join(path, model_filename or "__model__")
    if _is_whole(path, program, model_filename):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(program, "rb") as f:
            data = f.read()
        if _is_text(data):
            _save_text(folder, data, path, params_filename)
        else:
            _core.import_paddle(ir.ctx, path, folder, model_filename,
                                params_filename)
        yield folder
