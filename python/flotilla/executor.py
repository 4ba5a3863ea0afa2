"""Running programs."""
import numpy as np

from . import _core, ir, tensor, types
from .data import read


def _contiguous(value, var):
    """A fed value as the library takes it: numbers in a row, of a type that
    there is. Lists become arrays of the variable's type."""
    if hasattr(value, "_fed"):
        return value._fed()
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    dtype = types.to_numpy(var.dtype) if var is not None else None
    return np.ascontiguousarray(np.asarray(value, dtype=dtype))


class Executor:
    """Runs programs; plans are kept, so the second run of one is quick."""

    def __init__(self, place=None):
        self.place = place or tensor.CPUPlace()
        self._handle = _core.executor_new(ir.ctx)

    def close(self):
        """Gives back what it keeps."""
        self._handle = None

    def run(self, program=None, feed=None, fetch_list=None,
            feed_var_name="feed", fetch_var_name="fetch", scope=None,
            return_numpy=True, use_program_cache=False, return_merged=True,
            use_prune=False):
        """What `fetch_list` names, after one run of the program."""
        if self._handle is None:
            raise RuntimeError("this Executor was closed")
        program = program or ir.default_main_program()
        scope = scope or tensor.global_scope()
        names = self._names(fetch_list)
        if not isinstance(program, ir.Program):
            return program._run(self, feed, names, scope, return_numpy,
                                return_merged)
        return self._run_program(program, feed, names, scope, return_numpy)

    def _run_program(self, program, feed, names, scope, return_numpy):
        if isinstance(feed, (list, tuple)):
            feed = self._only(feed)
        if program._readers:
            feed, = read.next_feeds(program, feed)
        found = self._call(_core.run, program._handle, program, feed, names,
                           scope, return_numpy)
        return found if return_numpy else [tensor.as_value(t) for t in found]

    @staticmethod
    def _only(feeds):
        """The feed of a list, as loaders give them."""
        if len(feeds) != 1:
            raise ValueError(f"{len(feeds)} feeds for a program that is not "
                             "compiled with data parallel; it takes one")
        return feeds[0]

    def _call(self, fn, handle, program, feed, names, scope, as_arrays):
        """Runs it; feeds that are not as the library takes them are made so
        when it says so, which costs nothing where they are."""
        try:
            return fn(self._handle, handle, feed, names, scope._handle,
                      as_arrays)
        except (TypeError, BufferError, ValueError):
            ready = self._prepare(program, feed)
            if ready is None:
                raise
        return fn(self._handle, handle, ready, names, scope._handle, as_arrays)

    def _names(self, fetch_list):
        if not fetch_list:
            return ()
        if not isinstance(fetch_list, (list, tuple)):
            fetch_list = [fetch_list]
        return tuple([v if isinstance(v, str) else v.name for v in fetch_list])

    def _prepare(self, program, feed):
        """Feeds as the library takes them: plain arrays of variables that are
        data. None when all are."""
        if isinstance(feed, tuple):
            ready = [self._prepare(program, f) for f in feed]
            if all(r is None for r in ready):
                return None
            return tuple(r or f for r, f in zip(ready, feed))
        if not isinstance(feed, dict):
            if feed:
                raise TypeError("feed is a dict of names and values, not "
                                f"{type(feed)}")
            return None
        block = program.global_block()
        named = {getattr(k, "name", k): v for k, v in feed.items()}
        vars = {k: block._find(k) for k in named}
        ready = {k: _contiguous(v, vars[k]) for k, v in named.items()}
        same = all(ready[k] is v for k, v in named.items())
        for v in vars.values():
            if v is not None and v._exists() and not v.is_data:
                v._change(is_data=True)
                same = False
        return None if same else ready

    # --- passes over a dataset ---

    def train_from_dataset(self, program=None, dataset=None, scope=None,
                           thread=0, debug=False, fetch_list=None,
                           fetch_info=None, print_period=100,
                           fetch_handler=None):
        """One pass over the data; gives what was seen, as a dict."""
        return self._pass(True, program, dataset, scope, thread, debug,
                          fetch_list, fetch_info, print_period, fetch_handler)

    def infer_from_dataset(self, program=None, dataset=None, scope=None,
                           thread=0, debug=False, fetch_list=None,
                           fetch_info=None, print_period=100,
                           fetch_handler=None):
        """The same without updating anything."""
        return self._pass(False, program, dataset, scope, thread, debug,
                          fetch_list, fetch_info, print_period, fetch_handler)

    def _pass(self, trains, program, dataset, scope, thread, debug, fetch_list,
              fetch_info, print_period, handler):
        if dataset is None:
            raise RuntimeError("dataset is need and should be initialized")
        program = program or ir.default_main_program()
        program = getattr(program, "_program", program)
        names, called, period = self._names(fetch_list), None, 0.0
        if handler is not None:
            keys = list(handler.var_dict)
            names = self._names(list(handler.var_dict.values()))
            period = float(handler.period_secs)

            def called(values):
                handler.handler(dict(zip(keys, values)))
        return _core.pass_over(trains, self._handle, program._handle,
                               dataset._handle, thread, names, fetch_info,
                               print_period, called, period, debug,
                               (scope or tensor.global_scope())._handle)


class FetchHandler:
    """A user's class has handler(values): called every period_secs with
    {name: array} of var_dict."""

    def __init__(self, var_dict=None, period_secs=60):
        if var_dict is None:
            raise AssertionError("FetchHandler needs a var_dict")
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict):
        for name, value in res_dict.items():
            print(f"{name}[0]: {value[0]} ")
