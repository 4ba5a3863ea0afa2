"""Running programs."""
import numpy as np

from . import _core, feeding, fetched, ir, place, show, tensor
from .data import read


def _flat(fetches):
    """Variables of a list and of lists in it; tuples are updates."""
    for v in fetches:
        if isinstance(v, list):
            yield from _flat(v)
        elif not isinstance(v, tuple):
            yield v


class Executor:
    """Runs programs; plans are kept, so the second run of one is quick."""

    def __init__(self, place=None):
        self.place = place or tensor.CPUPlace()
        self._handle = _core.executor_new(ir.ctx)
        self._gone = []  # numbers of programs that are no more
        ir.executors.add(self)

    def close(self):
        """Gives back what it keeps."""
        self._handle = None

    def run(self, program=None, feed=None, fetch_list=None,
            feed_var_name="feed", fetch_var_name="fetch", scope=None,
            return_numpy=True, use_program_cache=False, return_merged=True,
            use_prune=False):
        """What `fetch_list` names, after one run of the program. Plans are
        kept with or without use_program_cache; operators that nothing needs
        do not run with or without use_prune."""
        if self._handle is None:
            raise RuntimeError("Attempted to use a closed Executor")
        while self._gone:
            _core.executor_forget(self._handle, self._gone.pop())
        program = program or ir.default_main_program()
        scope = scope or tensor.global_scope()
        names = self._names(fetch_list)
        program = self._with_updates(program, fetch_list)
        try:
            if isinstance(program, ir.Program):
                return self._run_program(program, feed, names, scope,
                                         return_numpy)
            if not hasattr(program, "_run"):
                raise TypeError("Executor requires Program as its Parameter. "
                                f"But you passed in {type(program)}")
            return program._run(self, feed, names, scope, return_numpy,
                                return_merged)
        except _core.Error as e:
            place.name_lines(e, getattr(program, "_program", program))
            raise

    def _run_program(self, program, feed, names, scope, return_numpy):
        if isinstance(feed, (list, tuple)):
            feed = self._only(feed)
        if program._readers:
            feed, = read.next_feeds(program, feed)
        if feed is not None:
            feeding.expect_dict(feed)
        found = self._call(_core.run, program, lambda handle: handle, feed,
                           names, scope, return_numpy)
        if return_numpy:
            return fetched.values(found)
        return [tensor.as_value(t) for t in found]

    @staticmethod
    def _only(feeds):
        """The feed of a list, as loaders give them."""
        if len(feeds) != 1:
            raise ValueError(f"{len(feeds)} feeds for a program that is not "
                             "compiled with data parallel; it takes one")
        feed = feeds[0]
        feeding.expect_dict(feed)
        return dict(zip(feed, read.ready(feed.values())))

    def _call(self, fn, program, runnable, feed, names, scope, as_arrays,
              n_places=1):
        """Runs `runnable(handle of the program)`. Feeds that are not as the
        library takes them, or as they were declared, are seen to when it
        refuses them, which costs nothing where it does not."""
        try:
            return fn(self._handle, runnable(program._handle), feed, names,
                      scope._handle, as_arrays)
        except (TypeError, BufferError, ValueError) as e:
            if not feed:
                raise
            first = e
        ready = feeding.prepare(program, feed)
        feeding.check(program, ready, n_places)
        ready = feeding.put_written(program, ready, scope)
        is_same = not feeding.changed(feed, ready)
        try:
            handle = feeding.redeclared(program, ready)
        except (_core.Error, TypeError):
            raise first from None
        if is_same and handle is None:
            raise first
        try:
            return fn(self._handle, runnable(handle or program._handle), ready,
                      names, scope._handle, as_arrays)
        except _core.Error as e:
            raise (first if is_same else e) from None

    def _names(self, fetch_list):
        if not fetch_list:
            return ()
        if not isinstance(fetch_list, (list, tuple)):
            fetch_list = [fetch_list]
        return tuple([v if isinstance(v, str) else v.name
                      for v in _flat(fetch_list)])

    @staticmethod
    def _with_updates(program, fetch_list):
        """The program with the updates alone that minimize() gave, if what it
        gave is among the fetches: (operators, ...) tuples."""
        chosen = [v for v in fetch_list if isinstance(v, tuple)] if isinstance(
            fetch_list, (list, tuple)) else []
        if not chosen:
            return program
        ops = [op for pair in chosen for op in pair[0]]
        if not all(isinstance(op, ir.Operator) for op in ops):
            raise TypeError("a tuple among the fetches is what minimize() "
                            f"gives, not {chosen[0]!r}")
        if not isinstance(program, ir.Program):
            raise NotImplementedError("updates of a CompiledProgram cannot be "
                                      "chosen among: fetch variables alone")
        return program._with_updates(ops)

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
        """One pass over a data set that updates nothing."""
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
            print_period = -1  # the handler sees them

            def called(values):
                handler.handler(dict(zip(keys, values)))
        try:
            return _core.pass_over(trains, self._handle, program._handle,
                                   dataset._handle, thread, names, fetch_info,
                                   print_period, called, period, debug,
                                   (scope or tensor.global_scope())._handle,
                                   show.Progress())
        except _core.Error as e:
            place.name_lines(e, program)
            raise


class FetchHandler:
    """A user's class has handler(values): called every period_secs with
    {name: array} of var_dict."""

    def __init__(self, var_dict=None, period_secs=60):
        if var_dict is None:
            raise AssertionError("FetchHandler needs a var_dict")
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict):
        """Called with the values; whoever inherits writes it."""
        for name, value in res_dict.items():
            print(f"{name}[0]: {value[0]} ")

    @staticmethod
    def help():
        """Prints how to write one."""
        print("""class FetchHandlerExample(FetchHandler):
    def handler(self, res_dict):
        print(res_dict["auc"])

exe.train_from_dataset(program, dataset, fetch_handler=FetchHandlerExample(
    var_dict={"auc": auc}, period_secs=60))""")


def _fetch_var(name, scope=None, return_numpy=True):
    """The value of a variable of a scope."""
    if not isinstance(name, str):
        raise TypeError(f"a name of a variable is a str, not {name!r}")
    scope = scope or tensor.global_scope()
    var = scope.find_var(name)
    if var is None:
        raise ValueError(f"Cannot find {name} in scope. Perhaps you need to "
                         "make the variable persistable by using "
                         "var.persistable = True in your program.")
    value = var._value()
    return np.array(value) if return_numpy else value
