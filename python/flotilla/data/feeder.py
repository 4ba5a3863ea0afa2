"""DataFeeder: rows of Python values become a batch."""
import numpy as np

from .. import ir, types
from ..tensor import CPUPlace, LoDTensor


class _Column:
    """One variable of a batch: its values, and how long sequences are."""

    def __init__(self, var):
        self.dtype = types.to_numpy(var.dtype)
        self.shape = [n for n in var.shape]
        self.levels = var.lod_level
        self.lengths = [[] for _ in range(self.levels)]
        self.values = []

    def add(self, value, level=0):
        if level == self.levels:
            self.values.append(value)
            return
        self.lengths[level].append(len(value))
        for v in value:
            self.add(v, level + 1)

    def tensor(self):
        array = np.array(self.values, dtype=self.dtype)
        if self.shape and len(array.shape) != len(self.shape):
            array = array.reshape([-1 if n < 0 else n for n in self.shape])
        t = LoDTensor()
        t.set(array)
        if self.levels:
            t.set_recursive_sequence_lengths(self.lengths)
        return t


class DataFeeder:
    """feed(rows) gives {name: tensor}, one value of a row per variable."""

    def __init__(self, feed_list, place=None, program=None):
        block = (program or ir.default_main_program()).global_block()
        self._vars = [block.var(v) if isinstance(v, str) else v
                      for v in feed_list]
        self.feed_names = [v.name for v in self._vars]
        self.place = place or CPUPlace()

    def feed(self, iterable):
        columns = [_Column(v) for v in self._vars]
        for row in iterable:
            if len(row) != len(columns):
                raise AssertionError(
                    f"The number of fields in data ({len(row)}) does not match"
                    f" len(feed_list) ({len(columns)})")
            for column, value in zip(columns, row):
                column.add(value)
        return {name: c.tensor() for name, c in zip(self.feed_names, columns)}

    def feed_parallel(self, iterable, num_places=None):
        """One batch per place."""
        for rows in iterable:
            yield self.feed(rows)

    def decorate_reader(self, reader, multi_devices, num_places=None,
                        drop_last=True):
        def fed():
            for rows in reader():
                yield self.feed(rows)

        return fed
