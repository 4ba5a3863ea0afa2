"""Parts of variables."""
import unittest

import numpy as np

import flotilla as fl

ARRAY = np.arange(27, dtype="float32").reshape(3, 3, 3)


class Parts(unittest.TestCase):
    def run_with(self, build):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            out = build(fl.layers.assign(ARRAY))
        return fl.Executor().run(main, fetch_list=[out])[0]

    def check(self, item):
        got = self.run_with(lambda v: v[item])
        want = ARRAY[item]
        np.testing.assert_array_equal(got, np.reshape(want, want.shape or [1]))

    def test_as_numpy_has_them(self):
        for item in (0, -1, slice(1, None), (slice(None), 1),
                     (0, 1, 1), (1, slice(1, None), slice(1, None)),
                     (slice(None), slice(None), slice(None, -1)),
                     (Ellipsis, -1), (0, Ellipsis), slice(2, 10)):
            self.check(item)

    def test_steps(self):
        for item in (slice(None, None, -1), (slice(None), slice(None, None, 2)),
                     (slice(None, None, -1), slice(0, 1), slice(None, -1)),
                     (slice(1, 2), slice(2, None), slice(None, None, -1))):
            self.check(item)

    def test_all_of_it_is_a_copy(self):
        self.check(slice(None))

    def test_a_place_that_a_run_tells(self):
        got = self.run_with(
            lambda v: v[fl.layers.fill_constant([1], "int32", 2)])
        np.testing.assert_array_equal(got, ARRAY[2])

    def test_limits_and_a_step_that_a_run_tells(self):
        def number(n):
            return fl.layers.fill_constant([1], "int32", n)

        got = self.run_with(lambda v: v[number(-1):0:number(-1), 1])
        np.testing.assert_array_equal(got, ARRAY[-1:0:-1, 1])

    def test_shapes_are_known(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            v = fl.data("x", [None, 4, 5])
            self.assertEqual(v[:, 0].shape, (-1, 5))
            self.assertEqual(v[..., 1:3].shape, (-1, 4, 2))

    def test_gradients_flow(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            v = fl.data("x", [3, 2])
            v.stop_gradient = False
            g, = fl.gradients(fl.layers.reduce_sum(v[1] + v[::-1][0]), v)
        got, = fl.Executor().run(main, feed={"x": np.ones((3, 2), "float32")},
                                 fetch_list=[g])
        np.testing.assert_array_equal(got, [[0, 0], [1, 1], [1, 1]])

    def test_a_variable_is_no_sequence(self):
        with fl.program_guard(fl.Program(), fl.Program()):
            with self.assertRaisesRegex(TypeError, "iterable"):
                list(fl.data("x", [3]))

    def test_what_is_no_subscript(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            v = fl.data("x", [None, 4])
            for item, error in ((("a",), TypeError), ((0, 0, 0), IndexError),
                                ((Ellipsis, Ellipsis), IndexError)):
                with self.assertRaises(error):
                    v[item]


if __name__ == "__main__":
    unittest.main()
