"""Averages of parameters over steps, for predictions."""
import contextlib

import numpy as np

from .. import ir, layers, names
from ..helper import LayerHelper
from .base import Optimizer


def _twin(block, v):
    """The same persistent variable in another program."""
    return block.create_var(name=v.name, shape=v.shape, dtype=v.dtype,
                            lod_level=v.lod_level, persistable=True)


def _kept(block, param, copy):
    """Where a parameter is while its average is in its place."""
    return block.create_var(name=copy.name, shape=param.shape,
                            dtype=param.dtype, persistable=True)


def _copies(key):
    """(parameter, name of its copy) of all that are averaged."""
    block = ir.default_main_program().global_block()
    return [(p, block.create_var(name=names.generate(key(p)), dtype=p.dtype,
                                 stop_gradient=True))
            for p in block.all_parameters() if p.do_model_average is not False]


class _Averaged:
    """apply() and restore() run programs that were made beside the main one."""

    @contextlib.contextmanager
    def apply(self, executor, need_restore=True):
        """Parameters have their averages inside."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor):
        """Puts the values back that were there before apply()."""
        executor.run(self.restore_program)

    def _make_restore_program(self, pairs):
        self.restore_program = ir.Program()
        block = self.restore_program.global_block()
        with ir.program_guard(self.restore_program):
            for param, copy in pairs:
                layers.assign(input=_kept(block, param, copy),
                              output=_twin(block, param))


class ModelAverage(_Averaged, Optimizer):
    """The mean of each parameter over a window of steps."""

    _SUMS = ("sum_1", "sum_2", "sum_3")
    _COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")

    def __init__(self, average_window_rate, min_average_window=10000,
                 max_average_window=10000, regularization=None, name=None):
        Optimizer.__init__(self, 0.0, regularization=regularization, name=name)
        self.average_window = average_window_rate
        self.min_average_window = min_average_window
        self.max_average_window = max_average_window
        self.params_grads = _copies(lambda p: p.name + ".tmp")
        for param, grad in self.params_grads:
            with param.block.program._optimized_guard([param, grad]):
                self._append_average_accumulate_op(param)
        self._make_apply_program()
        self._make_restore_program(self.params_grads)

    def _append_average_accumulate_op(self, param):
        self.helper = LayerHelper("average_accumulate")
        states = {n: self._add_accumulator(n, param) for n in self._SUMS}
        states.update({n: self._add_accumulator(n, param, dtype="int64",
                                                shape=[1])
                       for n in self._COUNTS})
        self.helper.append_op(
            "average_accumulates",
            inputs={"param": param,
                    **{"in_" + n: v for n, v in states.items()}},
            outputs={"out_" + n: v for n, v in states.items()},
            attrs={"average_window": self.average_window,
                   "min_average_window": self.min_average_window,
                   "max_average_window": self.max_average_window})

    def _make_apply_program(self):
        self.apply_program = ir.Program()
        block = self.apply_program.global_block()
        with ir.program_guard(self.apply_program):
            for param, copy in self.params_grads:
                self._append_mean(block, param, copy)

    def _append_mean(self, block, param, copy):
        mine = _twin(block, param)
        kept = _kept(block, param, copy)
        state = {n: _twin(block, self._get_accumulator(n, param))
                 for n in self._SUMS + self._COUNTS}
        layers.assign(input=mine, output=kept)
        count = layers.sum(x=[state["num_accumulates"],
                              state["old_num_accumulates"]])
        total = layers.sum(x=[state[n] for n in self._SUMS])
        dtype = "float32" if self._dtype is None else self._dtype
        count, total = layers.cast(count, dtype), layers.cast(total, dtype)
        LayerHelper("elementwise_div").append_op(
            "elementwise_div", inputs={"X": total, "Y": count},
            outputs={"Out": mine})


class ExponentialMovingAverage(_Averaged):
    """The mean of each parameter, where earlier steps count less and less."""

    _STEP = "@EMA_STEP_COUNTER@"

    def __init__(self, decay=0.999, thres_steps=None, name=None):
        self._decay = decay
        self._thres_steps = thres_steps
        self._name = name if name is not None else ""
        self._decay_var = self._get_ema_decay()
        self._params_tmps = _copies(
            lambda p: f"{self._name}{p.name}.ema_tmp")
        self._ema_vars = {}
        for param, tmp in self._params_tmps:
            with param.block.program._optimized_guard([param, tmp]):
                self._ema_vars[param.name] = self._create_ema_vars(param)
        self._make_apply_program()
        self._make_restore_program(self._params_tmps)

    def _get_ema_decay(self):
        with ir.default_main_program()._lr_schedule_guard():
            decay = layers.create_global_var(
                shape=[1], value=self._decay, dtype="float32",
                persistable=True, name="scheduled_ema_decay_rate")
            if self._thres_steps is not None:
                self._schedule(decay)
        return decay

    def _schedule(self, decay):
        """A lower decay in the first steps."""
        now = (self._thres_steps + 1.0) / (self._thres_steps + 10.0)
        with layers.Switch() as switch:
            with switch.case(now < self._decay):
                layers.assign(now, decay)
            with switch.default():
                layers.assign(np.array([self._decay], "float32"), decay)

    def _create_ema_vars(self, param):
        return layers.create_global_var(
            name=names.generate(f"{self._name}{param.name}_ema"),
            shape=param.shape, value=0.0, dtype=param.dtype, persistable=True)

    def _get_decay_pow(self, block):
        step = layers.create_global_var(name=self._STEP, shape=[1], value=0,
                                        dtype="int64", persistable=True)
        step = layers.cast(step, "float32")
        power = layers.elementwise_pow(_twin(block, self._decay_var), step)
        return power, step

    def _make_apply_program(self):
        self.apply_program = ir.Program()
        block = self.apply_program.global_block()
        with ir.program_guard(self.apply_program):
            power, step = self._get_decay_pow(block)
            for param, tmp in self._params_tmps:
                ema = _twin(block, self._ema_vars[param.name])
                mine = _twin(block, param)
                layers.assign(input=mine, output=_kept(block, param, tmp))
                with layers.Switch() as switch:
                    with switch.case(step > 0):
                        layers.assign(output=ema, input=ema / (1.0 - power))
                layers.assign(input=ema, output=mine)

    def update(self):
        """Appends what takes this step's parameters into the averages."""
        layers.autoincreased_step_counter(counter_name=self._STEP)
        for param, tmp in self._params_tmps:
            with param.block.program._optimized_guard([param, tmp]):
                ema = self._ema_vars[param.name]
                new = (ema * self._decay_var + param * (1 - self._decay_var))
                layers.assign(input=new, output=ema)
