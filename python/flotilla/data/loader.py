"""DataLoader and PyReader: batches of Python generators, read ahead.

One that is iterable gives feeds. One that is not belongs to its program: after
start() a run takes its next batch from it, and raises EOFException at the end.
"""
import logging

import numpy as np

from .. import ir
from ..tensor import CPUPlace, LoDTensor
from . import read, samples
from .batches import BatchQueue, EOFException
from .dataset import DatasetBase
from .feeder import batch_of, batches_of
from .process import gather
from .reader import batch as batch_reader

_keeps_order = True


def keep_data_loader_order(*args):
    """Whether batches must come in the order of their making. They do, whether
    they must or not."""
    global _keeps_order
    if not args:
        return _keeps_order
    _keeps_order, = args


def check_array(value):
    """Numbers of a batch as an array that can be fed."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths, for a newer numpy
        array = None
    if array is None or array.dtype == np.object_:
        raise TypeError(
            "a batch has rows of different lengths, or what is no number; "
            "sequences are fed as a LoDTensor, see fluid.create_lod_tensor")
    return array


def _tensor(value):
    if isinstance(value, LoDTensor):
        return value
    t = LoDTensor()
    t.set(check_array(value))
    return t


class DataLoaderBase:
    """What loaders of all kinds are."""

    def __call__(self):
        return self

    def next(self):
        """The next batch."""
        return self.__next__()

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __next__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __next__")


# Batches that wait for a loop over a data set, for each worker.
_AHEAD = 2


class DataLoader:
    """Batches of a data set whose samples have numbers; the methods below are
    loaders of other kinds. A thread reads ahead and processes send through
    pipes, whatever use_buffer_reader and use_shared_memory say."""

    def __init__(self, dataset, feed_list=None, places=None, return_list=False,
                 batch_sampler=None, batch_size=1, shuffle=False,
                 drop_last=False, collate_fn=None, num_workers=0,
                 use_buffer_reader=True, use_shared_memory=True, timeout=0,
                 worker_init_fn=None):
        if not return_list and feed_list is None:
            raise AssertionError("feed_list should be set when "
                                 "return_list=False")
        if num_workers < 0 or timeout < 0:
            raise AssertionError("num_workers and timeout should be "
                                 f"non-negative: {num_workers}, {timeout}")
        if batch_sampler is None:
            batch_sampler = samples.BatchSampler(
                dataset, shuffle=shuffle, batch_size=batch_size,
                drop_last=drop_last)
        elif batch_size != 1 or shuffle or drop_last:
            raise AssertionError("batch_size/shuffle/drop_last should not be "
                                 "set when batch_sampler is given")
        self.batch_sampler = batch_sampler
        self._batches = samples.Batches(dataset, batch_sampler, collate_fn)
        self._names = [v.name for v in feed_list or ()]
        self._n_places = (len(places) if isinstance(places, (list, tuple))
                          else 1)
        self._return_list = return_list
        self._workers = (num_workers, worker_init_fn)
        self._seconds = timeout or None

    def __len__(self):
        return len(self._batches)

    def _take(self, queue):
        found = [[_tensor(v) for v in batch]
                 for batch in queue.take(self._n_places, False)]
        if self._return_list:
            return found
        return [dict(zip(self._names, batch)) for batch in found]

    def __iter__(self):
        n, init_fn = self._workers
        source = (self._batches.here if not n else
                  lambda: self._batches.by_workers(n, init_fn))
        return samples.SampleIterator(source, self._take,
                                      _AHEAD * max(n, self._n_places),
                                      self._seconds)

    __call__ = __iter__

    @staticmethod
    def from_generator(feed_list=None, capacity=None, use_double_buffer=True,
                       iterable=True, return_list=False,
                       use_multiprocess=False, drop_last=True):
        """A loader that a generator fills."""
        loader = GeneratorLoader(feed_list, capacity, use_double_buffer,
                                 iterable, return_list, drop_last)
        loader._in_process = use_multiprocess
        return loader

    @staticmethod
    def from_dataset(dataset, places, drop_last=True):
        """A loader of a data set's batches."""
        return DatasetLoader(dataset, places, drop_last)

    @staticmethod
    def from_frame(feed_list, frame, batch_size, drop_last=True):
        """Of columns that have the names of the variables."""
        from .frame import from_frame
        return from_frame(feed_list, frame, batch_size, drop_last)

    @staticmethod
    def from_parquet(feed_list, paths, batch_size, drop_last=True):
        """Of columns of Parquet files with the names of the variables."""
        from .frame import from_parquet
        return from_parquet(feed_list, paths, batch_size, drop_last)


class GeneratorLoader(DataLoaderBase):
    _check_input_array = staticmethod(check_array)

    def __init__(self, feed_list=None, capacity=None, use_double_buffer=True,
                 iterable=True, return_list=False, drop_last=True):
        if not capacity or capacity < 1:
            raise ValueError(f"Please give value to capacity: {capacity!r}")
        if not feed_list:
            raise ValueError("Feed list must be given: the variables that a "
                             "batch is for")
        self._vars = list(feed_list)
        self._names = [v.name for v in self._vars]
        self._iterable, self._return_list = iterable, return_list
        self._drop_last = drop_last
        self._in_process = False
        self._source = None
        self._places = [CPUPlace()]
        self._queue = BatchQueue(
            capacity, f"the loader of {', '.join(self._names)}")
        if not iterable:
            self._append_read(use_double_buffer)

    def _append_read(self, use_double_buffer):
        """The operators that stand for it in the program; where the order of
        batches does not matter, the reader is made by the startup program."""
        queue_name, reader_name, ahead_name = read.loader_names()
        main = ir.default_main_program().current_block()
        slots = read.slots_of(self._vars)
        if _keeps_order:
            reader = read.create_reader(main, queue_name, reader_name,
                                        self._queue, slots)
        else:
            startup = ir.default_startup_program().current_block()
            read.create_reader(startup, queue_name, reader_name, self._queue,
                               slots)
            reader = read.ReaderVar(main, reader_name, self._queue)
        if use_double_buffer:
            reader = read.append_double_buffer(
                reader, read.ReaderVar(main, ahead_name, self._queue))
        read.append_read(reader, self._vars, drop_last=self._drop_last)

    @property
    def queue(self):
        """The batches that wait."""
        return self._queue

    @property
    def iterable(self):
        """Whether batches are taken by a loop; else by runs of the program."""
        return self._iterable

    # --- where data comes from ---

    def set_sample_generator(self, reader, batch_size, drop_last=True,
                             places=None):
        """Takes records of a generator, batch_size at a time."""
        if batch_size <= 0:
            raise AssertionError("batch_size must be larger than 0, not "
                                 f"{batch_size}")
        if any(v.lod_level for v in self._vars):
            return self.set_sample_list_generator(
                batch_reader(reader, batch_size, drop_last), places)
        return self.set_batch_generator(
            lambda: batches_of(self._vars, reader(), batch_size, drop_last),
            places)

    def set_sample_list_generator(self, reader, places=None):
        """Takes lists of records of a generator, each a batch."""
        return self.set_batch_generator(
            lambda: (batch_of(self._vars, rows) for rows in reader()), places)

    def set_batch_generator(self, reader, places=None):
        """Takes batches of a generator."""
        if isinstance(places, (list, tuple)):
            self._places = list(places)
        self._source = reader
        return self

    def _batches(self):
        """Batches as they wait in the queue: a tensor per variable."""
        source = self._source
        found = gather([source]) if self._in_process else source()
        for values in found:
            if isinstance(values, dict):
                values = [values[name] for name in self._names]
            elif not isinstance(values, (list, tuple)):
                values = [values]
            if len(values) != len(self._names):
                raise ValueError(f"a batch has {len(values)} values for the "
                                 f"{len(self._names)} variables of feed_list")
            yield [_tensor(v) for v in values]

    def _start(self):
        if self._source is None:
            raise AssertionError("Data source of DataLoader has not set yet")
        self._queue.reset()
        self._queue.fill(self._batches if self._iterable else
                         lambda: map(read.ready, self._batches()))

    def _reset(self):
        self._queue.reset()

    # --- iterable ---

    def __iter__(self):
        if not self._iterable:
            raise AssertionError("DataLoader is not iterable")
        self._start()
        return self

    def __next__(self):
        """A batch for each place."""
        try:
            found = self._queue.take(len(self._places), self._drop_last)
        except EOFException:
            raise StopIteration from None
        if self._return_list:
            return found
        return [dict(zip(self._names, batch)) for batch in found]

    # --- not iterable ---

    def start(self):
        """Begins to read."""
        if self._iterable:
            raise AssertionError("start() cannot be called when DataLoader is "
                                 "iterable")
        self._start()

    def reset(self):
        """Ends reading, so that it can start anew."""
        if self._iterable:
            raise AssertionError("reset() cannot be called when DataLoader is "
                                 "iterable")
        self._reset()

    def __del__(self):
        queue = getattr(self, "_queue", None)
        if queue is not None:
            queue.close()


class PyReader(GeneratorLoader):
    def __init__(self, feed_list=None, capacity=None, use_double_buffer=True,
                 iterable=True, return_list=False):
        super().__init__(feed_list, capacity, use_double_buffer, iterable,
                         return_list)

    @property
    def _loader(self):
        return self

    def decorate_sample_generator(self, sample_generator, batch_size,
                                  drop_last=True, places=None):
        """Takes records of a generator, batch_size at a time."""
        self.set_sample_generator(sample_generator, batch_size, drop_last,
                                  places)

    def decorate_sample_list_generator(self, reader, places=None):
        """Takes lists of records of a generator, each a batch."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader, places=None):
        """Takes batches of a generator."""
        self.set_batch_generator(reader, places)

    decorate_paddle_reader = decorate_sample_list_generator
    decorate_tensor_provider = decorate_batch_generator


class DatasetLoader(DataLoaderBase):
    """Batches of a dataset, a feed for each place."""

    def __init__(self, dataset, places, drop_last):
        if not isinstance(dataset, DatasetBase):
            raise AssertionError("dataset must be type of DatasetBase, not "
                                 f"{type(dataset)}")
        self._n = len(places) if isinstance(places, (list, tuple)) else 1
        if len(dataset.filelist) < self._n:
            raise AssertionError(
                f"Filelist number of dataset {len(dataset.filelist)} must be "
                f"not less than place number {self._n}")
        if dataset.thread_num not in (0, self._n):
            logging.getLogger("flotilla").warning(
                "thread_num %d which is set in Dataset is ignored",
                dataset.thread_num)
        dataset.set_thread(self._n)
        self._dataset, self._drop_last = dataset, drop_last
        self._found = None

    def __iter__(self):
        self._found = self._dataset._feeds(self._n, self._drop_last)
        return self

    def __next__(self):
        return next(self._found)
