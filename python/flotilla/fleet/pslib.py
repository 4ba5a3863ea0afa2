"""incubate.fleet.parameter_server.pslib: rows of embeddings with is_distributed
are in tables of the servers, which forget and are looked after by name."""
from .. import ir
from .base import DistributedOptimizer, Fleet, Mode
from .strategy import AsyncStrategy


def _one(given, what):
    """1.8 takes lists, for several programs; a job here has one."""
    if isinstance(given, (list, tuple)):
        if len(given) != 1:
            raise NotImplementedError(f"pslib: a job has one {what}, not "
                                      f"{len(given)}")
        return given[0]
    return given


class PSLib(Fleet):
    def __init__(self):
        super().__init__(Mode.PSLIB)

    def distributed_optimizer(self, optimizer, strategy=None):
        self._ready()
        if isinstance(strategy, dict):
            if strategy:
                raise NotImplementedError(
                    "pslib: a dict of accessors is not taken; an embedding's "
                    "own settings say what its table is, and StrategyFactory "
                    "how the job trains")
            strategy = None
        return DownpourOptimizer(optimizer, strategy, self)

    def save_persistables(self, executor, dirname, main_program=None, **kwargs):
        """mode=1: what changed since the last time."""
        self._check_save("save_persistables", executor, main_program)
        self._save(dirname, kwargs.get("mode", 0))

    def save_model(self, model_dir=None, **kwargs):
        self._save(model_dir, kwargs.get("mode", 0))

    def load_model(self, model_dir=None, **kwargs):
        super().load_model(model_dir)


class DownpourOptimizer(DistributedOptimizer):
    def __init__(self, optimizer, strategy=None, owner=None):
        super().__init__(owner or fleet, optimizer,
                         AsyncStrategy() if strategy is None else strategy)

    def minimize(self, losses, scopes=None, startup_programs=None,
                 parameter_list=None, no_grad_set=None):
        startup = _one(startup_programs, "startup program")
        return super().minimize(_one(losses, "loss"),
                                startup or ir.default_startup_program(),
                                parameter_list, no_grad_set)


fleet = PSLib()
