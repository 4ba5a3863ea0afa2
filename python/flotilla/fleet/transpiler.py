"""DistributeTranspiler: one program made into those of trainers and servers."""
import gc

from .. import _core, ir, tensor
from . import listing
from .config import (DistributedMode, DistributeTranspilerConfig, RoundRobin,
                     ServerRuntimeConfig)
from .listed import ServerProgram
from .strategy import _word

_WORKER, _SERVER = 1, 2
_NUMBERS = {"sync": DistributedMode.SYNC, "async": DistributedMode.ASYNC,
            "half_async": DistributedMode.HALF_ASYNC,
            "geo": DistributedMode.GEO}


_before = {}  # settings as they were before the first config told others


class DistributeTranspiler:
    """transpile() takes the job; which of its programs a process asks for
    first says what it is, a trainer or a server."""

    def __init__(self, config=None):
        self.config = config or DistributeTranspilerConfig()
        self._set_server_config()
        if self.config.split_method is None:
            self.config.split_method = RoundRobin
        self.distributed_mode = _NUMBERS[self.config._kind()]
        self._args = None
        self._handle = None
        self._trainer = self._listed = None

    def _set_server_config(self, server_config=None):
        self.server_config = server_config or ServerRuntimeConfig()
        if not isinstance(self.server_config, ServerRuntimeConfig):
            raise TypeError("server_config is a ServerRuntimeConfig, not "
                            f"{type(server_config)}")

    def transpile(self, trainer_id, program=None, pservers="127.0.0.1:6174",
                  trainers=1, sync_mode=True, startup_program=None,
                  current_endpoint="127.0.0.1:6174"):
        """Makes the programs those of a job."""
        if self.config.mode != "pserver":
            raise NotImplementedError(
                f"DistributeTranspiler: mode {self.config.mode} is for GPUs; "
                "workers without servers are what a collective fleet has")
        self.origin_program = program or ir.default_main_program()
        self.startup_program = startup_program or ir.default_startup_program()
        self.trainer_id, self.trainer_num = trainer_id, trainers
        self.pserver_endpoints = pservers.split(",")
        self._args = (pservers, trainers, self._mode(sync_mode))
        self._handle = self._trainer = self._listed = None
        self.table_name = listing.table_of(self.origin_program)
        self.has_distributed_lookup_table = self.table_name is not None

    def _mode(self, sync_mode):
        """Both the config and transpile() may say that it is not sync."""
        kind = self.config._kind()
        return "half_async" if kind == "sync" and not sync_mode else kind

    def _tell(self, mode):
        """What the context has of the config."""
        changed = self.config._changed(mode)
        changed.update(self.server_config._changed())
        changed["geo_need_push_nums"] = changed.pop("geo_sgd_need_push_nums",
                                                    None)
        told = {n: _word(v) for n, v in changed.items() if v is not None}
        for name, value in {**_before, **told}.items():
            _before.setdefault(name, _core.ctx_get(ir.ctx, name))
            _core.ctx_set(ir.ctx, name, value)

    def _program(self, role, endpoint, is_startup):
        if self._args is None:
            raise RuntimeError("DistributeTranspiler: call transpile() first")
        if self._handle is None:
            pservers, n, mode = self._args
            self._tell(mode)
            gc.collect()  # a job that nobody holds any more makes room
            self._main = self.origin_program.clone()
            self._first = self.startup_program.clone()
            self._handle = _core.transpile(
                ir.ctx, role, self.trainer_id if role == _WORKER else 0,
                pservers, n, mode, self._main._handle, self._first._handle,
                tensor.global_scope()._handle)
        return _core.transpiler_program(self._handle, endpoint, is_startup)

    def get_trainer_program(self, wait_port=True):
        """The program that was transpiled; it trains with the others now, and
        so does its startup program."""
        if self._trainer is None:
            main, startup = (self._program(_WORKER, None, is_startup)
                             for is_startup in (False, True))
            self._trainer = self.origin_program
            self._origin = (self._trainer._become(main),
                            self.startup_program._become(startup))
            self._list_trainer()
        return self._trainer

    def _job(self):
        """What is listed; None for modes that 1.8 lists otherwise."""
        if self._listed is None and self._args[2] in listing.MODES:
            _, n, mode = self._args
            self._listed = listing.Job(
                self._main, self._first, {
                    at: ir.Program(self._program(_SERVER, at, False))
                    for at in self.pserver_endpoints}, mode, n)
        return self._listed

    def _list_trainer(self):
        job = self._job()
        if job is None:
            return
        main, startup = self._trainer, self.startup_program
        main._listing = lambda i, ops: (
            ops if i else job.trainer(ops, self.trainer_id))
        startup._listing = lambda i, ops: ops if i else job.trainer_startup()
        main._more_vars = startup._more_vars = job.trainer_vars()
        self._tell_of(main)

    def _tell_of(self, program):
        """What 1.8 writes down of a job in its programs."""
        job = self._job()
        program._endpoints = list(self.pserver_endpoints)
        program._is_chief = self.trainer_id == 0
        program._distributed_lookup_table = self.table_name
        program._parameters_on_pservers = job and job.overview()

    def _get_trainer_startup_program(self, recv_vars=None, eplist=None):
        self.get_trainer_program()
        return self.startup_program

    def get_pserver_program(self, endpoint):
        """The program of a server."""
        program = ServerProgram(self._program(_SERVER, endpoint, False))
        job, number = self._job(), _NUMBERS[self._args[2]]
        if job is not None:
            blocks = program._listed = job.server(endpoint)
            program._listing = lambda i, ops: [
                job.serves(op, endpoint, blocks, number)
                if op.type == "listen_and_serv" else op for op in ops]
        self._tell_of(program)
        return program

    def get_startup_program(self, endpoint, pserver_program=None,
                            startup_program=None):
        """The program that a server begins with."""
        program = ServerProgram(self._program(_SERVER, endpoint, True))
        job = self._job()
        if job is not None:
            program._listing = lambda i, ops: job.server_startup(endpoint)
        return program

    def get_pserver_programs(self, endpoint):
        """The program of a server and its startup program."""
        return (self.get_pserver_program(endpoint),
                self.get_startup_program(endpoint))


class GeoSgdTranspiler(DistributeTranspiler):
    """The same in mode geo."""

    def _mode(self, sync_mode):
        return "geo"


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0,
                    skip_grads=False):
    """Nothing is left to do: memory of temporaries is planned before the first
    run, always."""
