"""What every optimizer does; its rule says the rest."""
import collections

from .. import _core, ir, names
from ..backward import append_backward
from ..clip import (GradientClipBase, append_gradient_clip_ops,
                    error_clip_callback)
from ..helper import LayerHelper
from ..initializer import ConstantInitializer
from ..layers.tensor import create_global_var
from ..regularizer import append_regularization_ops

RULES = {rule["name"]: rule for rule in _core.rules()}


def _state_word(name):
    """beta1_pow_acc -> beta1_pow: Fluid's name of a state in a class."""
    name = name.strip("_")
    return name[:-len("_acc")] if name.endswith("_acc") else name


def _has_own_rate(rule):
    return any(s["name"] == "LearningRate" and s["is_optional"]
               for s in ir.operator_view(rule)["inputs"])


class Optimizer:
    """Gradients, clipping, decay, update. The states, slots and first values
    of a class with a rule come from the library; a user's own class writes
    _create_accumulators and _append_optimize_op."""

    type = None  # the rule

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for state in cls._states():
            setattr(cls, f"_{_state_word(state['name'])}_acc_str",
                    state["name"])

    def __init__(self, learning_rate, parameter_list=None, regularization=None,
                 grad_clip=None, name=None):
        if not isinstance(learning_rate, (float, ir.Variable)):
            raise TypeError("learning rate should be float or Variable, got "
                            f"{type(learning_rate)} here")
        if grad_clip is not None and not isinstance(grad_clip,
                                                    GradientClipBase):
            raise TypeError("grad_clip is a GradientClipBase, not "
                            f"{type(grad_clip)}")
        self._name = name
        self._learning_rate = learning_rate
        self._parameter_list = parameter_list
        self.regularization = regularization
        self._grad_clip = grad_clip
        self._dtype = None
        self._settings = {}
        self._learning_rate_map = {}
        if isinstance(learning_rate, ir.Variable):
            self._learning_rate_map[ir.default_main_program()] = learning_rate
        self._accumulators = collections.defaultdict(dict)
        self._opti_name_list = []
        self.helper = None

    @classmethod
    def _states(cls):
        return RULES[cls.type]["states"] if cls.type in RULES else []

    def get_opti_var_name_list(self):
        """Names of the states, in the order of their making."""
        return self._opti_name_list

    # --- the learning rate ---

    def _global_learning_rate(self, program=None):
        return self._learning_rate_map.get(program or
                                           ir.default_main_program())

    def _create_global_learning_rate(self):
        if self._global_learning_rate() is not None:
            return
        if not isinstance(self._learning_rate, float):
            raise TypeError(f"learning rate {self._learning_rate.name} belongs "
                            "to another program; make the optimizer with one "
                            "of this program")
        self._learning_rate_map[ir.default_main_program()] = create_global_var(
            name=names.generate("learning_rate"), shape=[1],
            value=float(self._learning_rate),
            dtype="float32" if self._dtype is None else self._dtype,
            persistable=True)

    def _create_param_lr(self, param_and_grad):
        """The rate of a parameter: the optimizer's, times its own."""
        own = param_and_grad[0].optimize_attr["learning_rate"]
        if isinstance(own, ir.Variable):
            return own
        if own == 1.0:
            return self._global_learning_rate()
        with ir.default_main_program()._lr_schedule_guard(is_with_opt=True):
            return self._global_learning_rate() * own

    # --- states ---

    def _key(self, name):
        return name if self._name is None else f"{self._name}_{name}"

    def _add_accumulator(self, name, param, dtype=None, fill_value=0.0,
                         shape=None, type=None):
        """A state of a parameter: a persistent variable with a first value."""
        known = self._accumulators[self._key(name)]
        if param.name in known:
            raise Exception(f"parameter {param.name} has a state {name} "
                            "already; minimize with a new optimizer")
        full = names.generate(f"{param.name}_{self._key(name)}")
        self._opti_name_list.append(full)
        known[param.name] = v = self.helper.create_global_variable(
            name=full, persistable=True, dtype=dtype or param.dtype,
            shape=param.shape if shape is None else shape)
        self.helper.set_variable_initializer(
            v, ConstantInitializer(float(fill_value)))
        return v

    def _get_accumulator(self, name, param):
        known = self._accumulators.get(self._key(name), {})
        if param.name not in known:
            raise Exception(f"parameter {param.name} has no state {name}")
        return known[param.name]

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            for state in ([] if p.is_distributed else self._states()):
                self._add_accumulator(state["name"], p,
                                      fill_value=self._first(state),
                                      shape=[1] if state["is_scalar"] else None)

    def _first(self, state):
        """The first value of a state."""
        source = state["first_from"]
        return self._settings[source] if source else state["first"]

    # --- steps of a minimization ---

    def backward(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None, callbacks=None):
        """Writes gradients; gives pairs of parameter and gradient."""
        self._dtype = loss.dtype
        assert tuple(loss.shape) == (1,), (
            f"the loss {loss.name} has shape {tuple(loss.shape)}, not (1,); "
            "layers.mean makes one number of it")
        with ir.program_guard(loss.block.program, startup_program):
            return append_backward(loss, parameter_list or self._parameter_list,
                                   no_grad_set,
                                   callbacks or [error_clip_callback])

    def apply_gradients(self, params_grads):
        """Writes clipping, decay and updates of these pairs of parameter and
        gradient."""
        params_grads = sorted(params_grads, key=lambda pg: pg[0].name)
        clip = self._grad_clip or append_gradient_clip_ops
        params_grads = append_regularization_ops(clip(params_grads),
                                                 self.regularization)
        return self._create_optimization_pass(params_grads)

    def apply_optimize(self, loss, startup_program, params_grads):
        """The same for a loss that backward() was called with."""
        with ir.program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def minimize(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None):
        """Writes gradients, clipping, decay and updates."""
        assert isinstance(loss, ir.Variable), (
            f"a loss is a Variable, not {type(loss)}")
        params_grads = self.backward(loss, startup_program, parameter_list,
                                     no_grad_set)
        ops = self.apply_optimize(loss, startup_program, params_grads)
        return ops, params_grads

    def _create_optimization_pass(self, parameters_and_grads):
        block = ir.default_main_program().global_block()
        first = len(block.ops)
        self.helper = LayerHelper(type(self).__name__)
        self._create_accumulators(block, [p for p, _ in parameters_and_grads
                                          if p.trainable])
        self._create_global_learning_rate()
        for param, grad in parameters_and_grads:
            if grad is None or not param.trainable:
                continue
            with block.program._optimized_guard([param, grad]):
                with ir.name_scope("optimizer"):
                    self._append_optimize_op(block, (param, grad))
        self._finish_update(block, parameters_and_grads)
        return block.ops[first:]

    def _finish_update(self, block, parameters_and_grads):
        """What follows the last update."""

    def _append_optimize_op(self, block, param_and_grad):
        param, grad = param_and_grad
        inputs = {"Param": param, "Grad": grad}
        outputs = {"ParamOut": param}
        if not _has_own_rate(self.type):
            inputs["LearningRate"] = self._create_param_lr(param_and_grad)
        if param.is_distributed:
            self._set_table_rule(param)
        else:
            self._take_states(param, inputs, outputs)
        slots, attrs = self._given(param)
        return block.append_op(self.type, inputs={**inputs, **slots},
                               outputs=outputs, attrs=attrs)

    def _take_states(self, param, inputs, outputs):
        for state in self._states():
            value = self._get_accumulator(state["name"], param)
            inputs[state["slot"]] = outputs[state["out_slot"]] = value

    def _given(self, param):
        """Settings of a parameter's update: slots of those that are variables,
        and attributes."""
        return {}, self._settings

    # --- tables ---

    def _set_table_rule(self, param):
        """The table of a parameter learns by this rule: its maker in the
        startup program is told."""
        maker = next(op for op in ir.default_startup_program().global_block().ops
                     if op.type == "init_table" and
                     op.attr("table") == param.name)
        known = {name for name, _, _ in RULES[self.type]["settings"]}
        words = [f"{k}={_number(v)}" for k, v in self._settings.items()
                 if k in known]
        maker._set_attr("settings", " ".join(
            [maker.attr("settings"), f"optimizer={self.type}"] + words))


def _number(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)
