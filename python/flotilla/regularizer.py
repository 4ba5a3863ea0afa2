"""Decay of parameters: a term of the gradient, written as operators."""
import logging

from . import ir
from .types import VarType


class WeightDecayRegularizer:
    """A user's own writes the term with operators and gives its variable."""

    def __call__(self, param, grad, block):
        raise NotImplementedError

    def __str__(self):
        raise NotImplementedError


class _Decay(WeightDecayRegularizer):
    def __init__(self, regularization_coeff=0.0):
        assert regularization_coeff is not None
        self._regularization_coeff = regularization_coeff

    def _scaled(self, x, out, block):
        block.append_op("scale", inputs={"X": x}, outputs={"Out": out},
                        attrs={"scale": self._regularization_coeff})
        return out

    def __str__(self):
        return (f"{self._NAME}, regularization_coeff="
                f"{self._regularization_coeff:f}")


def _term(param, block):
    return block.create_var(dtype=param.dtype, shape=param.shape,
                            lod_level=param.lod_level)


class L2DecayRegularizer(_Decay):
    _NAME = "L2Decay"

    def __call__(self, param, grad, block):
        return self._scaled(param, _term(param, block), block)


class L1DecayRegularizer(_Decay):
    _NAME = "L1Decay"

    def __call__(self, param, grad, block):
        sign = _term(param, block)
        block.append_op("sign", inputs={"X": param}, outputs={"Out": sign})
        return self._scaled(sign, sign, block)


L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer


def _with_term(regularizer, param, grad):
    """The gradient with the term; where the gradient has rows, a new one that
    has all."""
    block = grad.block
    term = regularizer(param, grad, block)
    total = grad
    if grad.type == VarType.SELECTED_ROWS:
        total = block.create_var(name=grad.name + "@NEWGRAD@",
                                 dtype=param.dtype, shape=param.shape,
                                 lod_level=param.lod_level)
    block.append_op("sum", inputs={"X": [grad, term]}, outputs={"Out": total})
    return total


def append_regularization_ops(parameters_and_grads, regularization=None):
    """Gradients with the decay of each parameter, its own or that of all."""
    if regularization is not None and any(p.regularizer is not None
                                          for p, _ in parameters_and_grads):
        logging.getLogger("flotilla").info(
            "a parameter with a regularizer of its own does not take the "
            "optimizer's, %s", regularization)
    result = []
    with ir.name_scope("regularization"):
        for param, grad in parameters_and_grads:
            chosen = param.regularizer or regularization
            if grad is not None and chosen is not None:
                with param.block.program._optimized_guard([param, grad]):
                    grad = _with_term(chosen, param, grad)
            result.append((param, grad))
    return result
