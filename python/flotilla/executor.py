"""Running programs."""
import warnings

import numpy as np

from . import _core, feeding, fetched, ir, place, show, tensor
from .data import dump, read


# Among fetches, what is no variable; and errors of feeds, among others.
_OTHERS = list, tuple, ir.Operator
_REFUSALS = TypeError, BufferError, ValueError, _core.NotFoundError


def _flat(fetches):
    """Variables and operators of a list and of lists in it; a tuple is what
    minimize() gives, of which the operators count."""
    for v in fetches:
        if isinstance(v, list):
            yield from _flat(v)
        elif isinstance(v, tuple):
            yield from _updates(v)
        else:
            yield v


def _updates(given):
    """The operators of what minimize() gave."""
    ops = given[0] if given and isinstance(given[0], (list, tuple)) else [None]
    if not all(isinstance(op, ir.Operator) for op in ops):
        raise TypeError("a tuple among the fetches is what minimize() gives, "
                        f"not {given!r}")
    return ops


def _chosen(fetch_list):
    """(names of variables, operators of updates) of a list of fetches."""
    if not fetch_list:
        return (), ()
    if not isinstance(fetch_list, (list, tuple)):
        fetch_list = [fetch_list]
    names = []
    try:
        for v in fetch_list:
            if isinstance(v, _OTHERS):
                return _sorted_out(fetch_list)
            names.append(v if isinstance(v, str) else v.name)
    except AttributeError:
        raise TypeError("fetches are variables, names of variables, or what "
                        f"minimize() gives, not {fetch_list!r}") from None
    return tuple(names), ()


def _sorted_out(fetch_list):
    flat = list(_flat(fetch_list))
    ops = tuple([v for v in flat if isinstance(v, ir.Operator)])
    return tuple([v if isinstance(v, str) else v.name for v in flat
                  if not isinstance(v, ir.Operator)]), ops


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
        kept with or without use_program_cache. With use_prune, or with
        updates among the fetches, only what they need is run, from what is
        fed."""
        if self._handle is None:
            raise RuntimeError("Attempted to use a closed Executor")
        while self._gone:
            _core.executor_forget(self._handle, self._gone.pop())
        program = program or ir.default_main_program()
        scope = scope or tensor.global_scope()
        names, ops = _chosen(fetch_list)
        if use_prune or ops:
            program, feed = self._pruned(program, feed, names, ops)
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
        try:  # as _call does, whose frame is felt in a small step
            found = _core.run(self._handle, program._handle, feed, names,
                              scope._handle, return_numpy)
        except _REFUSALS as e:
            found = self._again(e, _core.run, program, lambda handle: handle,
                                feed, names, scope, return_numpy)
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
        """Runs `runnable(handle of the program)`."""
        try:
            return fn(self._handle, runnable(program._handle), feed, names,
                      scope._handle, as_arrays)
        except _REFUSALS as e:
            return self._again(e, fn, program, runnable, feed, names, scope,
                               as_arrays, n_places)

    def _again(self, first, fn, program, runnable, feed, names, scope,
               as_arrays, n_places=1):
        """Feeds that are not as the library takes them, or as they were
        declared, are seen to when it refuses them, which costs nothing where
        it does not."""
        if feeding.widen(program, getattr(first, "var", None), scope):
            return self._call(fn, program, runnable, feed, names, scope,
                              as_arrays, n_places)
        if not feed:
            raise first
        few, unknown = feeding.known(program, feed)
        if unknown:
            return self._call_without(unknown, first, fn, program, runnable,
                                      few, names, scope, as_arrays, n_places)
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

    def _call_without(self, unknown, first, *call):
        """Runs without feeds that the program does not have, as 1.8 does; where
        others are missing, the names are wrong."""
        try:
            found = self._call(*call)
        except _core.Error:
            raise first from None
        warnings.warn(f"fed and not in the program: {', '.join(unknown)}; "
                      "not declared there, or pruned", stacklevel=5)
        return found

    def _pruned(self, program, feed, names, ops):
        """The program for these fetches and updates, which is kept until it
        changes, and the feeds that it needs."""
        first = feed[0] if isinstance(feed, (list, tuple)) and feed else feed
        feeds = tuple(feeding.named(first)) if first else ()
        whole = getattr(program, "_program", program)
        key = (whole.version, feeds, names,
               tuple([_core.op_tag(op._handle) for op in ops]))
        if key not in program._redeclared:
            program._redeclared[key] = program._with(
                self._prune_program(whole, feeds, names, ops))
        program = program._redeclared[key]
        known = getattr(program, "_program", program).global_block().vars
        if isinstance(feed, dict):
            feed = {k: v for k, v in feeding.named(feed).items() if k in known}
        return program, feed

    def _prune_program(self, program, feeds, names, ops):
        new = program._with_updates(ops) if ops else program.clone()
        updated = [n for op in new.global_block().ops
                   if op._is_optimize_op()
                   for n in op.output_arg_names]
        return new._prune_with_input(feeds, list(names) + updated)

    # --- passes over a dataset ---

    def train_from_dataset(self, program=None, dataset=None, scope=None,
                           thread=0, debug=False, fetch_list=None,
                           fetch_info=None, print_period=100,
                           fetch_handler=None, skip_unused=False):
        """One pass over the data; gives what was seen, as a dict. With
        skip_unused slots that the program does not feed are left out."""
        return self._pass(True, program, dataset, scope, thread, debug,
                          fetch_list, fetch_info, print_period, fetch_handler,
                          skip_unused)

    def infer_from_dataset(self, program=None, dataset=None, scope=None,
                           thread=0, debug=False, fetch_list=None,
                           fetch_info=None, print_period=100,
                           fetch_handler=None, skip_unused=False):
        """One pass over a data set that updates nothing. With skip_unused slots
        that the program does not feed, labels for example, are left out."""
        return self._pass(False, program, dataset, scope, thread, debug,
                          fetch_list, fetch_info, print_period, fetch_handler,
                          skip_unused)

    def _pass(self, trains, program, dataset, scope, thread, debug, fetch_list,
              fetch_info, print_period, handler, skip_unused):
        if dataset is None:
            raise RuntimeError("dataset is need and should be initialized")
        program = program or ir.default_main_program()
        program = getattr(program, "_program", program)
        scope = scope or tensor.global_scope()
        if trains and debug and dump.is_wanted(program._debug):
            return dump.train(self, program, dataset, scope, program._debug)
        names, called, period = _chosen(fetch_list)[0], None, 0.0
        if handler is not None:
            if not isinstance(handler.var_dict, dict):
                raise TypeError("FetchHandler(var_dict) is {name: variable}, "
                                f"not {handler.var_dict!r}")
            keys = list(handler.var_dict)
            names = _chosen(list(handler.var_dict.values()))[0]
            period = float(handler.period_secs)
            print_period = -1  # the handler sees them

            def called(values):
                handler.handler(dict(zip(keys, values)))
        while True:
            try:
                return _core.pass_over(
                    trains, self._handle, program._handle, dataset._handle,
                    thread, names, fetch_info, print_period, called, period,
                    debug, scope._handle, show.Progress(), skip_unused)
            except _core.Error as e:
                if not feeding.widen(program, getattr(e, "var", None), scope):
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
