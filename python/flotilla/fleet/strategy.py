"""Strategies: a kind, and settings by name. The library knows both; a name
that it does not know is refused there, with the nearest one."""
from ..compiler import BuildStrategy, ExecutionStrategy


class Strategy:
    """One of the four kinds, or a_sync, with what was set."""

    def __init__(self, kind, **settings):
        self._kind = kind
        self._settings = dict(settings)
        self._build, self._execute = BuildStrategy(), ExecutionStrategy()

    def _words(self):
        return " ".join(f"{k}={_word(v)}" for k, v in self._settings.items())

    def _set_all(self, config):
        given = config if isinstance(config, dict) else vars(config)
        self._settings.update(
            {k: v for k, v in given.items()
             if not k.startswith("_") and v is not None})

    def get_program_config(self):
        return _Config(self)

    get_trainer_runtime_config = get_server_runtime_config = get_program_config

    def set_program_config(self, config):
        self._set_all(config)

    set_trainer_runtime_config = set_server_runtime_config = set_program_config

    def get_build_strategy(self):
        return self._build

    def set_build_strategy(self, config):
        for name, value in (config.items() if isinstance(config, dict) else
                            vars(config).items()):
            setattr(self._build, name, value)

    def get_execute_strategy(self):
        return self._execute

    def set_execute_strategy(self, config):
        for name, value in (config.items() if isinstance(config, dict) else
                            vars(config).items()):
            if not hasattr(self._execute, name):
                raise ValueError(f"ExecutionStrategy doesn't have key: {name}")
            setattr(self._execute, name, value)


class _Config:
    """Settings of a strategy as attributes; setting one sets it there."""

    def __init__(self, strategy):
        object.__setattr__(self, "_strategy", strategy)

    def __setattr__(self, name, value):
        self._strategy._settings[name] = value

    def __getattr__(self, name):
        try:
            return self._strategy._settings[name]
        except KeyError:
            raise AttributeError(f"{name} was not set") from None


def _word(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class StrategyFactory:
    @staticmethod
    def create_sync_strategy():
        return Strategy("sync")

    @staticmethod
    def create_half_async_strategy():
        return Strategy("half_async")

    @staticmethod
    def create_async_strategy():
        return Strategy("async")

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        return Strategy("geo", geo_sgd_need_push_nums=update_frequency)


DistributedStrategyFactory = StrategyFactory


class DistributedStrategy(Strategy):
    """fleet.DistributedStrategy: a_sync and a_sync_configs choose the mode."""

    def __init__(self):
        super().__init__("a_sync")

    @property
    def a_sync(self):
        return self._settings.get("a_sync", False)

    @a_sync.setter
    def a_sync(self, value):
        if not isinstance(value, bool):
            raise ValueError("The type of a_sync is invalid, expected bool")
        self._settings["a_sync"] = value

    @property
    def a_sync_configs(self):
        return {k: v for k, v in self._settings.items() if k != "a_sync"}

    @a_sync_configs.setter
    def a_sync_configs(self, configs):
        self._set_all(configs)

    def __setattr__(self, name, value):
        known = name.startswith("_") or isinstance(
            getattr(type(self), name, None), property)
        if known:
            object.__setattr__(self, name, value)
        else:
            self._settings[name] = value
