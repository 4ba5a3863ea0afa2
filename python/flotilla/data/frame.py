"""Columns of Arrow, pandas and polars as feeds.

A list column of Arrow is values and offsets, which is what a run takes: nothing
is copied where types agree. None of these packages is needed to import this.
"""
import numpy as np

from .. import _core, types
from .batches import ReaderError
from .loader import DataLoaderBase


class Ragged:
    """Values and levels of offsets, as they lie in memory."""

    def __init__(self, values, levels):
        self._values, self._levels = values, levels

    def lod(self):
        """Offsets of its lists."""
        return [level.tolist() for level in self._levels]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype=dtype)

    def _fed(self):
        return _core.tensor_view(self._values, self._levels)


def _one_chunk(column):
    """An Arrow array of a column that may lie in pieces."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    found = column.combine_chunks()
    return found if not hasattr(found, "chunks") else found.chunk(0)


def _arrow(column):
    """What a column is as Arrow, without a copy; None when it is not."""
    if hasattr(column, "null_count") and hasattr(column, "type"):
        return _one_chunk(column)
    if hasattr(column, "to_arrow"):  # polars
        return _one_chunk(column.to_arrow())
    inner = getattr(column, "array", None)  # pandas
    if hasattr(inner, "__arrow_array__") and hasattr(inner, "_pa_array"):
        return _one_chunk(inner.__arrow_array__())
    return None


def _levels(array):
    """(values, levels of offsets) of lists inside of lists."""
    levels = []
    while hasattr(array, "offsets") and hasattr(array, "values"):
        offsets = np.asarray(array.offsets).astype("int64", copy=False)
        if len(offsets) == 0:
            offsets = np.zeros(1, "int64")
        first, last = int(offsets[0]), int(offsets[-1])
        levels.append(offsets - first if first else offsets)
        array = array.values.slice(first, last - first)
    return array, levels


def _numbers(array, name):
    if array.null_count:
        raise ReaderError(f"column {name} has {array.null_count} values that "
                          "are missing; fill them first")
    is_bool = str(array.type) == "bool"
    return array.to_numpy(zero_copy_only=not is_bool)


def _from_arrow(array, var):
    if array.null_count:
        _numbers(array, var.name)
    if hasattr(array.type, "list_size"):  # lists of one length are dense
        width = array.type.list_size
        return _numbers(array.flatten(), var.name).reshape(-1, width), []
    inner, levels = _levels(array)
    return _numbers(inner, var.name), levels


def _from_lists(column):
    """Lists in a column of objects; these are copied."""
    lists = [np.asarray(v) for v in column]
    offsets = np.cumsum([0] + [len(v) for v in lists], dtype="int64")
    values = np.concatenate(lists) if lists else np.empty(0)
    return values, [offsets]


def value_of(column, var):
    """A column as a run takes it for a variable."""
    array = _arrow(column)
    if array is not None:
        values, levels = _from_arrow(array, var)
    else:
        values, levels = np.asarray(column), []
        if values.dtype == object:
            values, levels = _from_lists(values)
    if len(levels) != var.lod_level:
        raise ReaderError(
            f"column {var.name} has {len(levels)} levels of lists, and its "
            f"variable lod_level {var.lod_level}")
    values = values.astype(types.to_numpy(var.dtype), copy=False)
    if values.ndim != len(var.shape):
        values = values.reshape([-1] + [n for n in var.shape[1:]])
    return Ragged(values, levels) if levels else np.ascontiguousarray(values)


def _column(frame, name):
    names = getattr(frame, "column_names", None)  # Arrow
    if names is None:
        names = list(getattr(frame, "columns", frame))
    if name not in names:
        raise ReaderError(f"there is no column {name}; there are "
                          f"{', '.join(map(str, names))}")
    return frame[name]


def feed_of(frame, vars):
    """{name: value} of the columns that variables are named after."""
    return {v.name: value_of(_column(frame, v.name), v) for v in vars}


def _slices(frame, batch_size):
    """Parts of a frame, without copies."""
    n = len(frame) if not hasattr(frame, "num_rows") else frame.num_rows
    for at in range(0, n, batch_size):
        if hasattr(frame, "iloc"):
            yield frame.iloc[at:at + batch_size]
        elif hasattr(frame, "slice"):
            yield frame.slice(at, min(batch_size, n - at))
        else:
            yield {k: v[at:at + batch_size] for k, v in frame.items()}


def _parquet():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow"
                          ) from None
    return pyarrow


def parquet_batches(paths, names, batch_size):
    """Tables of batch_size rows of files, one behind the other."""
    arrow = _parquet()
    waiting, n = [], 0
    for path in [paths] if isinstance(paths, str) else paths:
        with arrow.parquet.ParquetFile(path) as f:
            for part in f.iter_batches(batch_size, columns=list(names)):
                waiting.append(part)
                n += part.num_rows
                while n >= batch_size:
                    table = arrow.Table.from_batches(waiting)
                    yield table.slice(0, batch_size)
                    rest = table.slice(batch_size)
                    waiting, n = rest.to_batches(), rest.num_rows
    if n:
        yield arrow.Table.from_batches(waiting)


class FrameLoader(DataLoaderBase):
    """Feeds of the parts of frames."""

    def __init__(self, vars, parts, batch_size, drop_last):
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}")
        self._vars, self._parts = list(vars), parts
        self._batch_size, self._drop_last = batch_size, drop_last
        self._found = None

    def _feeds(self):
        for part in self._parts():
            feed = feed_of(part, self._vars)
            rows = getattr(part, "num_rows", None)
            if rows is None:
                rows = len(part) if not isinstance(part, dict) else len(
                    next(iter(part.values())))
            if rows == self._batch_size or not self._drop_last:
                yield [feed]

    def __iter__(self):
        self._found = self._feeds()
        return self

    def __next__(self):
        return next(self._found)


def from_frame(feed_list, frame, batch_size, drop_last=True):
    """A loader of a table of Arrow, a frame of pandas or polars, or a dict of
    arrays."""
    return FrameLoader(feed_list, lambda: _slices(frame, batch_size),
                       batch_size, drop_last)


def from_parquet(feed_list, paths, batch_size, drop_last=True):
    """A loader of files."""
    names = [v.name for v in feed_list]
    return FrameLoader(feed_list,
                       lambda: parquet_batches(paths, names, batch_size),
                       batch_size, drop_last)
