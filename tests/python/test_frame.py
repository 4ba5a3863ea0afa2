"""Columns of frames as feeds. What is not installed is skipped."""
import importlib.util
import os
import tempfile
import unittest

import numpy as np

import flotilla as fl
from flotilla import _core
from flotilla.data import frame
from kit import NetCase


def wants(name):
    there = importlib.util.find_spec(name) is not None
    return unittest.skipUnless(there, f"{name} is not installed")


LISTS = [[1, 2], [], [3], [4, 5, 6]]


class Case(NetCase):
    def setUp(self):
        super().setUp()
        self.ids = fl.layers.data("ids", [1], dtype="int64", lod_level=1)
        self.x = fl.layers.data("x", [1])
        self.out = fl.layers.concat([fl.layers.sequence_pool(
            fl.layers.cast(self.ids, "float32"), "sum"), self.x], axis=1)
        self.vars = [self.ids, self.x]

    def check(self, feed, lists=LISTS):
        got, = fl.Executor().run(self.main, feed=feed, fetch_list=[self.out])
        self.assertEqual(got.tolist(), [[sum(row), i + 0.5] for i, row in
                                        enumerate(lists)])


class Views(Case):
    def test_values_and_offsets_are_borrowed(self):
        values = np.arange(1, 7).reshape(-1, 1)
        offsets = np.array([0, 2, 2, 3, 6])
        view = _core.tensor_view(values, [offsets])
        self.assertEqual(np.asarray(view).ctypes.data, values.ctypes.data)
        self.assertEqual(view.lod, [[0, 2, 2, 3, 6]])
        x = np.arange(4, dtype="float32").reshape(4, 1) + 0.5
        feed = {"ids": frame.Ragged(values, [offsets]), "x": x}
        del values, offsets
        self.check(feed)

    def test_what_are_no_offsets_is_refused(self):
        values = np.arange(6).reshape(-1, 1)
        with self.assertRaisesRegex(TypeError, "one row of int64"):
            _core.tensor_view(values, [np.array([0, 6], "int32")])
        with self.assertRaisesRegex(ValueError, "levels"):
            _core.tensor_view(values, [])

    def test_a_dict_of_arrays_is_a_frame(self):
        columns = {"ids": np.array([np.array(v, "int64") for v in LISTS] +
                                   [None], dtype=object)[:4],
                   "x": np.arange(4) + 0.5}
        self.check(frame.feed_of(columns, self.vars))
        with self.assertRaisesRegex(fl.Error, "no column ids; there are y"):
            frame.feed_of({"y": [1]}, self.vars)


@wants("pyarrow")
class Arrow(Case):
    def table(self, **changed):
        import pyarrow
        columns = {"ids": pyarrow.array(LISTS, pyarrow.list_(pyarrow.int64())),
                   "x": pyarrow.array([0.5, 1.5, 2.5, 3.5],
                                      pyarrow.float32())}
        columns.update(changed)
        return pyarrow.table(columns)

    def test_list_columns_are_not_copied(self):
        import pyarrow
        table = self.table()
        feed = frame.feed_of(table, self.vars)
        self.check(feed)
        for kind in (pyarrow.list_, pyarrow.large_list):
            column = pyarrow.array(LISTS, kind(pyarrow.int64()))
            value = frame.value_of(column, self.ids)
            address = column.values.buffers()[1].address
            self.assertEqual(np.asarray(value).ctypes.data, address)

    def test_columns_are_fed_as_they_are(self):
        table = self.table()
        self.check({"ids": table["ids"], "x": table["x"]})

    def test_parts_of_a_table_keep_their_lists(self):
        loader = fl.DataLoader.from_frame(self.vars, self.table(), 3,
                                          drop_last=False)
        lods = [feed["ids"].lod() for feed, in loader]
        self.assertEqual(lods, [[[0, 2, 2, 3]], [[0, 3]]])
        self.assertEqual(len(list(fl.DataLoader.from_frame(
            self.vars, self.table(), 3))), 1)

    def test_lists_of_one_length_are_dense(self):
        import pyarrow
        pair = fl.layers.data("pair", [2])
        column = pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(
            pyarrow.float32(), 2))
        self.assertEqual(frame.value_of(column, pair).tolist(),
                         [[1, 2], [3, 4]])

    def test_what_is_missing_or_nested_otherwise_is_told(self):
        import pyarrow
        with self.assertRaisesRegex(fl.Error, "x has 1 values.*missing"):
            frame.feed_of(self.table(x=pyarrow.array([1.0, None, 1, 1])),
                          self.vars)
        with self.assertRaisesRegex(fl.Error, "x has 1 levels of lists"):
            frame.feed_of(self.table(x=pyarrow.array(LISTS)), self.vars)

    def test_files_are_read_part_by_part(self):
        import pyarrow.parquet
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{i}.parquet") for i in range(2)]
            for path in paths:
                pyarrow.parquet.write_table(self.table(), path,
                                            row_group_size=3)
            loader = fl.DataLoader.from_parquet(self.vars, paths, 5,
                                                drop_last=False)
            for _ in range(2):
                sizes = [len(feed["x"]) for feed, in loader]
                self.assertEqual(sizes, [5, 3])


@wants("pandas")
class Pandas(Case):
    def test_columns_of_lists_and_numbers(self):
        import pandas
        df = pandas.DataFrame({"ids": LISTS, "x": np.arange(4) + 0.5})
        self.check(frame.feed_of(df, self.vars))
        loader = fl.DataLoader.from_frame(self.vars, df, 2)
        self.assertEqual([feed["ids"].lod() for feed, in loader],
                         [[[0, 2, 2]], [[0, 1, 4]]])

    def test_numbers_are_not_copied(self):
        import pandas
        x = np.arange(4, dtype="float32")
        df = pandas.DataFrame({"x": x}, copy=False)
        value = frame.value_of(df["x"], self.x)
        self.assertTrue(np.shares_memory(value, df["x"].to_numpy()))


@wants("polars")
class Polars(Case):
    def test_columns_of_lists_and_numbers(self):
        import polars
        df = polars.DataFrame({"ids": LISTS, "x": [0.5, 1.5, 2.5, 3.5]})
        self.check(frame.feed_of(df, self.vars))


if __name__ == "__main__":
    unittest.main()
