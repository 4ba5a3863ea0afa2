"""DistributeTranspiler: one program made into those of trainers and servers."""
from .. import _core, ir

_WORKER, _SERVER = 1, 2


class DistributeTranspilerConfig:
    """How parameters are dealt to servers, and how the job trains."""

    def __init__(self):
        self.slice_var_up = True
        self.split_method = None
        self.min_block_size = 8192
        self.sync_mode = True
        self.half_async = False
        self.runtime_split_send_recv = False
        self.geo_sgd_mode = False
        self.geo_sgd_need_push_nums = 100
        self.mode = "pserver"

    def _mode(self, sync_mode):
        if self.geo_sgd_mode:
            return "geo"
        if self.half_async:
            return "half_async"
        return "sync" if sync_mode and self.sync_mode else "async"

    def _set(self):
        """What the context has for it."""
        settings = {"slice_var_up": str(self.slice_var_up).lower(),
                    "min_block_size": str(self.min_block_size)}
        if self.geo_sgd_mode:
            settings["geo_need_push_nums"] = str(self.geo_sgd_need_push_nums)
        for name, value in settings.items():
            _core.ctx_set(ir.ctx, name, value)


class DistributeTranspiler:
    """transpile() takes the job; which of its programs a process asks for
    first says what it is, a trainer or a server."""

    def __init__(self, config=None):
        self.config = config or DistributeTranspilerConfig()
        self._args = None
        self._handle = None

    def transpile(self, trainer_id, program=None, pservers="127.0.0.1:6174",
                  trainers=1, sync_mode=True, startup_program=None,
                  current_endpoint="127.0.0.1:6174"):
        if self.config.mode != "pserver":
            raise NotImplementedError(
                f"DistributeTranspiler: mode {self.config.mode} is for GPUs; "
                "workers without servers are what a collective fleet has")
        self.config._set()
        self._args = (trainer_id, pservers, trainers,
                      self.config._mode(sync_mode),
                      program or ir.default_main_program(),
                      startup_program or ir.default_startup_program())
        self._handle = None

    def _program(self, role, endpoint, is_startup):
        if self._args is None:
            raise RuntimeError("DistributeTranspiler: call transpile() first")
        if self._handle is None:
            trainer, pservers, n, mode, main, startup = self._args
            self._handle = _core.transpile(
                ir.ctx, role, trainer if role == _WORKER else 0, pservers, n,
                mode, main._handle, startup._handle)
        return ir.Program(_core.transpiler_program(self._handle, endpoint,
                                                   is_startup))

    def get_trainer_program(self, wait_port=True):
        program = self._program(_WORKER, None, False)
        ir.switch_startup_program(self._program(_WORKER, None, True))
        return program

    def get_pserver_program(self, endpoint):
        return self._program(_SERVER, endpoint, False)

    def get_startup_program(self, endpoint, pserver_program=None,
                            startup_program=None):
        return self._program(_SERVER, endpoint, True)

    def get_pserver_programs(self, endpoint):
        """The program of a server and its startup program."""
        return (self.get_pserver_program(endpoint),
                self.get_startup_program(endpoint))
