"""Limits on gradients, written as operators."""
import copy
import logging

from . import ir, layers
from .types import VarType

_log = logging.getLogger("flotilla")
_BACKWARD, _OPTIMIZE = 1, 2  # Fluid's numbers of roles


# --- of gradients on their way back ----------------------------------------

class BaseErrorClipAttr:
    """What a variable's error_clip is: it limits the variable's gradient as
    soon as there is one."""

    def _append_clip_op(self, block, grad_name):
        self._insert(block, len(block.ops), grad_name)

    def _insert(self, block, index, grad_name):
        raise NotImplementedError


class ErrorClipByValue(BaseErrorClipAttr):
    def __init__(self, max, min=None):
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def _insert(self, block, index, grad_name):
        block._insert_op(index, "clip", inputs={"X": grad_name},
                         outputs={"Out": grad_name},
                         attrs={"min": self.min, "max": self.max,
                                "op_role": _BACKWARD})

    def __str__(self):
        return f"ByValue, min={self.min:f}, max={self.max:f}"


def error_clip_callback(block, context):
    """The one callback of append_backward, which knows it by itself."""
    raise NotImplementedError("error_clip_callback is given to append_backward "
                              "and not called by anybody else")


# --- of gradients of parameters --------------------------------------------

class GradientClipBase:
    """Limits gradients before their updates."""

    def __init__(self, need_clip=None):
        if need_clip is not None and not callable(need_clip):
            raise TypeError("need_clip is a function of a parameter, not "
                            f"{type(need_clip)}")
        self._need_clip_func = need_clip

    def __call__(self, params_grads):
        if any(getattr(p, "gradient_clip_attr", None) is not None
               for p, _ in params_grads):
            _log.warning("set_gradient_clip does nothing: the optimizer has a "
                         "grad_clip of its own")
        with ir.name_scope("gradient_clip"):
            return self._static_clip([(p, g) for p, g in params_grads
                                      if g is not None])

    def _static_clip(self, params_grads):
        return [self._clipped(p, g) for p, g in params_grads]

    def _clipped(self, param, grad):
        if self._skips(param):
            return param, grad
        with param.block.program._optimized_guard([param, grad]):
            return self._create_operators(param, grad)

    def _skips(self, param):
        return (self._need_clip_func is not None and
                not self._need_clip_func(param))

    def _process_context(self, context, param, grad):
        """What must be there before the first gradient is clipped."""

    def _create_operators(self, param, grad):
        raise NotImplementedError

    def __str__(self):
        raise NotImplementedError


class GradientClipByValue(GradientClipBase):
    """Cuts each number of a gradient off at min and max."""

    def __init__(self, max, min=None, need_clip=None):
        super().__init__(need_clip)
        if min is None:
            assert max > 0.0, f"a limit of {max} leaves no gradient"
            min = -max
        self.max, self.min = float(max), float(min)

    def _create_operators(self, param, grad):
        return param, layers.clip(x=grad, min=self.min, max=self.max)

    def __str__(self):
        return f"Gradient Clip By Value, min = {self.min:f}, max={self.max:f}"


class GradientClipByNorm(GradientClipBase):
    """Scales each gradient so that its norm is at most clip_norm."""

    def __init__(self, clip_norm, need_clip=None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def _create_operators(self, param, grad):
        return param, layers.clip_by_norm(x=grad, max_norm=self.clip_norm)

    def __str__(self):
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"


def _sum_of_squares(grad):
    if grad.type == VarType.SELECTED_ROWS:
        grad = layers.get_tensor_from_selected_rows(
            layers.merge_selected_rows(grad))
    return layers.reduce_sum(layers.square(grad))


class GradientClipByGlobalNorm(GradientClipBase):
    """Scales all gradients so that their common norm is at most clip_norm."""

    def __init__(self, clip_norm, group_name="default_group", need_clip=None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def _limit(self):
        return layers.fill_constant(shape=[1], dtype="float32",
                                    value=self.clip_norm)

    @staticmethod
    def _factor(limit, norm):
        return layers.elementwise_div(
            x=limit, y=layers.elementwise_max(x=limit, y=norm))

    def _static_clip(self, params_grads):
        squares = []
        for p, g in params_grads:
            if not self._skips(p):
                with p.block.program._optimized_guard([p, g]):
                    squares.append(_sum_of_squares(g))
        if not squares:
            return params_grads
        p, g = params_grads[-1]
        with p.block.program._optimized_guard([p, g]):
            norm = layers.sqrt(layers.sums(squares))
            self._context = {self._key("scale"): self._factor(self._limit(),
                                                              norm)}
        return super()._static_clip(params_grads)

    # What set_gradient_clip asks for: parameters of a group in turn.

    def _key(self, what):
        return f"{self.group_name}_{what}"

    def _process_context(self, context, param, grad):
        if self.group_name not in context:
            context[self.group_name] = []
            context[self._key("clip_value")] = self.clip_norm
            context[self._key("clip")] = self._limit()
        elif self.clip_norm != context[self._key("clip_value")]:
            raise ValueError(
                f"gradients of group {self.group_name} are clipped to "
                f"{context[self._key('clip_value')]} and to {self.clip_norm}: "
                "a group has one limit")
        context[self.group_name].append(_sum_of_squares(grad))
        self._context = context

    def _create_operators(self, param, grad):
        known = self._context
        if self._key("scale") not in known:
            norm = layers.sqrt(layers.sums(known[self.group_name]))
            known[self._key("scale")] = self._factor(known[self._key("clip")],
                                                     norm)
        return param, layers.elementwise_mul(x=grad,
                                             y=known[self._key("scale")])

    def __str__(self):
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"


def _parameters(program, given):
    block = program.global_block()
    found = block.all_parameters() if given is None else list(given)
    found = [block.var(p) if isinstance(p, str) else p for p in found]
    for p in found:
        if not isinstance(p, ir.Parameter):
            raise TypeError("param_list has parameters or their names, not "
                            f"{type(p)}")
    return found


def set_gradient_clip(clip, param_list=None, program=None):
    """Clips gradients of these parameters, or of all, in the next
    minimization by an optimizer without a grad_clip."""
    if not isinstance(clip, GradientClipBase):
        raise TypeError(f"a clip is a GradientClipBase, not {type(clip)}")
    program = program or ir.default_main_program()
    if any(op.attr("op_role") == _OPTIMIZE for op in
           program.global_block().ops):
        _log.warning("set_gradient_clip does nothing after minimize: call it "
                     "before")
    for p in _parameters(program, param_list):
        p.gradient_clip_attr = copy.deepcopy(clip)


def append_gradient_clip_ops(param_grads):
    """Gradients clipped as set_gradient_clip said of each parameter."""
    with_grad = [(p, g) for p, g in param_grads if g is not None]
    context, clip = {}, None
    for p, g in with_grad:
        clip = getattr(p, "gradient_clip_attr", None)
        if clip is None:
            return param_grads
        with p.block.program._optimized_guard([p, g]):
            clip._process_context(context, p, g)
    clipped = []
    for p, g in with_grad:
        with p.block.program._optimized_guard([p, g]):
            clipped.append(list(clip._create_operators(p, g)))
    return clipped


ClipByValue, ClipByNorm, ClipByGlobalNorm = (
    GradientClipByValue, GradientClipByNorm, GradientClipByGlobalNorm)
