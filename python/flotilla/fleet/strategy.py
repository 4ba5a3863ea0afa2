"""Strategies: a kind of training, and what was set about it. The library knows
both; a name that it does not know is refused there, with the nearest one."""
import logging
import os

from .. import show
from ..compiler import BuildStrategy, ExecutionStrategy
from ..data import dump
from ..optimizer import RecomputeOptimizer
from .config import (OF_WIRE, DistributedMode, DistributeTranspilerConfig,
                     ServerRuntimeConfig, TrainerRuntimeConfig)


def _word(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _words(settings):
    return " ".join(f"{k}={_word(v)}" for k, v in settings.items())


# How products with weights are computed, unless somebody says otherwise: names
# of the library's own, which any strategy may have.
_PRECISION = {"precision": "f32", "precision_allow": "", "precision_deny": ""}


class Strategy:
    """What every strategy says: its kind in a fleet, and its settings in
    words."""

    def _kind_in(self, fleet):
        raise NotImplementedError

    def _words_in(self, fleet):
        raise NotImplementedError

    def _checkpoints(self):
        """What is kept of the way there while the rest is computed again;
        None: everything is."""
        return None

    def _around(self, optimizer):
        """The optimizer that the strategy makes of one."""
        checkpoints = self._checkpoints()
        if checkpoints is None:
            return optimizer
        if isinstance(optimizer, RecomputeOptimizer):
            raise ValueError("a RecomputeOptimizer computes again already; "
                             "give its own optimizer, or switch it off in the "
                             "strategy")
        made = RecomputeOptimizer(optimizer)
        made._set_checkpoints(checkpoints)
        return made

    def _repr_html_(self):
        rows = {}
        for name, value in vars(self).items():
            parts = getattr(value, "__dict__", None)
            name = name.strip("_")
            rows.update({name: value} if parts is None else
                        {f"{name}.{k}": v for k, v in parts.items()})
        return show.settings(type(self).__name__, rows)


# --- 1.8: one class per mode -------------------------------------------------

class _Part:
    """One of the objects that a strategy is made of: got, set as an object of
    its class, or changed by a dict."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind

    def set(self, strategy, config):
        if isinstance(config, self.kind):
            setattr(strategy, self.name, config)
            return
        if not isinstance(config, dict):
            raise TypeError(f"{self.name[1:]} only accept input type: dict or "
                            f"{self.kind.__name__}, not {type(config)}")
        mine = getattr(strategy, self.name)
        into = getattr(mine, "runtime_configs", None)
        for key, value in config.items():
            if not (key in into if into is not None else hasattr(mine, key)):
                raise ValueError(f"{self.kind.__name__} doesn't have key: "
                                 f"{key}")
            if into is not None:
                into[key] = value
            else:
                setattr(mine, key, value)


_PROGRAM = _Part("_program_config", DistributeTranspilerConfig)
_TRAINER = _Part("_trainer_runtime_config", TrainerRuntimeConfig)
_SERVER = _Part("_server_runtime_config", ServerRuntimeConfig)
_EXECUTE = _Part("_execute_strategy", ExecutionStrategy)
_BUILD = _Part("_build_strategy", BuildStrategy)


class ModeStrategy(Strategy):
    """One of the four modes of jobs with servers."""

    _mode = _name = None

    def __init__(self):
        n = int(os.getenv("CPU_NUM", "1"))
        for part in (_PROGRAM, _TRAINER, _SERVER, _EXECUTE, _BUILD):
            setattr(self, part.name, part.kind())
        for name, value in _PRECISION.items():
            setattr(self, name, value)
        self._execute_strategy.num_threads = n
        if n > 1:
            self._build_strategy.reduce_strategy = \
                BuildStrategy.ReduceStrategy.Reduce
        self.debug_opt = None
        self._check()

    def _check(self):
        """The switches that say the mode are as the class says."""
        if self._mode is None:
            raise NotImplementedError("StrategyFactory makes strategies; this "
                                      "class is what they have in common")
        self._trainer_runtime_config.mode = self._mode
        config = self._program_config
        config.sync_mode = False
        config.runtime_split_send_recv = True
        config.half_async = self._mode in (DistributedMode.SYNC,
                                           DistributedMode.HALF_ASYNC)
        config.completely_not_async = self._mode == DistributedMode.SYNC
        config.geo_sgd_mode = self._mode == DistributedMode.GEO
        self._execute_strategy.use_thread_barrier = config.half_async
        self._build_strategy.async_mode = True

    def _kind_in(self, fleet):
        return self._name

    def _words_in(self, fleet):
        trainer = self._trainer_runtime_config._changed()
        if self._mode != DistributedMode.ASYNC:
            unused = [n for n in trainer if n not in OF_WIRE]
            if unused:
                logging.getLogger("flotilla").warning(
                    "mode %s has no use for %s", self._name, ", ".join(unused))
            trainer = {n: v for n, v in trainer.items() if n in OF_WIRE}
        return _words({**self._program_config._changed(self._name), **trainer,
                       **self._server_runtime_config._changed(),
                       **self._precision()})

    def _precision(self):
        return {n: getattr(self, n) for n, first in _PRECISION.items()
                if getattr(self, n) != first}

    # --- its parts ---

    def get_program_config(self):
        return self._program_config

    def set_program_config(self, config):
        _PROGRAM.set(self, config)
        self._check()

    def get_trainer_runtime_config(self):
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config):
        _TRAINER.set(self, config)
        self._check()

    def get_server_runtime_config(self):
        return self._server_runtime_config

    def set_server_runtime_config(self, config):
        _SERVER.set(self, config)

    def get_execute_strategy(self):
        return self._execute_strategy

    def set_execute_strategy(self, config):
        _EXECUTE.set(self, config)
        self._check()

    def get_build_strategy(self):
        return self._build_strategy

    def set_build_strategy(self, config):
        _BUILD.set(self, config)
        self._check()

    def set_debug_opt(self, opt_info):
        """What train_from_dataset writes down when debug is said."""
        self.debug_opt = dump.options(opt_info or {})

    def get_debug_opt(self):
        return dict(self.debug_opt or {})


class SyncStrategy(ModeStrategy):
    _mode, _name = DistributedMode.SYNC, "sync"


class AsyncStrategy(ModeStrategy):
    _mode, _name = DistributedMode.ASYNC, "async"


class HalfAsyncStrategy(ModeStrategy):
    _mode, _name = DistributedMode.HALF_ASYNC, "half_async"


class GeoStrategy(ModeStrategy):
    _mode, _name = DistributedMode.GEO, "geo"

    def __init__(self, update_frequency=100):
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency


class StrategyFactory:
    """Strategies by name."""

    @staticmethod
    def create_sync_strategy():
        """Workers wait for each other in each step."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy():
        """Workers send what all of their threads found."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy():
        """Workers do not wait for each other."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        """Workers train on their own and exchange differences, every so many
        batches."""
        return GeoStrategy(update_frequency)


DistributedStrategyFactory = StrategyFactory
_BY_NAME = {c._name: c for c in (SyncStrategy, AsyncStrategy,
                                 HalfAsyncStrategy, GeoStrategy)}


def of_config(config):
    """The strategy that a DistributeTranspilerConfig means."""
    made = _BY_NAME[config._kind()]()
    made._program_config = config
    return made


def _checked(checkpoints, where):
    if not isinstance(checkpoints, (list, tuple)) or not checkpoints:
        raise ValueError(f"{where} should be a list of the variables that are "
                         f"kept, not {checkpoints!r}")
    return checkpoints


# --- 2.x: one class for all --------------------------------------------------

class DistributedStrategy(Strategy):
    """fleet.DistributedStrategy: a_sync and a_sync_configs choose the mode
    with servers; without them the switches of collective jobs count."""

    # Groups of settings, each a dict; they go to the library by their names.
    _GROUPS = ("a_sync_configs", "gradient_merge_configs", "localsgd_configs",
               "amp_configs", "recompute_configs", "dgc_configs",
               "lars_configs", "lamb_configs", "pipeline_configs",
               "sharding_configs", "adaptive_localsgd_configs")
    # Unless somebody says otherwise; what is not here is off.
    _FIRST = {"a_sync": True, "fuse_all_reduce_ops": True, "wire_pull": "f32",
              "wire_push": "f32", **_PRECISION}
    _HERE = ("recompute", "recompute_configs")  # Python sees to them

    def __init__(self):
        object.__setattr__(self, "_settings", {})
        object.__setattr__(self, "build_strategy", BuildStrategy())
        object.__setattr__(self, "execution_strategy", ExecutionStrategy())

    def __setattr__(self, name, value):
        kept = {"build_strategy": BuildStrategy,
                "execution_strategy": ExecutionStrategy}
        if name in kept:
            if not isinstance(value, kept[name]):
                raise TypeError(f"{name} is a {kept[name].__name__}, not "
                                f"{type(value)}")
            object.__setattr__(self, name, value)
        elif name in self._GROUPS:
            if not isinstance(value, dict):
                raise TypeError(f"{name} is a dict, not {type(value)}")
            self._settings.setdefault(name, {}).update(value)
        else:
            if name == "a_sync" and not isinstance(value, bool):
                raise ValueError("The type of a_sync is invalid, expected bool"
                                 f", not {type(value)}")
            self._settings[name] = value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._GROUPS:
            return dict(self._settings.get(name, {}))
        return self._settings.get(name, self._FIRST.get(name, False))

    def _kind_in(self, fleet):
        return "a_sync" if fleet.server_num() else "collective"

    def _words_in(self, fleet):
        """What is as it would be without a word is left out; so are settings
        of the other kind of job."""
        servers = bool(fleet.server_num())
        flat = {}
        for name, value in self._settings.items():
            if isinstance(value, dict):
                if self._counts(name, servers):
                    flat.update({f"{name}.{k}": v for k, v in value.items()})
            elif (self._counts(name, servers) and
                  value != self._FIRST.get(name, False)):
                flat[name] = value
        return _words(flat)

    def _checkpoints(self):
        if not self.recompute:
            return None
        return _checked(self.recompute_configs.get("checkpoints"),
                        'recompute_configs["checkpoints"]')

    def _counts(self, name, servers):
        """a_sync is nothing to workers alone, and the settings of something
        that is switched off are nothing to anybody."""
        if name in self._HERE:
            return False
        if name.startswith("a_sync"):
            return servers
        switch = name[:-len("_configs")] if name in self._GROUPS else None
        return switch is None or bool(self._settings.get(switch))


# --- 1.8: workers alone ------------------------------------------------------

class CollectiveStrategy(BuildStrategy, Strategy):
    """DistributedStrategy of incubate.fleet.collective."""

    _MODES = (None, "local_sgd", "grad_allreduce")

    def __init__(self):
        super().__init__()
        self.__dict__.update(
            use_local_sgd=False, use_dist_fc=False, dist_fc_config=None,
            mode="nccl2", collective_mode=None, nccl_comm_num=1,
            forward_recompute=False, recompute_checkpoints=[], use_amp=False,
            amp_loss_scaling=2 ** 15, exec_strategy=ExecutionStrategy(),
            _ut4grad_allreduce=False)

    def _kind_in(self, fleet):
        return "collective"

    def _words_in(self, fleet):
        if self.collective_mode not in self._MODES:
            raise ValueError("collective_mode is local_sgd or grad_allreduce, "
                             f"not {self.collective_mode!r}")
        local = self.use_local_sgd or self.collective_mode == "local_sgd"
        refused = ("use_dist_fc", "use_amp")
        return _words({**({"localsgd": True} if local else {}),
                       **{k: True for k in refused if getattr(self, k)}})

    def _checkpoints(self):
        if not self.forward_recompute:
            return None
        return _checked(self.recompute_checkpoints, "recompute_checkpoints")
