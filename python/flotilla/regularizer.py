"""Decay of parameters: a term of the gradient."""


class WeightDecayRegularizer:
    """A user's own writes the term with operators and gives its variable."""

    def __call__(self, param, grad, block):
        raise NotImplementedError


class _Decay(WeightDecayRegularizer):
    """Those of the library, one operator for term and sum."""

    def __init__(self, regularization_coeff=0.0):
        self._regularization_coeff = regularization_coeff

    def _decayed(self, param, grad, block):
        out = block._temporary(grad.name + ".decay", param.dtype)
        block.append_op("weight_decay", inputs={"Param": param, "Grad": grad},
                        outputs={"Out": out},
                        attrs={self._ATTR: self._regularization_coeff})
        return out

    def __str__(self):
        return (f"{self._NAME}, regularization_coeff="
                f"{self._regularization_coeff:f}")


class L2DecayRegularizer(_Decay):
    _ATTR, _NAME = "l2", "L2Decay"


class L1DecayRegularizer(_Decay):
    _ATTR, _NAME = "l1", "L1Decay"


L1Decay, L2Decay = L1DecayRegularizer, L2DecayRegularizer


def _with_term(regularizer, param, grad, block):
    if isinstance(regularizer, _Decay):
        return regularizer._decayed(param, grad, block)
    term = regularizer(param, grad, block)
    out = block._temporary(grad.name + ".decay", param.dtype)
    block.append_op("sum", inputs={"X": [grad, term]}, outputs={"Out": out})
    return out


def append_regularization_ops(parameters_and_grads, regularization=None):
    """Gradients with the decay of each parameter, its own or that of all."""
    result = []
    for param, grad in parameters_and_grads:
        chosen = param.regularizer or regularization
        if grad is not None and chosen is not None:
            with grad.block.program._optimized_guard([param, grad]):
                grad = _with_term(chosen, param, grad, grad.block)
        result.append((param, grad))
    return result
