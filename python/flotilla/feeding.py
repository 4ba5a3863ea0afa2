"""What a run is fed: values as the library takes them, and programs that are
fed otherwise than they were declared.

A declaration is what the layers were built for. A run that is fed another
type, rank or level of offsets has the program inferred anew from what came;
only where that fails, or where the variable is to be checked (flotilla.data),
the feed is refused.
"""
import numpy as np

from . import _core, ir, place, tensor, types
from .data import frame


def _is_column(value):
    """One of Arrow, polars or pandas."""
    return (hasattr(value, "null_count") or
            hasattr(value, "to_arrow") or hasattr(value, "iloc"))


def contiguous(value, var):
    """A fed value as the library takes it: numbers in a row. Lists become
    arrays of the variable's type."""
    if hasattr(value, "_fed"):
        return value._fed()
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    if var is not None and _is_column(value):
        found = frame.value_of(value, var)
        return found._fed() if hasattr(found, "_fed") else found
    if value is None or isinstance(value, (str, bytes, dict)):
        raise TypeError(f"feed {var.name if var is not None else ''}: an array,"
                        f" a list or a LoDTensor is fed, not {type(value)}")
    dtype = types.to_numpy(var.dtype) if var is not None else None
    try:
        array = np.asarray(value, dtype=dtype)
    except ValueError:
        array = None
    if array is None or array.dtype == object:
        raise TypeError("a list of lists of different lengths cannot be fed: "
                        "make a LoDTensor of it (create_lod_tensor)")
    return np.ascontiguousarray(array)


def expect_dict(feed):
    if not isinstance(feed, dict):
        raise TypeError("feed requires dict as its Parameter, but you passed "
                        f"in {type(feed)}: {{name: value}} is what is fed")


def named(feed):
    """{name: value}; keys may be variables."""
    expect_dict(feed)
    return {getattr(k, "name", k): v for k, v in feed.items()}


def known(program, feed):
    """The feed, or a tuple of one for each replica, without what the program
    does not have, and the names of that."""
    if isinstance(feed, tuple):
        found = [known(program, one) for one in feed]
        return tuple(f for f, _ in found), [n for _, ns in found for n in ns]
    block = program.global_block()
    found = {n: v for n, v in named(feed).items() if block._find(n)}
    return found, [n for n in named(feed) if n not in found]


def n_samples(value):
    """Rows, or sequences of a value that has some."""
    lod = getattr(value, "lod", [])
    lod = lod() if callable(lod) else lod
    return len(lod[0]) - 1 if lod else len(np.asarray(value))


def prepare(program, feed):
    """The feed, or a tuple of one for each replica, with values as the library
    takes them."""
    if isinstance(feed, tuple):
        return tuple(prepare(program, one) for one in feed)
    block = program.global_block()
    return {name: contiguous(value, block._find(name))
            for name, value in named(feed).items()}


def changed(feed, ready):
    """Whether anything had to be made ready."""
    if isinstance(feed, tuple):
        return any(map(changed, feed, ready))
    before = named(feed)
    return len(ready) != len(before) or any(
        ready[name] is not before[name] for name in ready)


def put_written(program, ready, scope):
    """The feed without what outlives runs and is written by this one: that
    goes into the scope, where the run finds it."""
    if isinstance(ready, tuple):
        return ready
    block = program.global_block()
    persistent = {name for name in ready if block.has_var(name) and
                  block.var(name).persistable}
    if not persistent:
        return ready
    written = persistent & {n for op in block.ops
                            for n in op.output_arg_names}
    for name in written:
        value = ready[name]
        _core.scope_set(scope._handle, name, value if isinstance(
            value, _core.Tensor) else _core.tensor(value, [], None, 0))
    return {n: v for n, v in ready.items() if n not in written}


def widen(program, name, scope):
    """A value of the scope that has a smaller type than its variable, int32
    for int64 for example, gets the larger one. Whether it had a smaller."""
    var = name and program.global_block()._find(name)
    held = name and scope.find_var(name)
    if not var or not held or not var.persistable or var.dtype is None:
        return False
    value, wanted = held._value(), types.to_numpy(var.dtype)
    if not isinstance(value, tensor.LoDTensor):
        return False
    array = np.asarray(value)
    if array.dtype == wanted or not np.can_cast(array.dtype, wanted):
        return False
    held.get_tensor().set(array.astype(wanted))
    return True


def _look(value):
    """(type, shape, levels of offsets) of what is fed."""
    if isinstance(value, _core.Tensor):
        return types.from_core(value.dtype), value.shape, len(value.lod)
    return types.var_type(value.dtype), value.shape, 0


def _differs(declared, shape):
    return len(declared) != len(shape) or any(
        a >= 0 and a != b for a, b in zip(declared, shape))


def _misfit(program, var, said):
    """An error about a feed, with the line that declared its variable."""
    tag = _core.var_look(var._handle)["tag"]
    where = program._extra.get(tag, {}).get("op_callstack")
    return place.caused(ValueError(said), f"variable {var.name}", where)


def check(program, ready, n_places=1):
    """Refuses what does not fit a variable that is to be checked."""
    if isinstance(ready, tuple):
        for one in ready:
            check(program, one)
        return
    for name, value in ready.items():
        if name not in program._checked:
            continue
        var = program.global_block().var(name)
        dtype, shape, levels = _look(value)
        shape = list(shape)
        if shape:
            shape[0] = -(-shape[0] // n_places)
        skip = 1 if levels and var.shape else 0
        if len(var.shape) != len(shape) or _differs(var.shape[skip:],
                                                    shape[skip:]):
            raise _misfit(
                program, var,
                f"The fed Variable {name!r} should have dimensions = "
                f"{len(var.shape)}, shape = {var.shape!r}, but received fed "
                f"shape {shape!r} on each device")
        if dtype != var.dtype:
            raise _misfit(
                program, var,
                f"The data type of fed Variable {name!r} must be "
                f"{types.name_of(var.dtype)!r}, but received "
                f"{types.name_of(dtype)!r}")


def _otherwise(block, ready):
    """((name, type, shape, levels), ...) of what is fed otherwise than it was
    declared. The first dimension is left open."""
    found = []
    for name, value in ready.items():
        var = block._find(name)
        if (var is None or not var._exists() or
                isinstance(var, ir.Parameter)):
            continue
        dtype, shape, levels = _look(value)
        if (dtype == var.dtype and levels == var.lod_level and
                not _differs(var.shape, shape)):
            continue
        found.append((name, types.to_core(dtype), (-1,) + tuple(shape[1:]),
                      levels))
    return tuple(found)


def redeclared(program, ready):
    """A copy of the program for what is fed, or None: it is as declared."""
    if isinstance(ready, tuple):
        ready = ready[0]
    others = _otherwise(program.global_block(), ready)
    if not others:
        return None
    key = (program.version, others)
    if key not in program._redeclared:
        handle = _core.program_copy(program._handle)
        block = _core.program_block(handle, 0)
        for name, dtype, shape, levels in others:
            _core.var_change(
                _core.block_var(block, name), dtype=dtype, shape=shape,
                lod_level=levels,
                kind=types.KIND_RAGGED if levels else types.KIND_DENSE)
        _core.program_infer(handle)
        program._redeclared[key] = handle
    return program._redeclared[key]
