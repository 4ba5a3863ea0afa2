"""Readers: functions that give a generator of samples, and functions that make
a reader of readers."""
import itertools
import queue
import random
import threading


def batch(reader, batch_size, drop_last=False):
    """Lists of batch_size samples."""
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
            found = list(itertools.islice(samples, buf_size))
            if not found:
                return
            random.shuffle(found)
            yield from found

    return shuffled


def map_readers(func, *readers):
    def mapped():
        return map(func, *(r() for r in readers))

    return mapped


def chain(*readers):
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
    def first():
        return itertools.islice(reader(), n)

    return first


def cache(reader):
    """Reads once, and gives the same samples from memory ever after."""
    kept = []

    def cached():
        if not kept:
            kept.append(tuple(reader()))
        return iter(kept[0])

    return cached


class _Failure:
    def __init__(self, error):
        self.error = error


_END = object()


def _taken(q, n_ends):
    """What comes through a queue until so many ends have come."""
    while n_ends:
        item = q.get()
        if item is _END:
            n_ends -= 1
        elif isinstance(item, _Failure):
            raise item.error
        else:
            yield item


def buffered(reader, size):
    """Reads ahead in a thread, at most `size` samples."""
    def read(q):
        try:
            for sample in reader():
                q.put(sample)
        except BaseException as e:  # it is raised where samples are taken
            q.put(_Failure(e))
        q.put(_END)

    def ahead():
        q = queue.Queue(maxsize=size)
        threading.Thread(target=read, args=(q,), daemon=True).start()
        return _taken(q, 1)

    return ahead


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """Samples through `mapper` in threads; with `order` as they came."""
    def feed(to):
        for numbered in enumerate(reader()):
            to.put(numbered)
        for _ in range(process_num):
            to.put(_END)

    def work(source, to):
        try:
            for number, sample in _taken(source, 1):
                to.put((number, mapper(sample)))
        except BaseException as e:  # it is raised where samples are taken
            to.put(_Failure(e))
        to.put(_END)

    def in_order(found):
        waiting, at = {}, 0
        for number, sample in found:
            waiting[number] = sample
            while at in waiting:
                yield waiting.pop(at)
                at += 1

    def mapped():
        source, done = queue.Queue(buffer_size), queue.Queue(buffer_size)
        threading.Thread(target=feed, args=(source,), daemon=True).start()
        for _ in range(process_num):
            threading.Thread(target=work, args=(source, done),
                             daemon=True).start()
        found = _taken(done, process_num)
        return in_order(found) if order else (s for _, s in found)

    return mapped


def multiprocess_reader(readers, use_pipe=True, queue_size=1000):
    """Each reader in a process of its own; samples as they come."""
    import multiprocessing

    def read(reader, q):
        try:
            for sample in reader():
                if sample is None:
                    raise ValueError("sample has None")
                q.put((True, sample))
            q.put((False, None))
        except BaseException as e:  # the parent raises it
            q.put((False, repr(e)))

    def gathered():
        context = multiprocessing.get_context("fork")
        q = context.Queue(queue_size)
        workers = [context.Process(target=read, args=(r, q), daemon=True)
                   for r in readers]
        for w in workers:
            w.start()
        left = len(workers)
        while left:
            is_sample, value = q.get()
            if is_sample:
                yield value
            elif value is not None:
                raise ValueError(f"multiprocess reader raises an exception: "
                                 f"{value}")
            else:
                left -= 1

    return gathered
