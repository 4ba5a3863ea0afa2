"""The fleet: a program for one machine becomes a job of many processes."""
import atexit
import gc
import os
import sys
import warnings
import weakref

from .. import _core, io, ir, tensor
from ..compiler import CompiledProgram, ParallelExecutor
from ..executor import Executor
from ..optimizer import Optimizer
from .config import DistributeTranspilerConfig
from .listed import ServerProgram
from .role import PaddleCloudRoleMaker, RoleMakerBase
from .strategy import ModeStrategy, Strategy, SyncStrategy, of_config
from .util import Util, part_of

(_INIT_SERVER, _RUN_SERVER, _INIT_WORKER, _STOP_WORKER, _BARRIER, _SAVE,
 _SAVE_DELTA, _LOAD, _LEAVE) = range(9)


class Mode:
    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3


class Fleet:
    """One member of a job. A process is in one job, so the last one that was
    initialised counts."""

    _last = None

    def __init__(self, mode=Mode.TRANSPILER):
        self._mode = mode
        self._handle = None
        self._look = None
        self._role_maker = None
        self._strategy = None
        self._forget()

    def _forget(self):
        self._main = self._startup = self._origin_program = None
        self._before = []  # (program of the job, what it was before)
        self._waits = True
        self._has_begun = self._is_stopped = False

    # --- roles ---

    @property
    def _is_initialized(self):
        return self._handle is not None

    def init(self, role_maker=None, is_collective=False, strategy=None):
        """Reads who this process is; before everything else."""
        if role_maker is None:
            role_maker = PaddleCloudRoleMaker(is_collective)
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError("fleet.init takes a role maker, as "
                            "PaddleCloudRoleMaker(), not "
                            f"{type(role_maker)}")
        role_maker.generate_role()
        self._role_maker = role_maker
        self._strategy = strategy
        self._join()
        role_maker._fleet = weakref.proxy(self)

    def _join(self):
        """A new member; what an earlier one has made goes, unless a script
        holds it."""
        for earlier in {self, Fleet._last} - {None}:
            earlier._handle = None
            earlier._step_back()
        gc.collect()
        self._handle = _core.fleet_new(ir.ctx, self._role_maker._given())
        self._look = _core.fleet_look(self._handle)
        Fleet._last = self

    def _step_back(self):
        """Programs of a job are those of one process again."""
        for program, was in self._before:
            program._become(was._handle)
            program._is_distributed = False
        self._forget()

    def _ready(self):
        if self._handle is None:
            raise RuntimeError("fleet: call fleet.init() first")
        return self._handle

    def _says(self, what):
        self._ready()
        return self._look[what]

    def is_worker(self):
        """Whether this process is a worker."""
        return self._says("is_worker")

    def is_server(self):
        """Whether this process is a server."""
        return self._says("is_server")

    def is_first_worker(self):
        """Whether this is worker 0."""
        return self.is_worker() and self.worker_index() == 0

    def worker_index(self):
        """The number of this worker."""
        return self._says("worker_index")

    def worker_num(self):
        """How many workers the job has."""
        return self._says("worker_num")

    def server_index(self):
        """The number of this server."""
        return self._says("server_index")

    def server_num(self):
        """How many servers the job has."""
        return self._says("server_num")

    def worker_endpoints(self, to_string=False):
        """Addresses of the workers, as a list or as one text."""
        return self._endpoints("worker_endpoints", to_string)

    def server_endpoints(self, to_string=False):
        """Addresses of the servers, as a list or as one text."""
        return self._endpoints("server_endpoints", to_string)

    def _endpoints(self, which, to_string):
        text = self._says(which)
        return text if to_string else [e for e in text.split(",") if e]

    # --- programs ---

    def distributed_optimizer(self, optimizer, strategy=None):
        """The optimizer of a job: its minimize makes the programs those of the
        job."""
        self._ready()
        return DistributedOptimizer(self, optimizer, strategy or self._strategy)

    def minimize(self, loss, *args, **kwargs):
        """The minimize of its optimizer."""
        raise RuntimeError("fleet.minimize: call distributed_optimizer first, "
                           "and minimize of what it gives")

    def _transpile(self, config):
        """Checks what a user calls a strategy."""
        if isinstance(config, DistributeTranspilerConfig):
            return of_config(config)
        if config is not None and not isinstance(config, Strategy):
            raise TypeError("a strategy is wanted: fleet.DistributedStrategy()"
                            ", one of StrategyFactory or a DistributeTranspiler"
                            f"Config; not {type(config)}")
        return config

    def _begin_minimize(self, main):
        """A fleet has the programs of its last minimize, which may be one of
        several in a program."""
        if self._main is None:
            return
        if self._has_begun:
            raise RuntimeError("fleet: minimize after the job has begun; "
                               "programs are made before init_server and "
                               "init_worker")
        if self._is_job() and main not in (self._main, self._origin_program):
            warnings.warn("fleet: a job has the programs of its last minimize;"
                          " those of the one before train alone. Losses of one"
                          " program train together")
        self._join()

    def _is_job(self):
        return self.server_num() > 0 or self.worker_num() > 1

    def _distribute(self, strategy, main, startup):
        """The pair becomes the programs of a worker where they are, so that
        whoever has them trains with the others; those of a server are made
        beside it."""
        s = None
        if strategy is not None:
            s = _core.strategy_new(self._ready(), strategy._kind_in(self))
            _core.strategy_set(s, strategy._words_in(self))
        if isinstance(strategy, ModeStrategy):
            self._waits = strategy.get_program_config().wait_port
            if strategy.debug_opt:
                main._debug = {**strategy.debug_opt,
                               "rank": max(self.worker_index(), 0)}
        _core.fleet_distribute(self._ready(), s, main._handle, startup._handle,
                               tensor.global_scope()._handle)
        self._main, self._startup, self._origin_program = main, startup, main
        if not self._is_job():
            return
        programs = [_core.fleet_program(self._handle, is_startup)
                    for is_startup in (False, True)]
        if self.is_worker():
            self._origin_program = main._become(programs[0])
            self._before = [(main, self._origin_program),
                            (startup, startup._become(programs[1]))]
        else:
            self._main, self._startup = map(ServerProgram, programs)

    @property
    def main_program(self):
        """The main program of this member."""
        return self._main or ir.default_main_program()

    @property
    def startup_program(self):
        """The startup program of this member."""
        return self._startup or ir.default_startup_program()

    # --- the life of a job ---

    def _do(self, deed, folder=None):
        self._has_begun = True
        _core.fleet_do(self._ready(), deed, folder)

    def init_server(self, model_dir=None):
        """Makes the tables of this server, with the values of a saved model if
        one is named."""
        self._do(_INIT_SERVER, model_dir)

    def run_server(self):
        """Serves until all workers have left."""
        self._do(_RUN_SERVER)

    def init_worker(self):
        """Waits for the servers; without wait_port the first run does."""
        if self._waits:
            self._do(_INIT_WORKER)

    def stop_worker(self):
        """This worker is through and leaves the job."""
        self._do(_STOP_WORKER if self._waits else _LEAVE)
        self._is_stopped = True

    def _end(self):
        """The script is over: what it has computed is applied, also when it
        did not call stop_worker."""
        if (self._handle is not None and self._main is not None and
                not self._is_stopped and self.is_worker()):
            self._do(_LEAVE)

    def barrier_worker(self):
        """Waits for all workers."""
        self._do(_BARRIER)

    # --- models ---

    @staticmethod
    def _check_save(call, executor, program):
        if isinstance(executor, ParallelExecutor) or \
                not isinstance(executor, Executor):
            raise TypeError(f"fleet.{call}: executor is an Executor, not "
                            f"{type(executor)}")
        if isinstance(program, CompiledProgram):
            raise TypeError(f"fleet.{call}: main_program is a Program, not a "
                            "CompiledProgram")

    def save_persistables(self, executor, dirname, main_program=None,
                          filename=None):
        """All that the job has, of its workers and servers."""
        self._check_save("save_persistables", executor, main_program)
        if self._main is not None and not self._is_job():
            io.save_persistables(executor, dirname, main_program or self._main,
                                 filename)
        else:
            self._do(_SAVE, dirname)

    def _save(self, dirname, mode):
        """Mode 1: what changed since the last time."""
        self._do(_SAVE_DELTA if mode == 1 else _SAVE, dirname)

    def load_model(self, dirname):
        """Brings a saved model to the servers."""
        self._do(_LOAD, dirname)

    def shrink(self, threshold):
        """Removes rows of tables that were not seen for so many days, and
        lets their counts decay: once, however many workers ask. How many."""
        return _core.fleet_shrink(self._ready(), threshold)

    def save_inference_model(self, executor, dirname, feeded_var_names,
                             target_vars, main_program=None,
                             export_for_deployment=True):
        """Saves what scores need: the program cut to the targets, and the
        values of the job."""
        self._check_save("save_inference_model", executor, main_program)
        io.save_inference_model(dirname, feeded_var_names, target_vars,
                                executor, main_program or self.main_program)

    # --- together ---

    def split_files(self, files):
        """This worker's part of a list of files."""
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        return part_of(files, self.worker_index(), self.worker_num())

    def all_reduce_worker(self, input, output):
        """Adds arrays up over all workers, or takes the largest or
        smallest."""
        for i, x in enumerate(self.util.all_reduce(input)):
            output[i] = x

    @property
    def util(self):
        """Numbers and files of all workers."""
        return Util(weakref.proxy(self))


class DistributedOptimizer:
    """An optimizer whose minimize also makes the programs of this process."""

    def __init__(self, owner, optimizer, strategy=None):
        if not isinstance(optimizer, Optimizer):
            raise TypeError("an optimizer is wanted, not "
                            f"{type(optimizer)}")
        self._fleet = owner
        self._optimizer = optimizer
        self._strategy = owner._transpile(strategy)

    def backward(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None, callbacks=None):
        """Writes gradients."""
        return self._optimizer.backward(loss, startup_program, parameter_list,
                                        no_grad_set, callbacks)

    def apply_gradients(self, params_grads):
        """Writes updates of these pairs of parameter and gradient."""
        return self._optimizer.apply_gradients(params_grads)

    def minimize(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None):
        """Writes gradients and updates, and makes the programs those of the
        job."""
        optimizer = self._optimizer
        if self._strategy is not None:
            optimizer = self._strategy._around(optimizer)
        if not isinstance(loss, ir.Variable):
            raise TypeError(f"minimize takes one loss, a Variable, not {loss!r}")
        self._fleet._begin_minimize(loss.block.program)
        startup = startup_program or ir.default_startup_program()
        result = optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self._fleet._distribute(self._strategy, loss.block.program, startup)
        return result

    def __getattr__(self, name):
        return getattr(self._optimizer, name)


# --- 1.8: with servers -------------------------------------------------------

class DistributedTranspiler(Fleet):
    """The fleet of incubate.fleet.parameter_server."""

    def distributed_optimizer(self, optimizer, strategy=None):
        self._ready()
        return TranspilerOptimizer(optimizer, strategy, self)


class TranspilerOptimizer(DistributedOptimizer):
    def __init__(self, optimizer, strategy=None, owner=None):
        super().__init__(owner or transpiler_fleet, optimizer,
                         SyncStrategy() if strategy is None else strategy)

    def minimize(self, loss, scopes=None, startup_program=None,
                 parameter_list=None, no_grad_set=None):
        if isinstance(scopes, ir.Program) and startup_program is None:
            startup_program = scopes
        return super().minimize(loss, startup_program, parameter_list,
                                no_grad_set)


fleet = Fleet()
transpiler_fleet = DistributedTranspiler()


def _has_failed():
    """An exception has ended the script; in a session, where scripts go on
    after one, it has not."""
    return (getattr(sys, "last_value", None) is not None and
            not hasattr(sys, "ps1"))


@atexit.register
def _end_of_script():
    """A member that has failed is gone at once: to leave is to wait for the
    others, and they would wait for it."""
    fleet = Fleet._last
    if fleet is None or fleet._main is None:
        return
    if _has_failed():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    fleet._end()
