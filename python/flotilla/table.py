"""Rows by 64-bit id: tables of this process, and those of parameter servers.

    table = fl.Table("users", dim=8, optimizer="adagrad", init="uniform(-1,1)")
    rows = table.pull(ids)                  # [n, 8]
    table.push(ids, gradients, lr=0.1)

The same by servers, which fl.serve runs (or any program of the job):

    with fl.Job("127.0.0.1:6170") as job:
        users = job.table("users", dim=8, optimizer="adagrad")
        job.start()
        users.push(ids, gradients, lr=0.1)
"""
import json

import numpy as np

from . import _core, ir

_START, _STOP, _BARRIER = range(3)
_PULL, _PUSH, _ASSIGN = range(3)


def _words(settings):
    return " ".join(f"{k}={v}" for k, v in settings.items())


def _keys(keys):
    """Ids of any integer type, as the library takes them."""
    array = np.asarray(keys)
    if array.dtype.kind not in "iu":
        raise TypeError(f"keys are whole numbers, not {array.dtype}")
    kind = np.uint64 if array.dtype.kind == "u" else np.int64
    return np.ascontiguousarray(array, kind).view(np.int64)


def _floats(values):
    return np.ascontiguousarray(values, np.float32)


class _Rows:
    """What both kinds of tables do."""

    name = None
    dim = None

    def pull(self, keys, create=True):
        """Values of the keys, [..., dim]; rows of new ones are made, unless
        create is false: then they are zeros."""
        keys = _keys(keys)
        out = np.empty(keys.shape + (self.dim,), np.float32)
        self._pull(keys, out, create)
        return out

    def push(self, keys, gradients, lr, shows=None, clicks=None):
        """Updates the rows by the table's rule; equal keys are added up."""
        more = ()
        if shows is not None or clicks is not None:
            if shows is None or clicks is None:
                raise ValueError("shows and clicks come together")
            more = (_floats(shows), _floats(clicks))
        self._push(float(lr), _keys(keys), _floats(gradients), *more)

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}, rows of {self.dim}>"


class Table(_Rows):
    """A table of this process, which programs with embeddings of its name use
    as well. Settings are those of fl_table_new (docs/formats/words.md): dim,
    init, optimizer and its settings, accessor, entry, ..."""

    def __init__(self, name, dim=None, **settings):
        words = None if dim is None else _words({"dim": dim, **settings})
        if words is None and settings:
            raise ValueError(f"table {name}: to make it, give dim")
        self._handle = _core.table(ir.ctx, name, words)
        self.name, self.dim = name, self.stats()["dim"]

    @staticmethod
    def find(name):
        """One that is there: of a program whose startup program was run, or
        made before."""
        return Table(name)

    def _pull(self, keys, out, create):
        _core.table_pull(self._handle, keys, out, create)

    def _push(self, lr, keys, gradients, *more):
        _core.table_push(self._handle, lr, keys, gradients, *more)

    def assign(self, keys, values):
        """Overwrites values; state and statistics begin anew."""
        _core.table_write(self._handle, _keys(keys), _floats(values), False)

    def add(self, keys, deltas):
        """Adds to values; state and statistics stay."""
        _core.table_write(self._handle, _keys(keys), _floats(deltas), True)

    def remove(self, keys):
        """How many of the keys had a row."""
        return _core.table_remove(self._handle, _keys(keys))

    def clear(self):
        """Removes all rows."""
        _core.table_clear(self._handle)

    def end_day(self, unseen_days=0):
        """A day is over: rows that were not seen for so many are removed (0:
        none), or what the accessor no longer keeps. How many."""
        return _core.table_age(self._handle, unseen_days)

    def dump(self, path):
        """One line of text per row."""
        _core.table_text(self._handle, path, False)

    def load(self, path):
        """What dump has written."""
        _core.table_text(self._handle, path, True)

    def stats(self):
        """name, dim, rows, candidates, refused, bytes, epoch."""
        return _core.table_look(self._handle)

    def __len__(self):
        return self.stats()["rows"]


class RemoteTable(_Rows):
    """A table of a job, dealt over its servers."""

    def __init__(self, job, name, number):
        self._job, self.name, self._number = job, name, number
        self.dim = _core.job_width(job._handle, number, False)

    def _pull(self, keys, out, create):
        _core.job_pull(self._job._handle, self._number, keys, out, create)

    def _push(self, lr, keys, gradients, *more):
        """Returns when all servers have applied it."""
        _core.job_push(self._job._handle, self._number, lr, keys, gradients,
                       *more)

    def assign(self, keys, values):
        """Overwrites values: by one trainer, before training."""
        _core.job_assign(self._job._handle, self._number, _keys(keys),
                         _floats(values))

    def clear(self):
        """Removes all rows."""
        _core.job_forget(self._job._handle, self._number, -1)

    def shrink(self, unseen_days):
        """Removes rows that were not seen for so many days. How many."""
        return _core.job_forget(self._job._handle, self._number, unseen_days)


class RemoteDense:
    """A dense parameter of a job, a vector on one of its servers."""

    def __init__(self, job, name, number):
        self._job, self.name, self._number = job, name, number
        self.size = _core.job_width(job._handle, number, True)

    def _do(self, deed, array):
        _core.job_dense(self._job._handle, deed, self._number, array)
        return array

    def pull(self):
        """The values."""
        return self._do(_PULL, np.empty(self.size, np.float32))

    def push(self, gradient):
        """Gives a gradient to the servers."""
        self._do(_PUSH, _floats(gradient))

    def assign(self, values):
        """Overwrites the values: by one trainer, before training."""
        self._do(_ASSIGN, _floats(values))


class Job:
    """A trainer's handle of a job: what is declared, then start(), then rows
    and parameters. As a context manager it leaves at the end."""

    def __init__(self, servers, n_trainers=1, rank=0):
        self._handle = _core.job_connect(ir.ctx, servers, n_trainers, rank)

    @classmethod
    def of(cls, fleet):
        """That of a fleet, with the tables and parameters of its program."""
        job = cls.__new__(cls)
        job._handle = _core.fleet_job(fleet._ready())
        if job._handle is None:
            raise RuntimeError("a single process has no job; its tables are "
                               "found by Table.find")
        return job

    def table(self, name, dim=None, **settings):
        """A table: declared, or without dim found. Every trainer declares the
        same, in the same order."""
        if dim is None:
            return RemoteTable(self, name, _core.job_find(self._handle, name,
                                                          False))
        words = _words({"dim": dim, **settings})
        return RemoteTable(self, name, _core.job_declare(self._handle, name,
                                                         words))

    def dense(self, name, size=None, optimizer="sgd", **settings):
        """A dense parameter of so many floats, or without size one that was
        declared."""
        if size is None:
            return RemoteDense(self, name, _core.job_find(self._handle, name,
                                                          True))
        return RemoteDense(self, name, _core.job_declare_dense(
            self._handle, name, size, optimizer, _words(settings)))

    def start(self):
        """Waits until all members are there."""
        _core.job_do(self._handle, _START)

    def stop(self):
        """What was pushed is applied, and this trainer leaves."""
        _core.job_do(self._handle, _STOP)

    def barrier(self):
        """Waits for all trainers."""
        _core.job_do(self._handle, _BARRIER)

    def save(self, folder):
        """All of it, as of one moment."""
        _core.job_folder(self._handle, folder, False)

    def load(self, folder):
        """Brings a saved model to the servers."""
        _core.job_folder(self._handle, folder, True)

    def stats(self):
        """What the servers count."""
        return json.loads(_core.job_stats(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()


def serve(servers, n_trainers=1, rank=0, model=None):
    """Runs server `rank` of a job until its trainers have left; with the folder
    of a saved model it begins with that."""
    _core.job_serve(ir.ctx, servers, n_trainers, rank, model)
