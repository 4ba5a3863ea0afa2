"""A queue of batches between a thread that makes them and runs that take them.

Whoever waits here is woken by the other side: by a batch, by the end of the
data, or by the exception that the data ended with.
"""
import collections
import threading

from .. import _core

# How long a run waits for a queue that nobody fills.
_UNFILLED_SECONDS = 60.0
# How long an end waits for a thread that is inside the user's generator.
_END_SECONDS = 60.0


class EOFException(Exception):
    """There is no more data."""


class ReaderError(_core.Error):
    """Data did not come, and why."""


def as_error(error):
    """The exception of a generator as it is raised where batches are taken: of
    its own class, and an Error of the library too."""
    if isinstance(error, _core.Error) or not isinstance(error, Exception):
        return error
    kind = type(error)
    both = type(kind.__name__, (_core.Error, kind),
                {"__module__": kind.__module__})
    new = both.__new__(both, *error.args)
    new.args = error.args
    new.__dict__.update(error.__dict__)
    new.__cause__ = error
    return new


class BatchQueue:
    """At most `capacity` batches, in the order in which they came. Whoever takes
    one waits `seconds` for it, or as long as it takes."""

    def __init__(self, capacity, name="reader", seconds=None):
        self._capacity, self._name, self._seconds = capacity, name, seconds
        self._items = collections.deque()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._error = None
        self._threads = []
        self._filling = 0

    def capacity(self):
        """How many batches it holds."""
        return self._capacity

    def size(self):
        """How many batches wait."""
        return len(self._items)

    def is_closed(self):
        """Whether nothing more comes."""
        return self._closed

    def push(self, batch):
        """Waits for room; False when nobody takes batches any more."""
        with self._changed:
            while len(self._items) >= self._capacity and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._items.append(batch)
                if len(self._items) == 1:  # else nobody waits for one
                    self._changed.notify_all()
            return not self._closed

    def pop(self):
        """The next batch; raises EOFException, or what the data ended with."""
        with self._changed:
            while not self._items and not self._closed:
                self._wait()
            if self._items:
                batch = self._items.popleft()
                # Who fills it goes on when there is room for several: each
                # waking costs more than a batch.
                if len(self._items) <= self._capacity // 2:
                    self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            raise EOFException("There is no next data.")

    def _wait(self):
        """For a change; says so when none came."""
        seconds = self._seconds if self._threads else _UNFILLED_SECONDS
        if self._changed.wait(seconds):
            return
        why = ("its generator is too slow, or stands still" if self._threads
               else "start() begins to read, or a thread of yours pushes to "
               "its queue")
        raise ReaderError(f"{self._name}: no batch came in {seconds:.0f} s; "
                          f"{why}")

    def take(self, n, drop_last):
        """Up to n batches; the end when there is none, or, with drop_last,
        when there are fewer than n."""
        found = []
        try:
            while len(found) < n:
                found.append(self.pop())
        except EOFException:
            if drop_last or not found:
                raise
        return found

    def close(self):
        """The end: what is there may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def kill(self, error=None):
        """The end, at once, with an exception."""
        with self._changed:
            self._items.clear()
            self._error = error or ReaderError(
                f"{self._name}: its queue was killed")
            self._closed = True
            self._changed.notify_all()

    def reset(self):
        """Empty and open again, when the threads that fill it have ended."""
        self.end()
        with self._changed:
            self._items.clear()
            self._closed, self._error, self._threads = False, None, []

    def __iter__(self):
        """Batch after batch; who fills it ends when this does."""
        try:
            while True:
                try:
                    batch = self.pop()
                except EOFException:
                    return
                yield batch
        finally:
            self.close()

    # --- threads that fill it ---

    def fill(self, batches, n_threads=1):
        """Starts threads that push what batches() gives each; the data ends
        when the last of them has."""
        self._filling = n_threads
        self._threads = [threading.Thread(target=self._fill, args=(batches,),
                                          name="fl-reader", daemon=True)
                         for _ in range(n_threads)]
        for thread in self._threads:
            thread.start()

    def _fill(self, batches):
        error = None
        try:
            for batch in batches():
                if not self.push(batch):
                    break
        except BaseException as e:  # it is raised where batches are taken
            error = as_error(e)
        with self._changed:
            self._filling -= 1
            self._error = self._error or error
            if error is not None or not self._filling:
                self.close()

    def end(self):
        """Ends the threads; one that stays in its generator is told of."""
        self.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_END_SECONDS)
            if thread.is_alive():
                raise ReaderError(
                    f"{self._name}: its generator was asked to end and has "
                    "neither given a batch nor returned in "
                    f"{_END_SECONDS:.0f} s")
