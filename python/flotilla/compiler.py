"""Programs that run as replicas, each on a part of the batch."""
import copy

import numpy as np

from . import _core, feeding, fetched, ir, near, tensor
from .data import read
from .executor import Executor
from .fluid import cpu_places
from .inference import create_paddle_predictor


class BuildStrategy:
    """How replicas put their gradients together. What Fluid lets one switch
    besides is done where it helps; those switches may be set."""

    class ReduceStrategy:
        AllReduce, Reduce = 0, 1

    class GradientScaleStrategy:
        CoeffNumDevice, One, Customized = 0, 1, 2

    # Fluid's switches that change speed and no result.
    _FREE = ("debug_graphviz_path", "enable_sequential_execution",
             "remove_unnecessary_lock", "num_trainers", "trainer_id",
             "trainers_endpoints", "fuse_elewise_add_act_ops",
             "fuse_bn_act_ops", "fuse_relu_depthwise_conv",
             "fuse_broadcast_ops", "fuse_all_optimizer_ops",
             "fuse_all_reduce_ops", "sync_batch_norm", "memory_optimize",
             "enable_inplace", "cache_runtime_context", "async_mode",
             "enable_parallel_graph", "nccl_comm_num", "use_hierarchical_allreduce",
             "hierarchical_allreduce_inter_nranks", "mkldnn_enabled_op_types",
             "enable_backward_optimizer_op_deps", "is_distribution",
             "enable_auto_fusion")

    def __init__(self):
        self.__dict__.update(reduce_strategy=self.ReduceStrategy.AllReduce,
                             gradient_scale_strategy=self.
                             GradientScaleStrategy.CoeffNumDevice)

    def __setattr__(self, name, value):
        if name not in self._FREE and name not in self.__dict__:
            raise AttributeError(
                f"BuildStrategy has no {name}"
                f"{near.hint(name, [*self._FREE, *self.__dict__])}")
        self.__dict__[name] = value

    def __getattr__(self, name):
        if name in self._FREE:
            return None
        raise AttributeError(f"BuildStrategy has no {name}")


class ExecutionStrategy:
    """How a program is run: in how many threads, and how many times in one
    run. What Fluid lets one say besides changes no result."""

    def __init__(self):
        self.__dict__.update(num_threads=0, num_iteration_per_drop_scope=100,
                             num_iteration_per_run=1, use_thread_barrier=False,
                             allow_op_delay=False, use_cuda=False,
                             use_experimental_executor=False, _dry_run=False)

    def __setattr__(self, name, value):
        if name not in self.__dict__:
            raise AttributeError(f"ExecutionStrategy has no {name}"
                                 f"{near.hint(name, self.__dict__)}")
        self.__dict__[name] = value


class CompiledProgram:
    """A program as it is, or with_data_parallel as replicas."""

    def __init__(self, program_or_graph, build_strategy=None):
        if not isinstance(program_or_graph, ir.Program):
            raise TypeError("The input to CompiledProgram should be a Program,"
                            f" not {type(program_or_graph)}")
        self._program = program_or_graph
        self._build = build_strategy or BuildStrategy()
        self._parallel = None
        self._is_inference, self._predictor = False, None
        self._share = None
        self._compiled_for = None  # (scope, place)
        self._handles = {}  # by program handle and number of replicas
        self._redeclared = {}  # copies for other feeds or updates

    def _with(self, program):
        """The same for another program."""
        new = copy.copy(self)
        new._program, new._handles, new._redeclared = program, {}, {}
        return new

    def with_data_parallel(self, loss_name=None, build_strategy=None,
                           exec_strategy=None, share_vars_from=None,
                           places=None):
        """Runs each batch in parts, one on each place."""
        if self._parallel is not None:
            raise AssertionError("Already compiled with parallel, cannot be "
                                 "recompiled.")
        if build_strategy is not None:
            self._build = build_strategy
        if places is not None and not isinstance(places, (list, tuple)):
            places = [places]
        if self._build.sync_batch_norm and any(
                op.type == "batch_norm"
                for op in self._program.global_block().ops):
            raise NotImplementedError(
                "BuildStrategy.sync_batch_norm: no operator here normalises "
                "over replicas; leave it out")
        self._parallel = (loss_name, exec_strategy or ExecutionStrategy(),
                          len(places) if places else 0)
        self._share = share_vars_from
        return self

    def _with_inference_optimize(self, config):
        """Runs give what the predictor of a config does."""
        self._predictor = create_paddle_predictor(config)
        self._is_inference = True
        return self

    def _compile(self, scope, place):
        """Binds it to a scope and a place; those of a program whose variables
        it shares are bound before."""
        if self._compiled_for is not None:
            if self._compiled_for[0] is not scope:
                raise ValueError("Cannot compile program with different scope.")
            if self._compiled_for[1] != place:
                raise ValueError("Cannot compile program with different place.")
            return self
        if self._share is not None:
            if self._share._parallel is None:
                raise ValueError("The shared Program is not data parallel, "
                                 "cannot share variables from it.")
            if self._share._compiled_for is None:
                raise ValueError("The shared Program is not compiled and "
                                 "executed, so there is no variables to share.")
        self._compiled_for = (scope, place)
        return self

    def _n_places(self):
        return self._parallel[2] or len(cpu_places())

    def _feed(self, feed):
        """One batch to split, or a tuple of one for each replica, and how many
        replicas there are: as many as places; a program that does not train
        has no more than samples."""
        n = self._n_places()
        if self._program._readers:
            feed = read.next_feeds(self._program, feed, n)
        if not isinstance(feed, (list, tuple)):
            n = self._n_replicas(feed, n)
            return _parted(feed, n), n
        if len(feed) > n:
            raise ValueError(f"{len(feed)} feeds for {n} replicas; feed a "
                             "batch for each, or one that is split")
        if len(feed) < n and self._program._trains():
            return _joined(feed), n
        return tuple(feed), len(feed)

    def _n_replicas(self, feed, n):
        if not feed or self._program._trains():
            return n
        block = self._program.global_block()
        counts = [feeding.n_samples(v) for k, v in feed.items()
                  if block._find(k) is None or not block.var(k).persistable]
        return max(1, min([n] + counts))

    def _compiled(self, handle, n):
        found = self._handles.get((handle, n))
        if found is None:
            loss, how, _ = self._parallel
            if loss and not self._program.global_block().has_var(
                    ir.grad_var_name(loss)):
                loss = None  # nothing is trained
            found = self._handles[handle, n] = _core.compiled_new(
                handle, loss, self._build.reduce_strategy,
                self._build.gradient_scale_strategy, how.num_threads, n)
        return found

    def _counts_shares(self):
        """Whether the loss of each replica is a share of that of the step."""
        return (self._parallel[0] is not None and
                self._build.gradient_scale_strategy ==
                BuildStrategy.GradientScaleStrategy.CoeffNumDevice)

    def _updates(self):
        return any(op._is_optimize_op()
                   for op in self._program.global_block().ops)

    def _of_step(self, name, values):
        """Gradients as those of the loss of the step, of which each replica
        has its share. Those of a parameter are put together, which the library
        has done where there is an update."""
        found = name[:-len("@GRAD")] if name.endswith("@GRAD") else None
        block = self._program.global_block()
        if found is None or not block.has_var(found) or not all(
                isinstance(v, np.ndarray) for v in values):
            return values
        if not isinstance(block.var(found), ir.Parameter):
            return [v / v.dtype.type(len(values)) for v in values]
        if self._updates():
            return values
        return [sum(values) / values[0].dtype.type(len(values))] * len(values)

    def _run(self, exe, feed, names, scope, return_numpy, return_merged):
        if self._is_inference:
            return self._predictor.run(feed)
        if self._parallel is None:
            return exe._run_program(self._program, feed, names, scope,
                                    return_numpy)
        self._compile(scope, exe.place)
        how = self._parallel[1]
        if how._dry_run:
            return []
        for _ in range(how.num_iteration_per_run - 1):
            self._run_once(exe, feed, names, scope, return_numpy,
                           return_merged)
        return self._run_once(exe, feed, names, scope, return_numpy,
                              return_merged)

    def _run_once(self, exe, feed, names, scope, return_numpy, return_merged):
        feed, n = self._feed(feed)
        found = exe._call(_core.run_compiled, self._program,
                          lambda handle: self._compiled(handle, n), feed,
                          names, scope, return_numpy, n)
        by_fetch = [found[i::len(names)] for i in range(len(names))]
        if not return_numpy:
            by_fetch = [[tensor.as_value(v) for v in vs] for vs in by_fetch]
        elif n > 1 and self._counts_shares():
            by_fetch = [self._of_step(name, vs) for name, vs in
                        zip(names, by_fetch)]
        if not return_merged:
            return by_fetch
        merged = [_merged(vs, return_numpy) for vs in by_fetch]
        return fetched.values(merged) if return_numpy else merged


def _parted(feed, n):
    """Arrays of different numbers of rows are cut each for itself, what is left
    over going to the last replica; else the library parts the samples."""
    arrays = {k: np.asarray(v) for k, v in (feed or {}).items()
              if isinstance(v, np.ndarray)}
    counts = {len(v) for v in arrays.values() if v.ndim}
    if n == 1 or len(counts) < 2 or len(arrays) < len(feed) or min(counts) < n:
        return feed
    return tuple({k: v[i * (len(v) // n):
                       None if i + 1 == n else (i + 1) * (len(v) // n)]
                  for k, v in arrays.items()} for i in range(n))


def _merged(values, is_numpy):
    """What the replicas gave, as one value."""
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], (list, tensor.LoDTensorArray)):
        return [_merged(vs, is_numpy) for vs in zip(*values)]
    return np.concatenate(values) if is_numpy else _one_behind_another(values)


def _one_behind_another(values):
    """Tensors of several batches as one, with their sequences."""
    lods = [getattr(v, "lod", ()) for v in values]
    lods = [lod() if callable(lod) else lod for lod in lods]
    whole = tensor.LoDTensor()
    whole.set(np.concatenate([np.asarray(v) for v in values]))
    whole.set_recursive_sequence_lengths(
        [[n for level in levels for n in np.diff(level).tolist()]
         for levels in zip(*lods)])
    return whole


def _joined(feeds):
    """One batch of those of several replicas."""
    return {k: _one_behind_another([f[k] for f in feeds]) for k in feeds[0]}


class ParallelExecutor:
    """The older face of the same."""

    def __init__(self, use_cuda=False, loss_name=None, main_program=None,
                 share_vars_from=None, exec_strategy=None, build_strategy=None,
                 num_trainers=1, trainer_id=0, scope=None):
        if use_cuda:
            from .fluid import _on_cpu
            _on_cpu("ParallelExecutor(use_cuda=True)")
        if num_trainers != 1:
            raise NotImplementedError(
                f"ParallelExecutor(num_trainers={num_trainers}): it is one "
                "process; several train together by "
                "fluid.incubate.fleet.collective")
        program = main_program or ir.default_main_program()
        self._compiled = CompiledProgram(program).with_data_parallel(
            loss_name, build_strategy, exec_strategy)
        self._scope = scope or getattr(share_vars_from, "_scope", None)
        self._exe = Executor()

    def run(self, fetch_list, feed=None, feed_dict=None, return_numpy=True):
        """Runs a batch on all places; a fetched value has those of all."""
        return self._exe.run(self._compiled, feed=feed or feed_dict,
                             fetch_list=fetch_list, scope=self._scope,
                             return_numpy=return_numpy)

    @property
    def device_count(self):
        """On how many places it runs."""
        return self._compiled._n_places()

    def drop_local_exe_scopes(self):
        """Gives back what it keeps between runs: plans, with the room of
        their temporaries. The next run makes them again."""
        self._compiled._handles.clear()

    def _need_create_local_exe_scopes(self):
        return not self._compiled._handles
