"""The fleet: a program for one machine becomes a job of many processes."""
import weakref

from .. import _core, io, ir
from .role import PaddleCloudRoleMaker
from .strategy import Strategy

(_INIT_SERVER, _RUN_SERVER, _INIT_WORKER, _STOP_WORKER, _BARRIER, _SAVE,
 _SAVE_DELTA, _LOAD) = range(8)
_SUM, _MIN, _MAX = range(3)


class Fleet:
    def __init__(self):
        self._handle = None
        self._look = None
        self._strategy = None
        self._main = self._startup = None

    # --- roles ---

    def init(self, role_maker=None, is_collective=False, strategy=None):
        """Reads who this process is; before everything else."""
        if role_maker is None:
            role_maker = PaddleCloudRoleMaker(is_collective)
        self._handle = _core.fleet_new(ir.ctx, role_maker._given())
        self._look = _core.fleet_look(self._handle)
        self._strategy = strategy
        self._main = self._startup = None

    def _ready(self):
        if self._handle is None:
            raise RuntimeError("fleet: call fleet.init() first")
        return self._handle

    def _says(self, what):
        self._ready()
        return self._look[what]

    def is_worker(self):
        return self._says("is_worker")

    def is_server(self):
        return self._says("is_server")

    def is_first_worker(self):
        return self.is_worker() and self.worker_index() == 0

    def worker_index(self):
        return self._says("worker_index")

    def worker_num(self):
        return self._says("worker_num")

    def server_index(self):
        return self._says("server_index")

    def server_num(self):
        return self._says("server_num")

    def worker_endpoints(self, to_string=False):
        return self._endpoints("worker_endpoints", to_string)

    def server_endpoints(self, to_string=False):
        return self._endpoints("server_endpoints", to_string)

    def _endpoints(self, which, to_string):
        text = self._says(which)
        return text if to_string else [e for e in text.split(",") if e]

    # --- programs ---

    def distributed_optimizer(self, optimizer, strategy=None):
        self._ready()
        return DistributedOptimizer(self, optimizer, strategy or self._strategy)

    def minimize(self, loss, *args, **kwargs):
        raise RuntimeError("fleet.minimize: call distributed_optimizer first, "
                           "and minimize of what it gives")

    def _distribute(self, strategy, main, startup):
        s = None
        if strategy is not None:
            if not isinstance(strategy, Strategy):
                raise TypeError("a strategy is wanted: fleet."
                                "DistributedStrategy(), or one of "
                                f"StrategyFactory; not {type(strategy)}")
            s = _core.strategy_new(self._ready(), strategy._kind)
            _core.strategy_set(s, strategy._words())
        _core.fleet_distribute(self._ready(), s, main._handle, startup._handle)
        self._main, self._startup = main, startup
        if self.server_num() or self.worker_num() > 1:
            self._main = ir.Program(_core.fleet_program(self._handle, False))
            self._startup = ir.Program(_core.fleet_program(self._handle, True))
        if self.is_worker():
            ir.switch_main_program(self._main)
            ir.switch_startup_program(self._startup)

    @property
    def main_program(self):
        return self._main or ir.default_main_program()

    @property
    def startup_program(self):
        return self._startup or ir.default_startup_program()

    # --- the life of a job ---

    def _do(self, deed, folder=None):
        _core.fleet_do(self._ready(), deed, folder)

    def init_server(self, model_dir=None):
        self._do(_INIT_SERVER, model_dir)

    def run_server(self):
        self._do(_RUN_SERVER)

    def init_worker(self):
        self._do(_INIT_WORKER)

    def stop_worker(self):
        self._do(_STOP_WORKER)

    def barrier_worker(self):
        self._do(_BARRIER)

    def save_persistables(self, executor, dirname, main_program=None):
        self._do(_SAVE, dirname)

    def load_model(self, dirname):
        self._do(_LOAD, dirname)

    def save_inference_model(self, executor, dirname, feeded_var_names,
                             target_vars, main_program=None,
                             export_for_deployment=True):
        io.save_inference_model(dirname, feeded_var_names, target_vars,
                                executor, main_program)

    def split_files(self, files):
        """This worker's part of a list of files."""
        n, i, total = self.worker_num(), self.worker_index(), len(files)
        at = i * (total // n) + min(i, total % n)
        return files[at:at + total // n + (1 if i < total % n else 0)]

    # --- together ---

    @property
    def util(self):
        return _Util(weakref.proxy(self))


class _Util:
    """What workers find out together."""

    _KINDS = {"sum": _SUM, "min": _MIN, "max": _MAX}

    def __init__(self, owner):
        self._fleet = owner

    def barrier(self, comm_world="worker"):
        self._fleet.barrier_worker()

    def all_reduce(self, input, mode="sum", comm_world="worker"):
        import numpy as np
        array = np.asarray(input, dtype="float64")
        found = _core.fleet_reduce(self._fleet._ready(), self._KINDS[mode],
                                   array.reshape(-1).tolist())
        return np.asarray(found).reshape(array.shape)

    def all_gather(self, input, comm_world="worker"):
        return _core.fleet_gather(self._fleet._ready(), float(input))

    def get_file_shard(self, files):
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        return self._fleet.split_files(files)

    def print_on_rank(self, message, rank_id):
        if self._fleet.worker_index() == rank_id:
            print(message, flush=True)


class DistributedOptimizer:
    """An optimizer whose minimize also makes the programs of this process."""

    def __init__(self, owner, optimizer, strategy):
        self._fleet, self._optimizer, self._strategy = (owner, optimizer,
                                                        strategy)

    def minimize(self, loss, startup_program=None, parameter_list=None,
                 no_grad_set=None):
        startup = startup_program or ir.default_startup_program()
        result = self._optimizer.minimize(loss, startup, parameter_list,
                                          no_grad_set)
        self._fleet._distribute(self._strategy, loss.block.program, startup)
        return result

    def __getattr__(self, name):
        return getattr(self._optimizer, name)


fleet = Fleet()
