"""Optimizers around another one."""
from .. import ir, layers
from ..backward import append_backward
from .base import Optimizer


class RecomputeOptimizer(Optimizer):
    """Keeps checkpoints alone on the way there and computes the rest again."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self._checkpoints = None
        self._learning_rate = optimizer._learning_rate
        self._learning_rate_map = optimizer._learning_rate_map

    def _set_checkpoints(self, checkpoints):
        self._checkpoints = checkpoints

    def load(self, stat_dict):
        """Refuses: states are loaded with the model."""
        raise NotImplementedError("load function is not supported by Recompute "
                                  "Optimizer for now")

    def backward(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None, callbacks=None):
        """Writes gradients that compute anew what lies between checkpoints."""
        self._dtype = loss.dtype
        with ir.program_guard(loss.block.program, startup_program):
            return append_backward(loss, parameter_list, no_grad_set,
                                   checkpoints=self._checkpoints)

    def apply_gradients(self, params_grads):
        """Writes updates of these pairs of parameter and gradient."""
        return self._optimizer.apply_gradients(params_grads)

    def apply_optimize(self, loss, startup_program, params_grads):
        """Writes updates."""
        return self._optimizer.apply_optimize(loss, startup_program,
                                              params_grads)

    def minimize(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None):
        """Writes gradients and updates."""
        assert self._checkpoints is not None, (
            "RecomputeOptimizer: _set_checkpoints comes before minimize")
        return super().minimize(loss, startup_program, parameter_list,
                                no_grad_set)


class LookaheadOptimizer:
    """Slow weights that go a part of the way of the fast ones every k
    steps."""

    type = "lookahead"

    def __init__(self, inner_optimizer, alpha=0.5, k=5):
        assert inner_optimizer is not None, "there is no inner optimizer"
        assert 0.0 <= alpha <= 1.0, f"alpha {alpha} is not from 0 to 1"
        assert isinstance(k, int) and k > 0, f"k {k} is no count of steps"
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k

    def minimize(self, loss, startup_program=None):
        """Writes gradients, updates, and the slow weights."""
        result = self.inner_optimizer.minimize(loss, startup_program)
        startup = startup_program or ir.default_startup_program()
        params = loss.block.all_parameters()
        slow = [self._slow(p, loss.block) for p in params]
        for p in params:
            block = startup.global_block()
            block.append_op("assign", inputs={"X": block.var(p.name)},
                            outputs={"Out": self._slow(p, block)})
        self._append_steps(list(zip(params, slow)))
        return result

    @staticmethod
    def _slow(param, block):
        return block.create_var(name=param.name + "@SLOW", shape=param.shape,
                                dtype=param.dtype, persistable=True)

    @staticmethod
    def _setting(name, value, dtype):
        return layers.create_global_var(name=name, shape=[1], value=value,
                                        dtype=dtype, persistable=True)

    def _append_steps(self, weights):
        k = self._setting("lookahead_k", int(self.k), "int32")
        alpha = self._setting("lookahead_alpha", float(self.alpha), "float32")
        step = self._setting("lookahead_step", 0, "int32")
        layers.increment(x=step, value=1.0, in_place=True)
        zero = layers.fill_constant(shape=[1], dtype="float32", value=0.0)
        one = layers.fill_constant(shape=[1], dtype="float32", value=1.0)
        mod = layers.elementwise_mod(step, k)
        with layers.Switch() as switch:
            with switch.case(mod == zero):
                for fast, slow in weights:
                    self._meet(fast, slow, alpha, one)
            with switch.default():
                pass

    @staticmethod
    def _meet(fast, slow, alpha, one):
        new = layers.elementwise_add(
            layers.elementwise_mul(fast, alpha),
            layers.elementwise_mul(slow, layers.elementwise_sub(one, alpha)))
        layers.assign(input=new, output=slow)
        layers.assign(input=new, output=fast)


class PipelineOptimizer:
    """Fluid's stages of a net on several devices, which are not there."""

    def __init__(self, optimizer, cut_list=None, place_list=None,
                 concurrency_list=None, queue_size=30, sync_steps=1,
                 start_cpu_core_id=0):
        raise NotImplementedError("PipelineOptimizer: a net is not cut into "
                                  "stages here; workers with "
                                  "train_from_dataset(thread=n), "
                                  "CompiledProgram or fleet share the batches")


class DGCMomentumOptimizer(Optimizer):
    """Fluid's momentum with gradients compressed on GPUs, which are not
    there."""

    def __init__(self, learning_rate, momentum, rampup_begin_step,
                 rampup_step=1, sparsity=[0.999], parameter_list=None,
                 use_nesterov=False, num_trainers=None, regularization=None,
                 grad_clip=None, name=None):
        raise NotImplementedError("DGCMomentumOptimizer: gradients are "
                                  "compressed on GPUs alone; use Momentum, "
                                  "with fleet's geo mode where the network is "
                                  "slow")
