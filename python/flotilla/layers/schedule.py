"""Learning rates that change with the global step."""
from .. import ir
from ..helper import LayerHelper
from .tensor import fill_constant


def _rate(kind, inner=None, **attrs):
    helper = LayerHelper("learning_rate")
    with helper.main_program._lr_schedule_guard():
        step = helper.create_variable_for_type_inference("int64", True)
        helper.append_op("global_step", outputs={"Out": step})
        out = helper.create_variable_for_type_inference("float32", True)
        inputs = {"Step": step}
        if inner is not None:
            inputs["X"] = inner
        helper.append_op(kind, inputs=inputs, outputs={"Out": out},
                         attrs=attrs)
    return out


def exponential_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    return _rate("lr_exponential_decay", learning_rate=learning_rate,
                 decay_steps=decay_steps, decay_rate=decay_rate,
                 staircase=staircase)


def natural_exp_decay(learning_rate, decay_steps, decay_rate, staircase=False):
    return _rate("lr_natural_exp_decay", learning_rate=learning_rate,
                 decay_steps=decay_steps, decay_rate=decay_rate,
                 staircase=staircase)


def inverse_time_decay(learning_rate, decay_steps, decay_rate,
                       staircase=False):
    return _rate("lr_inverse_time_decay", learning_rate=learning_rate,
                 decay_steps=decay_steps, decay_rate=decay_rate,
                 staircase=staircase)


def noam_decay(d_model, warmup_steps, learning_rate=1.0):
    return _rate("lr_noam_decay", d_model=d_model, warmup_steps=warmup_steps,
                 learning_rate=learning_rate)


def polynomial_decay(learning_rate, decay_steps, end_learning_rate=0.0001,
                     power=1.0, cycle=False):
    return _rate("lr_polynomial_decay", learning_rate=learning_rate,
                 decay_steps=decay_steps, end_learning_rate=end_learning_rate,
                 power=power, cycle=cycle)


def cosine_decay(learning_rate, step_each_epoch, epochs):
    return _rate("lr_cosine_decay", learning_rate=learning_rate,
                 step_each_epoch=step_each_epoch, epochs=epochs)


def piecewise_decay(boundaries, values):
    if len(values) != len(boundaries) + 1:
        raise ValueError("len(values) - len(boundaries) should be 1")
    return _rate("lr_piecewise_decay", boundaries=list(boundaries),
                 values=[float(v) for v in values])


def linear_lr_warmup(learning_rate, warmup_steps, start_lr, end_lr):
    if not isinstance(learning_rate, ir.Variable):
        learning_rate = fill_constant([1], "float32", learning_rate)
    return _rate("lr_linear_warmup", inner=learning_rate,
                 warmup_steps=warmup_steps, start_lr=start_lr, end_lr=end_lr)
