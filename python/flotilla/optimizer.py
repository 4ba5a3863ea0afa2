"""Optimizers, made of the library's update rules: states, slots and first
values come from there. A class says how Fluid's users write its settings."""
from . import _core, ir, names
from .backward import append_backward
from .initializer import ConstantInitializer
from .regularizer import append_regularization_ops

_RULES = {rule["name"]: rule for rule in _core.rules()}


class Optimizer:
    """Gradients, clipping, decay, update: minimize(loss) does all."""

    type = None  # the rule

    def __init__(self, learning_rate, parameter_list=None, regularization=None,
                 grad_clip=None, name=None):
        if not isinstance(learning_rate, (float, ir.Variable)):
            raise TypeError("learning rate should be float or Variable, got "
                            f"{type(learning_rate)} here")
        self._name = name
        self._learning_rate = learning_rate
        self._parameter_list = parameter_list
        self.regularization = regularization
        self._grad_clip = grad_clip
        self._settings = {}
        self._rates = {}
        self._accumulators = {}

    # --- states ---

    def _global_learning_rate(self, program=None):
        return self._rates.get(program or ir.default_main_program())

    def _create_global_learning_rate(self, program):
        if program in self._rates:
            return
        if isinstance(self._learning_rate, ir.Variable):
            self._rates[program] = self._learning_rate
        else:
            self._rates[program] = self._persistent(
                program, names.generate("learning_rate"), [1],
                float(self._learning_rate), "float32")

    @staticmethod
    def _persistent(program, name, shape, value, dtype):
        startup = ir.default_startup_program().global_block()
        twin = startup.create_var(name=name, shape=shape, dtype=dtype,
                                  persistable=True)
        ConstantInitializer(value)(twin, startup)
        return program.global_block().create_var(
            name=name, shape=shape, dtype=dtype, persistable=True,
            stop_gradient=True)

    def _accumulator(self, state, param):
        """The variable with a state of a parameter; the first call makes
        it."""
        known = self._accumulators.setdefault(state["name"], {})
        if param.name not in known:
            prefix = f"{self._name}_" if self._name else ""
            name = names.generate(f"{param.name}_{prefix}{state['name']}")
            first = (self._settings[state["first_from"]]
                     if state["first_from"] else state["first"])
            shape = [1] if state["is_scalar"] else param.shape
            known[param.name] = self._persistent(
                param.block.program, name, shape, float(first), param.dtype)
        return known[param.name]

    def _get_accumulator(self, name, param):
        return self._accumulators[name][param.name]

    def _rate_of(self, param):
        """The rate of a parameter: the optimizer's, times its own."""
        rate = self._global_learning_rate(param.block.program)
        own = param.optimize_attr["learning_rate"]
        if isinstance(own, ir.Variable):
            return own
        if own == 1.0:
            return rate
        block = param.block.program.global_block()
        with block.program._lr_schedule_guard():
            out = block._temporary(param.name + ".lr", rate.dtype)
            block.append_op("scale", inputs={"X": rate}, outputs={"Out": out},
                            attrs={"scale": float(own)})
        return out

    # --- steps of a minimization ---

    def backward(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None, callbacks=None):
        with _startup(startup_program):
            return append_backward(loss, parameter_list or self._parameter_list,
                                   no_grad_set, callbacks)

    def apply_gradients(self, params_grads):
        params_grads = sorted(params_grads, key=lambda pg: pg[0].name)
        if self._grad_clip is not None:
            params_grads = self._grad_clip(params_grads)
        params_grads = append_regularization_ops(params_grads,
                                                 self.regularization)
        return self._create_optimization_pass(params_grads)

    def apply_optimize(self, loss, startup_program, params_grads):
        with _startup(startup_program):
            return self.apply_gradients(params_grads)

    def minimize(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None):
        params_grads = self.backward(loss, startup_program, parameter_list,
                                     no_grad_set)
        ops = self.apply_optimize(loss, startup_program, params_grads)
        return ops, params_grads

    def _create_optimization_pass(self, params_grads):
        with_grad = [(p, g) for p, g in params_grads
                     if g is not None and p.trainable]
        if not with_grad:
            return []
        program = with_grad[0][0].block.program
        block = program.global_block()
        first = len(block.ops)
        self._create_global_learning_rate(program)
        for param, grad in with_grad:
            rate = self._rate_of(param)
            with program._optimized_guard([param, grad]):
                self._append_optimize_op(param, grad, rate)
        return block.ops[first:]

    def _set_table_rule(self, param):
        """The table of a parameter learns by this rule: its maker in the
        startup program is told."""
        maker = next(op for op in ir.default_startup_program().global_block().ops
                     if op.type == "init_table" and
                     op.attr("table") == param.name)
        known = {name for name, _, _ in _RULES[self.type]["settings"]}
        words = [f"{k}={_number(v)}" for k, v in self._settings.items()
                 if k in known]
        maker._set_attr("settings", " ".join(
            [maker.attr("settings"), f"optimizer={self.type}"] + words))

    def _append_optimize_op(self, param, grad, rate):
        inputs = {"Param": param, "Grad": grad, "LearningRate": rate}
        outputs = {"ParamOut": param}
        states = _RULES[self.type]["states"]
        if param.is_distributed:
            self._set_table_rule(param)
            states = []
        for state in states:
            value = self._accumulator(state, param)
            inputs[state["slot"]] = outputs[state["out_slot"]] = value
        return param.block.program.global_block().append_op(
            self.type, inputs=inputs, outputs=outputs, attrs=self._settings)


def _number(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _startup(program):
    return ir.program_guard(ir.default_main_program(), program)


def _keep(self, learning_rate, settings, rest):
    """The first lines of every optimizer below."""
    Optimizer.__init__(self, learning_rate, **rest)
    self._settings = settings


class SGDOptimizer(Optimizer):
    type = "sgd"


class MomentumOptimizer(Optimizer):
    type = "momentum"

    def __init__(self, learning_rate, momentum, use_nesterov=False, **rest):
        _keep(self, learning_rate,
              {"mu": momentum, "use_nesterov": bool(use_nesterov)}, rest)


class LarsMomentumOptimizer(Optimizer):
    type = "lars_momentum"

    def __init__(self, learning_rate, momentum, lars_coeff=0.001,
                 lars_weight_decay=0.0005, **rest):
        _keep(self, learning_rate,
              {"mu": momentum, "lars_coeff": lars_coeff,
               "lars_weight_decay": lars_weight_decay}, rest)


class AdagradOptimizer(Optimizer):
    type = "adagrad"

    def __init__(self, learning_rate, epsilon=1.0e-6,
                 initial_accumulator_value=0.0, **rest):
        _keep(self, learning_rate, {"epsilon": epsilon}, rest)
        self.initial_accumulator_value = initial_accumulator_value

    def _accumulator(self, state, param):
        return super()._accumulator(
            dict(state, first=self.initial_accumulator_value), param)


class AdamOptimizer(Optimizer):
    type = "adam"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, lazy_mode=False, **rest):
        _keep(self, learning_rate,
              {"beta1": beta1, "beta2": beta2, "epsilon": epsilon,
               "lazy_mode": lazy_mode}, rest)


class AdamaxOptimizer(Optimizer):
    type = "adamax"

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, **rest):
        _keep(self, learning_rate,
              {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}, rest)


class DpsgdOptimizer(Optimizer):
    type = "dpsgd"

    def __init__(self, learning_rate=0.001, clip=0.9, batch_size=0.999,
                 sigma=1e-8, parameter_list=None):
        _keep(self, learning_rate,
              {"clip": clip, "batch_size": batch_size, "sigma": sigma},
              {"parameter_list": parameter_list})


class DecayedAdagradOptimizer(Optimizer):
    type = "decayed_adagrad"

    def __init__(self, learning_rate, decay=0.95, epsilon=1.0e-6, **rest):
        _keep(self, learning_rate, {"decay": decay, "epsilon": epsilon}, rest)


class AdadeltaOptimizer(Optimizer):
    type = "adadelta"

    def __init__(self, learning_rate, epsilon=1.0e-6, rho=0.95, **rest):
        _keep(self, learning_rate, {"epsilon": epsilon, "rho": rho}, rest)


class RMSPropOptimizer(Optimizer):
    type = "rmsprop"

    def __init__(self, learning_rate, rho=0.95, epsilon=1.0e-6, momentum=0.0,
                 centered=False, **rest):
        _keep(self, learning_rate,
              {"decay": rho, "epsilon": epsilon, "momentum": momentum,
               "centered": centered}, rest)


class FtrlOptimizer(Optimizer):
    type = "ftrl"

    def __init__(self, learning_rate, l1=0.0, l2=0.0, lr_power=-0.5, **rest):
        _keep(self, learning_rate, {"l1": l1, "l2": l2, "lr_power": lr_power},
              rest)


class LambOptimizer(Optimizer):
    type = "lamb"

    def __init__(self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9,
                 beta2=0.999, epsilon=1e-6, **rest):
        _keep(self, learning_rate,
              {"weight_decay": lamb_weight_decay, "beta1": beta1,
               "beta2": beta2, "epsilon": epsilon}, rest)


SGD, Momentum, LarsMomentum = (SGDOptimizer, MomentumOptimizer,
                               LarsMomentumOptimizer)
Adagrad, DecayedAdagrad, Adadelta = (AdagradOptimizer, DecayedAdagradOptimizer,
                                     AdadeltaOptimizer)
Adam, Adamax, Dpsgd = AdamOptimizer, AdamaxOptimizer, DpsgdOptimizer
RMSProp, Ftrl, Lamb = RMSPropOptimizer, FtrlOptimizer, LambOptimizer
