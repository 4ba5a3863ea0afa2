"""Flags of PaddlePaddle: which are settings here, and what the others say."""
from . import _core, ir, near

# Fluid's flags that are settings here.
_FLAGS = {"FLAGS_check_nan_inf": "check_nan_inf",
          "FLAGS_paddle_num_threads": "num_threads"}


def _known(flag, what):
    if flag not in _globals or flag in _globals._fixed:
        raise ValueError(f"Flag {flag} cannot {what} its value through this "
                         f"function{near.hint(flag, _globals)}")
    return flag


def set_flags(flags):
    """Sets flags, {name: value}."""
    if not isinstance(flags, dict):
        raise TypeError("flags in set_flags should be a dict")
    for name, value in flags.items():
        _globals[_known(name, "set")] = value


def get_flags(flags):
    """{name: value} of one flag or several."""
    names = [flags] if isinstance(flags, str) else flags
    if not isinstance(names, (list, tuple)):
        raise TypeError("Flags in get_flags should be a list, tuple or string.")
    return {n: _globals[_known(n, "get")] for n in names}


class _Globals:
    """Flags by their names, as core.globals() gives them: those that are
    settings here, and some that say how 1.8 keeps memory and shares work, which
    are numbers that are kept and nothing more, since memory is planned before
    the first run."""

    def __init__(self):
        self._kept = {"FLAGS_eager_delete_tensor_gb": 0.0,
                      "FLAGS_memory_fraction_of_eager_deletion": 1.0,
                      "FLAGS_fast_eager_deletion_mode": True,
                      "FLAGS_enable_parallel_graph": False}
        self._fixed = {"FLAGS_use_mkldnn": False}

    def keys(self):
        """Names of flags."""
        return {*_FLAGS, *self._kept, *self._fixed}

    def __contains__(self, name):
        return name in self.keys()

    def __iter__(self):
        return iter(self.keys())

    def __getitem__(self, name):
        if name in _FLAGS:
            text = _core.ctx_get(ir.ctx, _FLAGS[name])
            return text == "true" if text in ("true", "false") else int(text)
        if name not in self:
            raise KeyError(f"there is no flag {name}"
                           f"{near.hint(name, self.keys())}")
        return {**self._kept, **self._fixed}[name]

    def get(self, name, default=None):
        """The value of a flag, or the default."""
        return self[name] if name in self else default

    def __setitem__(self, name, value):
        if name in self._fixed:
            raise RuntimeError(f"flag {name} cannot be changed here")
        if name in _FLAGS:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            _core.ctx_set(ir.ctx, _FLAGS[name], text)
        else:
            self._kept[name] = type(self[name])(value)


_globals = _Globals()


def globals():
    """Flags by their names, to look at and to change."""
    return _globals


def _set_eager_deletion_mode(threshold, fraction, fast):
    """What 1.8 keeps of temporaries; here memory is planned before the first
    run."""
    for name, value in (("eager_delete_tensor_gb", threshold),
                        ("memory_fraction_of_eager_deletion", fraction),
                        ("fast_eager_deletion_mode", fast)):
        _globals[f"FLAGS_{name}"] = value
