"""The update rules of the library, with the settings that Fluid's users
write."""
from .. import ir
from .base import RULES, Optimizer


def _keep(self, learning_rate, settings, rest):
    """The first lines of every optimizer below: what it is made with, and the
    settings of its rule."""
    for name, value in settings.items():
        assert value is not None, f"{name} of {self.type} is not given"
    Optimizer.__init__(self, learning_rate, *rest)
    self._settings = settings


class SGDOptimizer(Optimizer):
    type = "sgd"


class MomentumOptimizer(Optimizer):
    type = "momentum"

    def __init__(self, learning_rate, momentum, parameter_list=None,
                 use_nesterov=False, regularization=None, grad_clip=None,
                 name=None):
        _keep(self, learning_rate,
              {"mu": momentum, "use_nesterov": bool(use_nesterov)},
              (parameter_list, regularization, grad_clip, name))


class LarsMomentumOptimizer(Optimizer):
    type = "lars_momentum"

    def __init__(self, learning_rate, momentum, lars_coeff=0.001,
                 lars_weight_decay=0.0005, parameter_list=None,
                 regularization=None, grad_clip=None, name=None):
        _keep(self, learning_rate,
              {"mu": momentum, "lars_coeff": lars_coeff,
               "lars_weight_decay": lars_weight_decay},
              (parameter_list, regularization, grad_clip, name))


class AdagradOptimizer(Optimizer):
    type = "adagrad"

    def __init__(self, learning_rate, epsilon=1.0e-6, parameter_list=None,
                 regularization=None, grad_clip=None, name=None,
                 initial_accumulator_value=0.0):
        _keep(self, learning_rate, {"epsilon": epsilon},
              (parameter_list, regularization, grad_clip, name))
        self.initial_accumulator_value = initial_accumulator_value

    def _first(self, state):
        return self.initial_accumulator_value


class AdamOptimizer(Optimizer):
    type = "adam"

    # Slots of settings that may be variables, and what their powers begin
    # with then.
    _SLOTS = {"beta1": ("Beta1Tensor", 0.9), "beta2": ("Beta2Tensor", 0.999)}

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, parameter_list=None, regularization=None,
                 grad_clip=None, name=None, lazy_mode=False):
        _keep(self, learning_rate,
              {"beta1": beta1, "beta2": beta2, "epsilon": epsilon,
               "lazy_mode": lazy_mode, "min_row_size_to_use_multithread": 1000},
              (parameter_list, regularization, grad_clip, name))

    def _first(self, state):
        first = super()._first(state)
        if isinstance(first, ir.Variable):
            return self._SLOTS[state["first_from"]][1]
        return first

    def _given(self, param):
        slots = {self._SLOTS[k][0]: v for k, v in self._settings.items()
                 if isinstance(v, ir.Variable)}
        return slots, {k: v for k, v in self._settings.items()
                       if not isinstance(v, ir.Variable)}


class AdamaxOptimizer(Optimizer):
    """The power of beta1 is advanced behind all updates."""

    type = "adamax"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, parameter_list=None, regularization=None,
                 grad_clip=None, name=None):
        _keep(self, learning_rate,
              {"beta1": beta1, "beta2": beta2, "epsilon": epsilon},
              (parameter_list, regularization, grad_clip, name))

    def _take_states(self, param, inputs, outputs):
        super()._take_states(param, inputs, outputs)
        del outputs["Beta1PowOut"]

    def _finish_update(self, block, parameters_and_grads):
        for param, grad in parameters_and_grads:
            if grad is None or not param.trainable or param.is_distributed:
                continue
            with block.program._optimized_guard([param, grad]):
                power = self._get_accumulator(self._beta1_pow_acc_str, param)
                block.append_op("scale", inputs={"X": power},
                                outputs={"Out": power},
                                attrs={"scale": self._settings["beta1"]})


class DpsgdOptimizer(Optimizer):
    type = "dpsgd"

    def __init__(self, learning_rate=0.001, clip=0.9, batch_size=0.999,
                 sigma=1e-8, parameter_list=None):
        _keep(self, learning_rate,
              {"clip": clip, "batch_size": batch_size, "sigma": sigma},
              (parameter_list,))
        self._seed = None

    def _given(self, param):
        seed = (ir.default_main_program().random_seed if self._seed is None
                else self._seed)
        return {}, {**self._settings, "seed": seed}


class DecayedAdagradOptimizer(Optimizer):
    type = "decayed_adagrad"

    def __init__(self, learning_rate, decay=0.95, epsilon=1.0e-6,
                 parameter_list=None, regularization=None, grad_clip=None,
                 name=None):
        _keep(self, learning_rate, {"decay": decay, "epsilon": epsilon},
              (parameter_list, regularization, grad_clip, name))


class AdadeltaOptimizer(Optimizer):
    type = "adadelta"

    def __init__(self, learning_rate, epsilon=1.0e-6, rho=0.95,
                 parameter_list=None, regularization=None, grad_clip=None,
                 name=None):
        _keep(self, learning_rate, {"epsilon": epsilon, "rho": rho},
              (parameter_list, regularization, grad_clip, name))


class RMSPropOptimizer(Optimizer):
    type = "rmsprop"

    def __init__(self, learning_rate, rho=0.95, epsilon=1.0e-6, momentum=0.0,
                 centered=False, parameter_list=None, regularization=None,
                 grad_clip=None, name=None):
        _keep(self, learning_rate,
              {"decay": rho, "epsilon": epsilon, "momentum": momentum,
               "centered": centered},
              (parameter_list, regularization, grad_clip, name))


class FtrlOptimizer(Optimizer):
    type = "ftrl"

    def __init__(self, learning_rate, l1=0.0, l2=0.0, lr_power=-0.5,
                 parameter_list=None, regularization=None, grad_clip=None,
                 name=None):
        _keep(self, learning_rate, {"l1": l1, "l2": l2, "lr_power": lr_power},
              (parameter_list, regularization, grad_clip, name))


class LambOptimizer(Optimizer):
    type = "lamb"

    def __init__(self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9,
                 beta2=0.999, epsilon=1e-6, parameter_list=None,
                 regularization=None, grad_clip=None,
                 exclude_from_weight_decay_fn=None, name=None):
        _keep(self, learning_rate,
              {"weight_decay": lamb_weight_decay, "beta1": beta1,
               "beta2": beta2, "epsilon": epsilon},
              (parameter_list, regularization, grad_clip, name))
        self._excluded = exclude_from_weight_decay_fn

    def _given(self, param):
        if self._excluded is None or not self._excluded(param):
            return {}, self._settings
        return {}, {**self._settings, "weight_decay": 0.0}


SGD, Momentum, LarsMomentum = (SGDOptimizer, MomentumOptimizer,
                               LarsMomentumOptimizer)
Adagrad, DecayedAdagrad, Adadelta = (AdagradOptimizer, DecayedAdagradOptimizer,
                                     AdadeltaOptimizer)
Adam, Adamax, Dpsgd = AdamOptimizer, AdamaxOptimizer, DpsgdOptimizer
RMSProp, Ftrl, Lamb = RMSPropOptimizer, FtrlOptimizer, LambOptimizer

__all__ = [name for name, value in list(globals().items())
           if isinstance(value, type) and issubclass(value, Optimizer) and
           value is not Optimizer]

for _name in __all__:
    _rule = globals()[_name]
    if _rule.__doc__ is None:
        _rule.__doc__ = RULES[_rule.type]["doc"]
