"""Learning rates that change with the global step."""
import math

from .. import ir
from ..check import check_type
from ..helper import LayerHelper
from .generated import cos, elementwise_min, exp, floor
from .nn import autoincreased_step_counter
from .tensor import cast, fill_constant


def _decay_step_counter(begin=0):
    """The number of the step, counted from `begin`."""
    step = autoincreased_step_counter("@LR_DECAY_COUNTER@", begin=begin)
    return cast(step, "float32")


def _guard():
    return ir.default_main_program()._lr_schedule_guard()


def _number(value):
    return fill_constant([1], "float32", float(value))


def _rate(kind, inner=None, **attrs):
    """A schedule that is one operator of the library."""
    helper = LayerHelper("learning_rate")
    with _guard():
        step = helper.create_variable_for_type_inference("int64", True)
        helper.append_op("global_step", outputs={"Out": step})
        out = helper.create_variable_for_type_inference("float32", True)
        inputs = {"Step": step}
        if inner is not None:
            inputs["X"] = inner
        helper.append_op(kind, inputs=inputs, outputs={"Out": out},
                         attrs=attrs)
    return out


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
    if cycle:
        return _rate("lr_polynomial_decay", learning_rate=learning_rate,
                     decay_steps=decay_steps, power=power, cycle=True,
                     end_learning_rate=end_learning_rate)
    with _guard():
        step = elementwise_min(x=_decay_step_counter(),
                               y=_number(decay_steps))
        return ((learning_rate - end_learning_rate) *
                ((1 - step / decay_steps)**power) + end_learning_rate)


def piecewise_decay(boundaries, values):
    """One value up to each boundary, and one behind the last."""
    if len(values) - len(boundaries) != 1:
        raise ValueError("len(values) - len(boundaries) should be 1")
    return _rate("lr_piecewise_decay", boundaries=list(boundaries),
                 values=[float(v) for v in values])


def cosine_decay(learning_rate, step_each_epoch, epochs):
    """Half a cosine over the epochs."""
    check_type(learning_rate, "learning_rate", (float, ir.Variable),
               "cosine_decay")
    with _guard():
        epoch = floor(_decay_step_counter() / step_each_epoch)
        return learning_rate * 0.5 * (cos(epoch * math.pi / epochs) + 1)


def linear_lr_warmup(learning_rate, warmup_steps, start_lr, end_lr):
    """From start_lr to end_lr in warmup_steps, then learning_rate."""
    if not isinstance(learning_rate, ir.Variable):
        learning_rate = fill_constant([1], "float32", learning_rate)
    return _rate("lr_linear_warmup", inner=learning_rate,
                 warmup_steps=warmup_steps, start_lr=start_lr, end_lr=end_lr)
