"""Gradients: the library makes them, Python names them."""
from . import _core, recompute
from .clip import error_clip_callback
from .check import check_type
from .ir import Variable, grad_var_name, name_of


def _handles(block, found):
    """Variables or names as handles."""
    if not isinstance(found, (list, tuple, set)):
        raise TypeError("parameter_list is a list, tuple or set, not "
                        f"{type(found)}")
    for v in found:
        if not isinstance(v, (str, Variable)):
            raise TypeError("parameter_list has parameters or names, not "
                            f"{type(v)}")
    return [block._var_recursive(name_of(v))._handle for v in found]


def _without_gradient(block, found):
    """Handles of what gradients stop at; names that nobody has stop none."""
    if found is not None and not isinstance(found, (list, tuple, set)):
        raise TypeError("no_grad_set is a set, list or tuple of variables or "
                        f"names, not {type(found)}")
    for v in found or []:
        if not isinstance(v, (str, Variable)):
            raise TypeError(f"no_grad_set has variables or names, not "
                            f"{type(v)}")
    known = (block._find_var_recursive(name_of(v)) for v in found or [])
    return [v._handle for v in known if v is not None and v._exists()]


def _clip_errors(block, first):
    """Limits gradients of variables with an error_clip, each behind the last
    operator that makes it."""
    makers = {name: i for i, op in enumerate(block.ops) if i >= first
              for name in op.output_arg_names}
    clips = []
    for v in block.vars.values():
        if v.error_clip is not None and v.grad_name in makers:
            clips.append((makers[v.grad_name], v.grad_name, v.error_clip))
    for at, name, clip in sorted(clips, key=lambda c: c[0], reverse=True):
        clip._insert(block, at + 1, name)


def _check_callbacks(callbacks):
    if callbacks is not None and not isinstance(callbacks, (list, tuple)):
        raise TypeError(f"callbacks is a list, not {type(callbacks)}")
    for c in callbacks or []:
        if c is not error_clip_callback:
            raise NotImplementedError(
                f"append_backward: callback {c!r} would be called between "
                "gradients, which the library makes in one go; "
                "clip.error_clip_callback is the one there is")
    return bool(callbacks)


def append_backward(loss, parameter_list=None, no_grad_set=None,
                    callbacks=None, checkpoints=None):
    """Gradient operators behind the loss: [(parameter, gradient), ...]."""
    if not isinstance(loss, Variable):
        raise TypeError(f"a loss is a Variable, not {type(loss)}")
    clips_errors = _check_callbacks(callbacks)
    block = loss.block.program.global_block()
    if checkpoints:
        recompute.fix_seeds(block)
    forward = block.ops
    params = (None if parameter_list is None else
              _handles(block, parameter_list))
    pairs = _core.append_backward(loss._handle, params,
                                  _without_gradient(block, no_grad_set))
    if checkpoints:
        recompute.rewrite(block, forward, [name_of(c) for c in checkpoints])
    if clips_errors:
        _clip_errors(block, len(forward))
    return [(block._face(p), block._face(g)) for p, g in pairs]


def _check_vars(found, name):
    check_type(found, name, (Variable, list, tuple), "fluid.backward.gradients")
    for v in _as_list(found):
        check_type(v, name, Variable, "fluid.backward.gradients")


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """Gradients of the sum of the targets for each input; None for one that
    no target depends on. A gradient may be a target."""
    _check_vars(targets, "targets")
    _check_vars(inputs, "inputs")
    targets, inputs = _as_list(targets), _as_list(inputs)
    block = targets[0].block
    given = None
    if target_gradients is not None:
        _check_vars([g for g in _as_list(target_gradients) if g is not None],
                    "target_gradients")
        given = [None if g is None else g._handle
                 for g in _as_list(target_gradients)]
    found = _core.gradients([t._handle for t in targets],
                            [i._handle for i in inputs], given,
                            _without_gradient(block, no_grad_set))
    return [None if g is None else block._face(g) for g in found]


def calc_gradient(targets, inputs, target_gradients=None, no_grad_set=None):
    """Gradients of the targets for the inputs; of one input, it alone."""
    found = gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found


def _as_list(found):
    if found is None:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _append_grad_suffix_(name):
    return grad_var_name(name)
