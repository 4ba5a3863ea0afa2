"""Functions of Python's as operators."""
import unittest

import numpy as np

import flotilla as fl
from flotilla import layers
from kit import NetCase


class Odd(Exception):
    pass


class Functions(NetCase):
    def out(self, shape, dtype="float32", name=None):
        return self.main.current_block().create_var(
            name=name or fl.unique_name.generate("out"), shape=shape,
            dtype=dtype)

    def data(self, shape, **more):
        x = fl.data("x", shape, **more)
        x.stop_gradient = False
        return x

    def test_it_sees_values_and_gives_values_of_any_number_of_rows(self):
        x = self.data([None, 2])
        twice = layers.py_func(lambda v: np.repeat(np.array(v), 2, axis=0), x,
                               self.out([-1, 2]))
        total = layers.reduce_sum(twice)
        for n in (1, 3, 2):
            got, sum_ = self.run_for(twice, total, x=np.ones((n, 2), "f4"))
            self.assertEqual((got.shape, float(sum_[0])), ((2 * n, 2), 4 * n))

    def test_gradients_come_from_its_backward_function(self):
        x = self.data([2])
        seen = []

        def back(x_, y, dy):
            seen.append([np.array(v) for v in (x_, y, dy)])
            return np.array(dy) * 2 * np.array(x_)

        y = layers.py_func(lambda v: np.array(v) ** 2, x, self.out([2]), back)
        fl.append_backward(layers.reduce_sum(y * 3.0))
        got, = self.run_for("x@GRAD", x=np.array([2, 5], "f4"))
        np.testing.assert_allclose(got, [12, 30])
        np.testing.assert_allclose(seen[0], [[2, 5], [4, 25], [3, 3]])

    def test_what_is_skipped_is_not_handed_to_backward(self):
        x = self.data([2])
        y = self.out([2])
        layers.py_func(np.tanh, x, y, lambda y_, dy: np.array(dy) *
                       (1 - np.array(y_) ** 2), skip_vars_in_backward_input=x)
        fl.append_backward(layers.reduce_sum(y))
        got, = self.run_for("x@GRAD", x=np.array([0, 1], "f4"))
        np.testing.assert_allclose(got, [1, 1 - np.tanh(1) ** 2], rtol=1e-5)

    def test_without_a_backward_function_nothing_flows_back(self):
        y = layers.py_func(np.array, layers.fc(self.data([None, 2]), 2),
                           self.out([-1, 2]))
        self.assertEqual(fl.append_backward(layers.mean(y)), [])

    def test_several_values_and_their_types(self):
        x = self.data([None, 2])
        outs = [self.out([-1, 2]), self.out([1], "int64")]
        layers.py_func(lambda v: (np.array(v) + 1, np.array([7])), x, outs)
        a, b = self.run_for(*outs, x=np.zeros((1, 2), "f4"))
        np.testing.assert_allclose(a, [[1, 1]])
        self.assertEqual((b.dtype, b[0]), (np.int64, 7))

    def test_what_it_writes_may_be_declared_as_data(self):
        out = fl.data("y", [None, 2])
        layers.py_func(lambda v: np.array(v) + 1, self.data([None, 2]), out)
        got, = self.run_for(out, x=np.ones((3, 2), "f4"))
        np.testing.assert_array_equal(got, np.full((3, 2), 2))

    def test_offsets_go_in_and_out(self):
        x = fl.data("x", [None, 1], lod_level=1)
        y = layers.py_func(lambda v: v, x, self.out([-1, 1]))
        y = layers.sequence_pool(layers.lod_reset(y, x), "sum")
        given = fl.create_lod_tensor(np.ones((5, 1), "f4"), [[2, 3]])
        got, = self.run_for(y, x=given)
        np.testing.assert_allclose(got, [[2], [3]])

    def test_a_function_may_take_nothing_or_give_nothing(self):
        seen = []
        x = layers.py_func(lambda: np.array([4.0], "f4"), None, self.out([1]))
        layers.py_func(lambda v: seen.append(float(np.array(v)[0])), x, None)
        self.run_for()
        self.assertEqual(seen, [4.0])

    def test_what_it_raises_is_raised_by_the_run(self):
        def fails(v):
            raise Odd("not today")

        y = layers.py_func(fails, self.data([1]), self.out([1]))
        for _ in range(2):
            with self.assertRaisesRegex(Odd, "not today"):
                self.run_for(y, x=np.ones(1, "f4"))

    def test_too_many_values_are_refused(self):
        y = layers.py_func(lambda v: (v, v), self.data([1]), self.out([1]))
        with self.assertRaisesRegex(ValueError, "2 values for 1 outputs"):
            self.run_for(y, x=np.ones(1, "f4"))

    def test_nothing_for_an_output_is_refused(self):
        y = layers.py_func(lambda v: None, self.data([1]), self.out([1]))
        with self.assertRaisesRegex(ValueError, "gave None for an output"):
            self.run_for(y, x=np.ones(1, "f4"))

    def test_a_gradient_of_another_size_is_refused(self):
        x = self.data([2])
        y = layers.py_func(np.array, x, self.out([2]),
                           lambda *_: np.ones(3, "f4"))
        fl.append_backward(layers.mean(y))
        with self.assertRaisesRegex(ValueError, "another type or number"):
            self.run_for("x@GRAD", x=np.ones(2, "f4"))

    def test_wrong_arguments_are_named(self):
        x = self.data([1])
        with self.assertRaisesRegex(TypeError, "Python function"):
            layers.py_func(3, x, self.out([1]))
        with self.assertRaisesRegex(TypeError, "X"):
            layers.py_func(np.array, 3, self.out([1]))
        with self.assertRaisesRegex(ValueError, "shapes"):
            layers.py_func(np.array, x, self.main.current_block().create_var(
                name="bare", dtype="float32"))
        with self.assertRaisesRegex(ValueError, "is not found"):
            layers.py_func(np.array, x, self.out([1]), np.array,
                           self.out([1]))


if __name__ == "__main__":
    unittest.main()
