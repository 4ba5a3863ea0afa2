"""Learning rates that change with the global step."""
import math

from .. import ir
from ..check import check_type
from .control import Switch
from .generated import ceil, cos, elementwise_min, exp, floor
from .nn import autoincreased_step_counter
from .tensor import assign, cast, create_global_var, fill_constant


def _decay_step_counter(begin=0):
    """The number of the step, counted from `begin`."""
    step = autoincreased_step_counter("@LR_DECAY_COUNTER@", begin=begin)
    return cast(step, "float32")


def _guard():
    return ir.default_main_program()._lr_schedule_guard()


def _number(value):
    return fill_constant([1], "float32", float(value))


def _periods(decay_steps, staircase):
    past = _decay_step_counter() / decay_steps
    return floor(past) if staircase else past


def noam_decay(d_model, warmup_steps, learning_rate=1.0):
    """d_model ^ -0.5 * min(step ^ -0.5, step * warmup_steps ^ -1.5)."""
    with _guard():
        step = _decay_step_counter(1)
        a = step**-0.5
        b = (warmup_steps**-1.5) * step
        return learning_rate * (d_model**-0.5) * elementwise_min(a, b)


def exponential_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """learning_rate * decay_rate ^ (step / decay_steps)."""
    with _guard():
        return learning_rate * (decay_rate**_periods(decay_steps, staircase))


def natural_exp_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    """learning_rate * e ^ (-decay_rate * step / decay_steps)."""
    with _guard():
        past = _periods(decay_steps, staircase)
        return learning_rate * exp(-1 * decay_rate * past)


def inverse_time_decay(learning_rate, decay_steps, decay_rate,
                       staircase=False):
    """learning_rate / (1 + decay_rate * step / decay_steps)."""
    with _guard():
        past = _periods(decay_steps, staircase)
        return learning_rate / (1 + decay_rate * past)


def polynomial_decay(learning_rate, decay_steps, end_learning_rate=0.0001,
                     power=1.0, cycle=False):
    """From learning_rate to end_learning_rate along a power, in
    decay_steps."""
    with _guard():
        step = _decay_step_counter()
        if cycle:
            decay_steps = decay_steps * _cycles(step, decay_steps)
        else:
            step = elementwise_min(x=step, y=_number(decay_steps))
        return ((learning_rate - end_learning_rate) *
                ((1 - step / decay_steps)**power) + end_learning_rate)


def _cycles(step, decay_steps):
    """How often decay_steps were begun, at least once."""
    begun = ceil(step / decay_steps)
    zero, one = _number(0.0), _number(1.0)
    with Switch() as switch:
        with switch.case(step == zero):
            assign(one, begun)
    return begun


def _chosen(name):
    """A rate that a switch assigns."""
    return create_global_var(shape=[1], value=0.0, dtype="float32",
                             persistable=True, name=name)


def piecewise_decay(boundaries, values):
    """One value up to each boundary, and one behind the last."""
    if len(values) - len(boundaries) != 1:
        raise ValueError("len(values) - len(boundaries) should be 1")
    with _guard():
        step = _decay_step_counter()
        rate = _chosen("learning_rate")
        with Switch() as switch:
            for end, value in zip(boundaries, values):
                border = fill_constant([1], "float32", float(end),
                                       force_cpu=True)
                value = _number(value)
                with switch.case(step < border):
                    assign(value, rate)
            last = _number(values[-1])
            with switch.default():
                assign(last, rate)
    return rate


def cosine_decay(learning_rate, step_each_epoch, epochs):
    """Half a cosine over the epochs."""
    check_type(learning_rate, "learning_rate", (float, ir.Variable),
               "cosine_decay")
    with _guard():
        epoch = floor(_decay_step_counter() / step_each_epoch)
        return learning_rate * 0.5 * (cos(epoch * math.pi / epochs) + 1)


def linear_lr_warmup(learning_rate, warmup_steps, start_lr, end_lr):
    """From start_lr to end_lr in warmup_steps, then learning_rate."""
    check_type(learning_rate, "learning_rate", (float, int, ir.Variable),
               "linear_lr_warmup")
    with _guard():
        rate = _chosen("learning_rate_warmup")
        step = _decay_step_counter()
        with Switch() as switch:
            with switch.case(step < warmup_steps):
                assign(start_lr + (end_lr - start_lr) *
                       (step / float(warmup_steps)), rate)
            with switch.default():
                if not isinstance(learning_rate, ir.Variable):
                    learning_rate = _number(learning_rate)
                assign(learning_rate, rate)
    return rate
