"""Readers: functions that give a generator of samples, and functions that make
a reader of readers."""
import itertools
import random
import sys

from .batches import BatchQueue
from .process import gather


def batch(reader, batch_size, drop_last=False):
    """Lists of batch_size samples."""
    batch_size = int(batch_size)
    if batch_size <= 0:
        raise ValueError("batch_size should be a positive integer value, but "
                         f"got batch_size={batch_size}")

    def batches():
        samples = iter(reader())
        while True:
            found = list(itertools.islice(samples, batch_size))
            if len(found) == batch_size or (found and not drop_last):
                yield found
            if len(found) < batch_size:
                return

    return batches


def shuffle(reader, buf_size):
    """Samples in a random order within windows of buf_size."""
    def shuffled():
        samples = iter(reader())
        while True:
            found = list(itertools.islice(samples, max(buf_size, 1)))
            if not found:
                return
            random.shuffle(found)
            yield from found

    return shuffled


def map_readers(func, *readers):
    """What a function makes of one record of each reader."""
    def mapped():
        return map(func, *(r() for r in readers))

    return mapped


def chain(*readers):
    """The records of one reader after the other."""
    def chained():
        return itertools.chain.from_iterable(r() for r in readers)

    return chained


class ComposeNotAligned(ValueError):
    """Readers that are put side by side ended at different places."""


def compose(*readers, check_alignment=True):
    """Samples of several readers side by side, as one flat tuple."""
    def flat(sample):
        return sample if isinstance(sample, tuple) else (sample,)

    def composed():
        missing = object()
        for row in itertools.zip_longest(*(r() for r in readers),
                                         fillvalue=missing):
            if any(s is missing for s in row):
                if check_alignment:
                    raise ComposeNotAligned("outputs of readers are not "
                                            "aligned.")
                return
            yield sum((flat(s) for s in row), ())

    return composed


def firstn(reader, n):
    """The first n records of a reader."""
    def first():
        return itertools.islice(reader(), n)

    return first


def cache(reader):
    """Reads now, and gives the same samples from memory ever after."""
    kept = tuple(reader())

    def cached():
        return iter(kept)

    return cached


def _queue(size):
    return BatchQueue(size if size > 0 else sys.maxsize)


def buffered(reader, size):
    """Reads ahead in a thread, at most `size` samples."""
    def ahead():
        ready = _queue(size)
        ready.fill(reader)
        return iter(ready)

    return ahead


def in_order(numbered):
    """Samples in the order of their numbers, which have no gap."""
    waiting, at = {}, 0
    for number, sample in numbered:
        waiting[number] = sample
        while at in waiting:
            yield waiting.pop(at)
            at += 1


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """Samples through `mapper` in threads; with `order` as they came."""
    def mapped():
        source, done = _queue(buffer_size), _queue(buffer_size)

        def work():
            for number, sample in source:
                yield number, mapper(sample)

        source.fill(lambda: enumerate(reader()))
        done.fill(work, process_num)
        return in_order(done) if order else (s for _, s in done)

    return mapped


def multiprocess_reader(readers, use_pipe=True, queue_size=1000):
    """Each reader in a process of its own; samples as they come. Without
    use_pipe, queue_size of them are read ahead."""
    if not isinstance(readers, list) or not readers:
        raise AssertionError("multiprocess_reader takes a list of readers, "
                             f"not {readers!r}")

    def gathered():
        return gather(readers)

    return gathered if use_pipe else buffered(gathered, queue_size)
