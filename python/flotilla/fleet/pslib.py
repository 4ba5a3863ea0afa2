"""incubate.fleet.parameter_server.pslib: rows of embeddings with is_distributed
are in tables of the servers, which forget and are looked after by name."""
from .. import ir, refuse, table
from .base import DistributedOptimizer, Fleet, Mode
from .strategy import AsyncStrategy


_LOOKUPS = ("lookup_table", "lookup_table_v2")


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

    def _save(self, dirname, mode):
        if mode not in (0, 1):
            raise NotImplementedError(
                f"pslib: a model of mode {mode} is not saved; mode=0 saves all "
                "of it, mode=1 what changed, save_inference_model what scores "
                "need")
        super()._save(dirname, mode)

    def load_model(self, model_dir=None, **kwargs):
        super().load_model(model_dir)

    # --- tables ---

    def _tables(self):
        """Names of its tables, in the order of their ids."""
        found = []
        for op in (self._origin_program or self.main_program).global_block().ops:
            if op.type in _LOOKUPS and op.attr("is_distributed"):
                found += [w for w in op.input("W") if w not in found]
        return found

    def _table(self, table_id):
        names = self._tables()
        if not 0 <= table_id < len(names):
            raise ValueError(f"pslib: there is no table {table_id}; tables are "
                             "the embeddings with is_distributed, in their "
                             f"order: {', '.join(names) or 'none here'}")
        if not self._is_job():
            return table.Table.find(names[table_id])
        return table.Job.of(self).table(names[table_id])

    def shrink_sparse_table(self):
        """Ends a day of all tables: counts decay, and rows go that their
        accessor keeps no longer. How many, at worker 0."""
        return self.shrink(0)

    def clear_one_table(self, table_id):
        """Removes the rows of a table."""
        self._by_first(self._table(table_id).clear)

    def clear_model(self):
        """Removes the rows of all tables."""
        for i, _ in enumerate(self._tables()):
            self.clear_one_table(i)

    def _by_first(self, deed):
        """Worker 0 does it while the others wait."""
        self.barrier_worker()
        if self.is_first_worker():
            deed()
        self.barrier_worker()


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


# Of engines that are not here.
_REFUSED = {
    "print_table_stat": "`flotilla status` shows the rows of the servers' "
                        "tables",
    "save_model_with_whitelist": "a model is saved whole, or what changed",
    "save_cache_model": "servers keep what is asked for often by themselves",
    "shrink_dense_table": "sums of data_norm decay by its own setting "
                          "summary_decay_rate",
    "load_pslib_whitelist": "models of pslib are not read",
    "load_one_table": "a model is loaded whole: load_model",
    "save_one_table": "a model is saved whole: save_model",
    "confirm": "updates are applied as they come: save_model is what one goes "
               "back to",
    "revert": "updates are applied as they come: load_model goes back",
    "set_pull_local_thread_num": "rows are pulled by the threads that train",
}

refuse.add(PSLib, "pslib.fleet", _REFUSED)

fleet = PSLib()
