"""DataFeeder: rows of Python values become a batch."""
import numpy as np

from .. import ir, types
from ..fluid import CUDAPlace, cpu_places, cuda_places
from ..tensor import CPUPlace, LoDTensor


class Column:
    """One variable of a batch: its values, and how long sequences are."""

    def __init__(self, var):
        self.dtype = types.to_numpy(var.dtype)
        self.shape = tuple(var.shape)
        self.levels = var.lod_level
        self._clear()

    def _clear(self):
        self.lengths = [[] for _ in range(self.levels)]
        self.values = []

    def add(self, value, level=0):
        if level == self.levels:
            self.values.append(value)
            return
        self.lengths[level].append(len(value))
        for v in value:
            self.add(v, level + 1)

    def _shaped(self, array):
        """As the variable is declared, where values have another rank and no
        more than one dimension is open."""
        open_dims = sum(n < 0 for n in self.shape)
        if not self.shape or open_dims > 1 or array.ndim == len(self.shape):
            return array
        try:
            return array.reshape(self.shape)
        except ValueError:
            raise ValueError(
                f"values of shape {array.shape} do not fit the variable, whose "
                f"shape is {self.shape}") from None

    def tensor(self):
        """What was added, as a tensor; the column begins anew."""
        t = LoDTensor()
        t.set(self._shaped(np.array(self.values, dtype=self.dtype)))
        if self.levels:
            t.set_recursive_sequence_lengths(self.lengths)
        self._clear()
        return t


def batch_of(vars, rows):
    """A tensor for each variable, of rows with a value for each."""
    columns = [Column(v) for v in vars]
    for row in rows:
        if len(row) != len(columns):
            raise AssertionError(
                f"The number of fields in data ({len(row)}) does not match "
                f"len(feed_list) ({len(columns)})")
        for column, value in zip(columns, row):
            column.add(value)
    return [c.tensor() for c in columns]


def batches_of(vars, samples, batch_size, drop_last):
    """Batches, a tensor for each variable, of samples one by one."""
    columns = [Column(v) for v in vars]
    n = 0
    for sample in samples:
        for column, value in zip(columns, sample):
            column.add(value)
        n += 1
        if n == batch_size:
            yield [c.tensor() for c in columns]
            n = 0
    if n and not drop_last:
        yield [c.tensor() for c in columns]


class DataFeeder:
    """feed(rows) gives {name: tensor}, one value of a row per variable."""

    def __init__(self, feed_list, place=None, program=None):
        block = (program or ir.default_main_program()).global_block()
        self._vars = [block.var(v) if isinstance(v, str) else v
                      for v in feed_list]
        for v in self._vars:
            if not isinstance(v, ir.Variable):
                raise TypeError("Feed list should contain a list of variable, "
                                f"not {type(v)}")
        self.feed_names = [v.name for v in self._vars]
        self.feed_dtypes = [v.dtype for v in self._vars]
        self.feed_shapes = [v.shape for v in self._vars]
        self.feed_lod_level = [v.lod_level for v in self._vars]
        self.place = place or CPUPlace()

    def feed(self, iterable):
        """Records as {name: value}, to be fed."""
        return dict(zip(self.feed_names, batch_of(self._vars, iterable)))

    def _n_places(self, given):
        if given is not None:
            return int(given)
        cuda = isinstance(self.place, CUDAPlace)
        return len(cuda_places() if cuda else cpu_places())

    def feed_parallel(self, iterable, num_places=None):
        """One feed per place, of as many batches."""
        batches, n = list(iterable), self._n_places(num_places)
        if len(batches) != n:
            raise ValueError(f"feed_parallel has {len(batches)} batches for "
                             f"{n} places; each place takes one")
        for rows in batches:
            yield self.feed(rows)

    def decorate_reader(self, reader, multi_devices, num_places=None,
                        drop_last=True):
        """A reader of batches as one of feeds; with multi_devices, of lists of
        one feed per place."""
        def parallel(n):
            waiting = []
            for rows in reader():
                waiting.append(rows)
                if len(waiting) == n:
                    yield list(self.feed_parallel(waiting, n))
                    waiting = []
            if waiting and not drop_last:
                raise ValueError(f"{len(waiting)} batches are left for {n} "
                                 "places; drop_last leaves them out")

        def fed():
            if multi_devices:
                yield from parallel(self._n_places(num_places))
                return
            for rows in reader():
                yield self.feed(rows)

        return fed
