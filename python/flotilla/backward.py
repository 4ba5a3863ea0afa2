"""Gradients: the library makes them, Python names them."""
from . import _core
from .ir import Variable, _as_list, _name


def _handles(block, found):
    """Variables or names, or one of either, as handles."""
    if isinstance(found, (str, Variable)):
        found = [found]
    return [block._var_recursive(_name(v))._handle for v in found or []]


def append_backward(loss, parameter_list=None, no_grad_set=None,
                    callbacks=None, checkpoints=None):
    """Gradient operators behind the loss: [(parameter, gradient), ...]."""
    if not isinstance(loss, Variable):
        raise TypeError(f"a loss is a Variable, not {type(loss)}")
    if checkpoints:
        raise NotImplementedError("append_backward: checkpoints save memory of "
                                  "GPUs; leave them out")
    block = loss.block.program.global_block()
    params = (None if parameter_list is None else
              _handles(block, parameter_list))
    pairs = _core.append_backward(loss._handle, params,
                                  _handles(block, no_grad_set))
    return [(block._face(p), block._face(g)) for p, g in pairs]


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """Gradients of the sum of the targets for each input; None for one that
    no target depends on."""
    targets, inputs = _as_list(targets), _as_list(inputs)
    block = targets[0].block
    given = None
    if target_gradients is not None:
        given = [None if g is None else g._handle
                 for g in _as_list(target_gradients)]
    found = _core.gradients([t._handle for t in targets],
                            [i._handle for i in inputs], given,
                            _handles(block, no_grad_set))
    return [None if g is None else block._face(g) for g in found]


calc_gradient = gradients
