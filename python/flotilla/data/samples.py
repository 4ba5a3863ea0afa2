"""Data sets by number: samples that have an index, in batches, read by
processes if asked for."""
import numpy as np

from .batches import BatchQueue, EOFException
from .process import gather
from .reader import in_order


class Dataset:
    """A user's class has __getitem__(number) and __len__()."""

    def __getitem__(self, idx):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__:"
                                  " the sample of a number")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__: how "
                                  "many samples there are")


def _expect(holds, what):
    if not holds:
        raise AssertionError(what)


class BatchSampler:
    """Lists of batch_size numbers: of a data set, or of `indices`."""

    def __init__(self, dataset=None, indices=None, shuffle=False, batch_size=1,
                 drop_last=False):
        _expect((dataset is None) != (indices is None),
                "either dataset or indices should be set")
        _expect(dataset is None or isinstance(dataset, Dataset),
                "dataset should be an instance of paddle.io.Dataset, not "
                f"{type(dataset)}")
        _expect(indices is None or isinstance(indices, (list, tuple)),
                f"indices should be a list or tuple, not {type(indices)}")
        _expect(isinstance(batch_size, int) and batch_size > 0,
                f"batch_size should be a positive integer, not {batch_size}")
        for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
            _expect(isinstance(value, bool),
                    f"{name} should be a boolean value, not {value!r}")
        self.indices = (list(range(len(dataset))) if dataset is not None
                        else list(indices))
        self.batch_size, self.shuffle = batch_size, shuffle
        self.drop_last = drop_last

    def __iter__(self):
        if self.shuffle:
            np.random.shuffle(self.indices)
        for at in range(0, len(self.indices), self.batch_size):
            found = self.indices[at:at + self.batch_size]
            if len(found) == self.batch_size or not self.drop_last:
                yield found

    def __len__(self):
        n, rest = divmod(len(self.indices), self.batch_size)
        return n + (rest > 0 and not self.drop_last)


def default_collate_fn(batch):
    """Fields of samples, each put one behind the other."""
    if isinstance(batch[0], np.ndarray):
        return [np.stack(batch)]
    return [np.stack(field) for field in zip(*batch)]


class Batches:
    """What a DataLoader over such a data set reads: the batches of one pass, in
    the order of the sampler."""

    def __init__(self, dataset, sampler, collate_fn):
        _expect(isinstance(dataset, Dataset), "dataset should be subclass "
                f"instance of paddle.io.Dataset, not {type(dataset)}")
        _expect(isinstance(sampler, BatchSampler), "batch_sampler should be "
                f"None or a paddle.io.BatchSampler, not {type(sampler)}")
        self._dataset, self._sampler = dataset, sampler
        self._collate = collate_fn or default_collate_fn

    def __len__(self):
        return len(self._sampler)

    def _batch(self, numbers):
        return self._collate([self._dataset[i] for i in numbers])

    def here(self):
        return map(self._batch, self._sampler)

    def by_workers(self, n, init_fn):
        """Worker i makes every n-th batch, from batch i on."""
        plan = list(enumerate(self._sampler))

        def worker(i):
            def read():
                if init_fn is not None:
                    init_fn(i)
                for number, indices in plan[i::n]:
                    yield number, self._batch(indices)

            return read

        return in_order(gather([worker(i) for i in range(n)]))


class SampleIterator:
    """One pass: feeds, or lists of values, for each place."""

    def __init__(self, source, take, capacity, seconds):
        self._queue = BatchQueue(capacity, "the DataLoader of a data set",
                                 seconds)
        self._queue.fill(source)
        self._take = take

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._take(self._queue)
        except EOFException:
            raise StopIteration from None

    next = __next__

    def __del__(self):
        self._queue.close()
