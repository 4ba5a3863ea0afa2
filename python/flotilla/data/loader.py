"""DataLoader and PyReader: batches of Python generators, read ahead.

One that is iterable gives feeds. One that is not belongs to its program: after
start() a run takes its next batch from it, and raises EOFException at the end.
"""
import numpy as np

from .. import ir
from ..tensor import LoDTensor
from .feeder import DataFeeder
from .reader import batch as batch_reader
from .reader import buffered


class EOFException(Exception):
    """There is no more data."""


class DataLoader:
    @staticmethod
    def from_generator(feed_list=None, capacity=None, use_double_buffer=True,
                       iterable=True, return_list=False,
                       use_multiprocess=False, drop_last=True):
        return GeneratorLoader(feed_list, capacity, iterable, return_list)

    @staticmethod
    def from_dataset(dataset, places, drop_last=True):
        return dataset._loader(drop_last)


def _as_batch(values):
    """A value of a batch generator as it is fed."""
    return values if isinstance(values, LoDTensor) else np.asarray(values)


class DataLoaderBase:
    """What loaders of all kinds are."""


class GeneratorLoader(DataLoaderBase):
    def __init__(self, feed_list, capacity, iterable, return_list=False):
        if not capacity or capacity < 1:
            raise ValueError(f"Please give value to capacity: {capacity!r}")
        self._vars = list(feed_list or [])
        self._names = [v.name for v in self._vars]
        self._capacity = capacity
        self._iterable = iterable
        self._return_list = return_list
        self._batches = None
        self._running = None
        if not iterable:
            self._program().setdefault(id(self), self)

    @property
    def iterable(self):
        return self._iterable

    def _program(self):
        return ir.default_main_program()._loaders

    # --- where data comes from ---

    def set_sample_generator(self, reader, batch_size, drop_last=True,
                             places=None):
        def lists():
            for sample in reader():
                yield sample if isinstance(sample, (list, tuple)) else [sample]

        return self.set_sample_list_generator(
            batch_reader(lists, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader, places=None):
        feeder = DataFeeder(self._vars, program=self._vars[0].block.program)

        def fed():
            for rows in reader():
                yield feeder.feed(rows)

        self._batches = fed
        return self

    def set_batch_generator(self, reader, places=None):
        def fed():
            for values in reader():
                if isinstance(values, dict):
                    yield values
                    continue
                if not isinstance(values, (list, tuple)):
                    values = [values]
                yield dict(zip(self._names, map(_as_batch, values)))

        self._batches = fed
        return self

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_paddle_reader = set_sample_list_generator
    decorate_batch_generator = set_batch_generator
    decorate_tensor_provider = set_batch_generator

    # --- iterable ---

    def __iter__(self):
        if not self._iterable:
            raise AssertionError("DataLoader is not iterable")
        if self._batches is None:
            raise AssertionError("Data source of DataLoader has not set yet")
        for feed in buffered(self._batches, self._capacity)():
            yield [feed] if not self._return_list else list(feed.values())

    __call__ = __iter__

    # --- not iterable ---

    def start(self):
        if self._iterable:
            raise AssertionError("start() cannot be called when DataLoader is "
                                 "iterable")
        if self._batches is None:
            raise AssertionError("Data source of DataLoader has not set yet")
        self._running = iter(buffered(self._batches, self._capacity)())

    def reset(self):
        if self._iterable:
            raise AssertionError("reset() cannot be called when DataLoader is "
                                 "iterable")
        self._running = None

    def _next(self):
        """The next batch, for a run; None when it was not started."""
        if self._running is None:
            return None
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            raise EOFException("There is no next data.") from None


class PyReader(GeneratorLoader):
    def __init__(self, feed_list=None, capacity=None, use_double_buffer=True,
                 iterable=True, return_list=False):
        super().__init__(feed_list, capacity, iterable, return_list)
