"""Values: tensors with offsets, sparse rows, arrays, and scopes of them."""
import sys
import unittest

import numpy as np

import flotilla as fl
from flotilla.fluid import OneOperator
from flotilla import VarType
from flotilla.fluid import OneOperator
from flotilla.tensor import LoDTensorArray

TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16",
         "float32", "float64"]


class Tensors(unittest.TestCase):
    def test_others_look_at_its_memory(self):
        array = np.arange(6, dtype="float32").reshape(3, 2)
        t = fl.LoDTensor()
        t.set(array, fl.CPUPlace())
        self.assertEqual(t.__buffer__(0).shape, (3, 2))
        np.asarray(t)[0, 0] = 7
        self.assertEqual(t.__buffer__(0)[0, 0], 7)
        array[0, 0] = 7
        if sys.version_info >= (3, 12):
            self.assertEqual(memoryview(t).tolist(), array.tolist())

    def test_every_type_goes_in_and_comes_out(self):
        for dtype in TYPES:
            array = np.arange(6).reshape(2, 3).astype(dtype)
            t = fl.LoDTensor()
            t.set(array, fl.CPUPlace())
            back = np.array(t)
            self.assertEqual(back.dtype, array.dtype)
            np.testing.assert_array_equal(back, array)

    def test_a_type_that_there_is_not(self):
        with self.assertRaisesRegex(TypeError, "complex64"):
            fl.LoDTensor().set(np.ones(1, "complex64"))

    def test_parts_are_tensors(self):
        t = fl.LoDTensor()
        t.set(np.arange(27).reshape(3, 3, 3))
        part = t[2::-2, 1:]
        self.assertIsInstance(part, fl.LoDTensor)
        np.testing.assert_array_equal(np.array(part),
                                      np.array(t)[2::-2, 1:])

    def test_memory_of_a_shape_that_was_said(self):
        t = fl.LoDTensor()
        t._set_dims([4, 5])
        t._alloc_int(fl.CPUPlace())
        self.assertEqual((t.shape(), t._dtype()), ([4, 5], VarType.INT32))
        self.assertEqual(np.array(t).sum(), 0)
        self.assertIsInstance(t._mutable_data(fl.CPUPlace(), VarType.FP32),
                              int)
        self.assertEqual(t._dtype(), VarType.FP32)

    def test_an_array_of_a_tensor_is_a_copy(self):
        t = fl.LoDTensor()
        t.set(np.zeros(2, "float32"))
        np.array(t)[0] = 7
        self.assertEqual(np.array(t)[0], 0)

    def test_levels_of_offsets_fit_each_other(self):
        t = fl.LoDTensor()
        for lengths in ([[], [1], [3]], [[0], [2], [3]]):
            with self.assertRaisesRegex(ValueError, "offsets"):
                t.set_recursive_sequence_lengths(lengths)
        t.set_recursive_sequence_lengths([[2, 1], [1, 3, 2]])
        self.assertEqual(t.lod(), [[0, 2, 3], [0, 1, 4, 6]])

    def test_lengths_may_come_first(self):
        t = fl.LoDTensor([[2, 2]])
        t.set(np.ones((4, 1)))
        self.assertEqual(t.lod(), [[0, 2, 4]])

    def test_offsets_that_rows_do_not_fit_are_told(self):
        t = fl.LoDTensor()
        t.set_lod([[0, 1, 3]])
        t.set(np.zeros((3, 1)))
        self.assertTrue(t.has_valid_recursive_sequence_lengths())
        t.set(np.zeros((4, 1)))
        self.assertFalse(t.has_valid_recursive_sequence_lengths())

    def test_it_prints_what_it_is(self):
        t = fl.create_lod_tensor(np.ones((3, 1), "float32"), [[1, 2]])
        for word in ("lod: [[0, 1, 3]]", "dim: 3, 1", "float32"):
            self.assertIn(word, str(t))

    def test_without_numbers_it_says_so(self):
        for use in (np.array, fl.LoDTensor._dtype):
            with self.assertRaisesRegex(ValueError, "set()"):
                use(fl.LoDTensor())


class Scopes(unittest.TestCase):
    def setUp(self):
        self.scope = fl.Scope()

    def test_a_tensor_is_written_where_it_is(self):
        t = self.scope.var("x").get_tensor()
        t.set(np.arange(3, dtype="int8"))
        np.testing.assert_array_equal(
            np.array(self.scope.find_var("x").get_tensor()), [0, 1, 2])

    def test_offsets_are_kept_with_the_numbers(self):
        t = self.scope.var("x").get_tensor()
        t.set_recursive_sequence_lengths([[2, 1]])
        t.set(np.zeros((3, 2), "float32"))
        again = self.scope.find_var("x").get_tensor()
        self.assertEqual(again.recursive_sequence_lengths(), [[2, 1]])

    def test_rows_come_in_any_order(self):
        rows = self.scope.var("g").get_selected_rows()
        rows.set_height(10)
        rows.get_tensor().set(np.ones((2, 3), "float32"))
        rows.set_rows([7, 4])
        again = self.scope.find_var("g").get_selected_rows()
        self.assertEqual((again.rows(), again.height()), ([7, 4], 10))
        self.assertEqual(np.array(again.get_tensor()).shape, (2, 3))

    def test_an_array_keeps_its_tensors(self):
        array = self.scope.var("a").get_lod_tensor_array()
        array.append(fl.create_lod_tensor(np.ones((3, 1)), [[1, 2]]))
        t = fl.LoDTensor()
        t.set(np.zeros(4, "int64"))
        array.append(t)
        again = self.scope.find_var("a").get_lod_tensor_array()
        self.assertEqual(len(again), 2)
        self.assertEqual(again[0].lod(), [[0, 1, 3]])
        self.assertEqual(np.array(again[1]).dtype, np.int64)

    def test_an_array_by_itself(self):
        array = LoDTensorArray()
        t = fl.LoDTensor()
        t.set(np.ones(2))
        array.append(t)
        array[0] = t
        self.assertEqual([x.shape() for x in array], [[2]])

    def test_a_variable_without_a_value_is_there(self):
        self.assertIsNone(self.scope.find_var("x"))
        v = self.scope.var("x")
        self.assertIs(self.scope.find_var("x"), v)
        self.assertFalse(v.get_tensor()._is_initialized())
        self.assertEqual(self.scope.local_var_names(), ["x"])

    def test_a_child_finds_what_its_parent_has(self):
        self.scope.var("x").get_tensor().set(np.ones(2))
        child = self.scope.new_scope()
        child.find_var("x").get_tensor().set(np.zeros(2))
        np.testing.assert_array_equal(
            np.array(self.scope.find_var("x").get_tensor()), [0, 0])
        child.var("x").get_tensor().set(np.full(2, 7.0))
        np.testing.assert_array_equal(
            np.array(self.scope.find_var("x").get_tensor()), [0, 0])

    def test_ints_are_kept_too(self):
        v = self.scope.var("n")
        self.assertFalse(v.is_int())
        with self.assertRaisesRegex(ValueError, "n holds no int"):
            v.get_int()
        v.set_int(10)
        self.assertEqual((v.is_int(), v.get_int()), (True, 10))


class OneOperatorOnAScope(unittest.TestCase):
    def put(self, name, array):
        self.scope.var(name).get_tensor().set(np.asarray(array, "float32"))

    def setUp(self):
        self.scope = fl.Scope()
        self.put("p", np.ones((4, 2)))
        self.put("lr", [0.5])

    def value(self, name):
        return np.array(self.scope.find_var(name).get_tensor())

    def test_dense(self):
        self.put("g", np.ones((4, 2)))
        OneOperator("sgd", Param="p", Grad="g", LearningRate="lr",
                    ParamOut="p").run(self.scope, fl.CPUPlace())
        np.testing.assert_array_equal(self.value("p"), np.full((4, 2), 0.5))

    def test_rows(self):
        rows = self.scope.var("g").get_selected_rows()
        rows.set_height(4)
        rows.set_rows([3, 1, 3])
        rows.get_tensor().set(np.ones((3, 2), "float32"))
        OneOperator("sgd", Param="p", Grad="g", LearningRate="lr",
                    ParamOut="p").run(self.scope, fl.CPUPlace())
        np.testing.assert_array_equal(self.value("p"),
                                      [[1, 1], [.5, .5], [1, 1], [0, 0]])

    def look_up(self, values, **attrs):
        """Rows of a table that lists rows 5, 0 and 3."""
        table = self.scope.var("w").get_selected_rows()
        table.set_height(9)
        table.set_rows([5, 0, 3])
        table.get_tensor().set(values)
        self.scope.var("ids").get_tensor().set(np.array([[3], [5], [0]]))
        OneOperator("lookup_table", W="w", Ids="ids", Out="out",
                    **attrs).run(self.scope, fl.CPUPlace())
        return self.value("out")

    def test_a_table_may_list_its_rows(self):
        rows = np.arange(6, dtype="float32").reshape(3, 2)
        np.testing.assert_array_equal(self.look_up(rows),
                                      [[4, 5], [0, 1], [2, 3]])
        np.testing.assert_array_equal(self.look_up(rows, padding_idx=0),
                                      [[4, 5], [0, 1], [0, 0]])

    def test_a_row_that_a_table_does_not_list_is_named(self):
        table = self.scope.var("w").get_selected_rows()
        table.set_height(9)
        table.set_rows([5])
        table.get_tensor().set(np.ones((1, 2), "float32"))
        self.scope.var("ids").get_tensor().set(np.array([[4]]))
        with self.assertRaisesRegex(ValueError, "W lists no row 4"):
            OneOperator("lookup_table", W="w", Ids="ids",
                        Out="out").run(self.scope, fl.CPUPlace())

    def test_a_table_may_hold_bytes(self):
        rows = np.array([[-128, 127], [1, 2], [3, 4]], "int8")
        got = self.look_up(rows)
        self.assertEqual(got.dtype, np.int8)
        np.testing.assert_array_equal(got, [[3, 4], [-128, 127], [1, 2]])

    def test_whole_numbers_have_powers(self):
        for name, v in (("x", [2, -1, 3, -3]), ("y", [10, -3, -1, 3])):
            self.scope.var(name).get_tensor().set(np.array(v, "int64"))
        OneOperator("elementwise_pow", X="x", Y="y",
                    Out="z").run(self.scope, fl.CPUPlace())
        np.testing.assert_array_equal(self.value("z"), [1024, -1, 0, -27])

    def test_sequences_of_several_parts_follow_each_other(self):
        for name, lengths in (("a", [1, 2]), ("b", [2])):
            t = self.scope.var(name).get_tensor()
            t.set(np.ones((sum(lengths), 1), "float32"))
            t.set_recursive_sequence_lengths([lengths])
        OneOperator("concat", X=["a", "b"], Out="c",
                    axis=0).run(self.scope, fl.CPUPlace())
        self.assertEqual(self.scope.find_var("c").get_tensor()
                         .recursive_sequence_lengths(), [[1, 2, 2]])

    def test_what_it_makes_is_in_the_scope(self):
        OneOperator("scale", X="p", Out="q", scale=3.0).run(self.scope, None)
        np.testing.assert_array_equal(self.value("q"), np.full((4, 2), 3))

    def test_an_input_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(ValueError, "nothing"):
            OneOperator("scale", X="nothing", Out="q").run(self.scope, None)


class Types(unittest.TestCase):
    def run_op(self, build, x):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            v = fl.data("x", [None, 2], dtype=x.dtype.name)
            out = build(v)
        return fl.Executor().run(main, feed={"x": x}, fetch_list=[out])[0]

    @staticmethod
    def equal(v):
        v.block.append_op("equal", inputs={"X": v, "Y": v},
                          outputs={"Out": "same"})
        return "same"

    def test_every_type_is_cast_to_every_other(self):
        for one in TYPES:
            x = np.array([[0, 1], [1, 0]]).astype(one)
            for other in TYPES:
                got = self.run_op(lambda v: v.astype(other), x)
                self.assertEqual(got.dtype, np.dtype(other))
                np.testing.assert_array_equal(got, x.astype(other))

    def test_halves_round_as_numpys(self):
        x = np.array([[1.0002, 65519.0], [1e-8, -3.14159]], "float32")
        got = self.run_op(lambda v: v.astype("float16"), x)
        np.testing.assert_array_equal(got, x.astype("float16"))

    def test_small_types_are_compared(self):
        for dtype in TYPES:
            x = np.array([[0, 1], [1, 1]]).astype(dtype)
            got = self.run_op(self.equal, x)
            np.testing.assert_array_equal(got, np.ones((2, 2), bool))

    def test_arithmetic_refuses_by_name(self):
        for dtype in ("float16", "int8", "int16"):
            with self.assertRaisesRegex(TypeError, "elementwise_mul.*x"):
                self.run_op(lambda v: fl.layers.elementwise_mul(v, v),
                            np.zeros((1, 2), dtype))


class RowsOfAScope(unittest.TestCase):
    """One operator over rows of a scope."""

    def rows(self, name, rows, array):
        found = self.scope.var(name).get_selected_rows()
        found.set_height(10)
        found.set_rows(rows)
        found.get_tensor().set(array)
        return found

    def setUp(self):
        self.scope = fl.Scope()

    def test_rows_are_written_over(self):
        a = np.arange(6, dtype="float32").reshape(3, 2)
        found = self.rows("x", [0, 4, 7], a)
        found.get_tensor()._set_dims([3, 2])
        OneOperator("scale", X="x", Out="x", scale=2.0).run(self.scope)
        self.assertEqual((found.rows(), found.height()), ([0, 4, 7], 10))
        np.testing.assert_array_equal(found.get_tensor(), a * 2)

    def test_a_sum_of_rows_some_of_which_are_not_there(self):
        a = np.ones((2, 3), "float32")
        self.rows("none", [], a)
        found = self.rows("x", [5, 2], a)
        OneOperator("sum", X=["none", "x"], Out="x").run(self.scope)
        self.assertEqual(found.rows(), [2, 5])
        np.testing.assert_array_equal(found.get_tensor(), a)

    def test_numbers_where_rows_were_asked_for(self):
        found = self.scope.var("x").get_selected_rows()
        OneOperator("fill_constant", Out="x", shape=[2, 3],
                    value=1.5).run(self.scope)
        np.testing.assert_array_equal(found.get_tensor(),
                                      np.full((2, 3), 1.5, "float32"))


class Types(unittest.TestCase):
    def test_a_word_that_is_no_type_is_both_errors(self):
        for error in (TypeError, ValueError):
            with self.assertRaisesRegex(error, "uint4"):
                fl.layers.fill_constant([1], "uint4", 5)


if __name__ == "__main__":
    unittest.main()
