"""Layers that draw, and the loss over a tree of classes."""
import unittest

import numpy as np

import flotilla as fl
from flotilla import layers
from kit import NetCase


class Draws(NetCase):
    def test_whole_numbers_lie_between_their_limits(self):
        found, = self.run_for(layers.randint(-3, 5, [1000], seed=1))
        self.assertEqual(sorted(set(found)), list(range(-3, 5)))

    def test_one_limit_is_the_upper_one(self):
        found, = self.run_for(layers.randint(2, shape=[100], dtype="int32"))
        self.assertEqual(found.dtype, np.int32)
        self.assertEqual(set(found), {0, 1})

    def test_a_shape_may_be_computed(self):
        n = layers.fill_constant([1], "int32", 4)
        found, = self.run_for(layers.randint(9, shape=[n, 2]))
        self.assertEqual(found.shape, (4, 2))

    def test_limits_and_shapes_that_make_no_sense_are_refused(self):
        for given in ({"low": 3, "high": 3}, {"low": 0}):
            with self.assertRaisesRegex(ValueError, "low must less"):
                layers.randint(**given)
        with self.assertRaises(AssertionError):
            layers.randint(3, shape=[])
        with self.assertRaises(TypeError):
            layers.randint(3, dtype="float32")
        with self.assertRaisesRegex(ValueError, "greater than 0"):
            layers.randperm(0)

    def test_an_order_has_every_number_once(self):
        found, = self.run_for(layers.randperm(50))
        self.assertEqual(sorted(found), list(range(50)))
        self.assertNotEqual(list(found), list(range(50)))

    def test_places_come_as_often_as_their_probabilities_say(self):
        p = fl.data("p", [None, 3])
        found, = self.run_for(layers.sampling_id(p, seed=5), p=np.tile(
            np.array([.2, 0, .8], "f4"), (2000, 1)))
        shares = np.bincount(found, minlength=3) / 2000
        np.testing.assert_allclose(shares, [.2, 0, .8], atol=.05)


class Trees(NetCase):
    def data(self):
        return fl.data("x", [None, 4]), fl.data("label", [None, 1], "int64")

    def test_probabilities_of_all_classes_sum_to_1(self):
        x, label = self.data()
        loss = layers.hsigmoid(x, label, 8)
        rows = np.tile(np.array([.3, -.2, .5, .1], "f4"), (8, 1))
        got, = self.run_for(loss, x=rows,
                            label=np.arange(8, dtype="i8").reshape(-1, 1))
        self.assertAlmostEqual(float(np.exp(-got).sum()), 1, places=5)

    def test_a_sparse_gradient_has_the_nodes_of_the_paths(self):
        x, label = self.data()
        paths = {n: fl.data(n, [None, 3], "int64") for n in ("table", "code")}
        loss = layers.hsigmoid(x, label, 6, path_table=paths["table"],
                               path_code=paths["code"], is_custom=True,
                               is_sparse=True, param_attr=fl.ParamAttr("w"))
        fl.append_backward(layers.mean(loss))
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)
        got, = exe.run(self.main, scope=scope, fetch_list=["w@GRAD"],
                       return_numpy=False, feed={
                           "x": np.ones((2, 4), "f4"),
                           "label": np.array([[0], [1]]),
                           "table": np.array([[0, 2, -1], [0, 1, 4]]),
                           "code": np.array([[0, 1, -1], [1, 0, 0]])})
        self.assertEqual(sorted(got.rows()), [0, 0, 1, 2, 4])

    def test_a_tree_that_is_half_given_is_refused(self):
        x, label = self.data()
        for given, why in (({"num_classes": 1}, "less than 2"),
                           ({"num_classes": 4, "path_code": label}, "only"),
                           ({"num_classes": 4, "is_custom": True,
                             "path_code": label}, "path_table")):
            with self.assertRaisesRegex(ValueError, why):
                layers.hsigmoid(x, label, **given)

    def test_a_node_that_has_no_row_is_named(self):
        x, label = self.data()
        table = fl.data("table", [None, 1], "int64")
        loss = layers.hsigmoid(x, label, 3, path_table=table, path_code=label,
                               is_custom=True)
        with self.assertRaisesRegex(ValueError, r"node 7 at \[1,0\]"):
            self.run_for(loss, x=np.ones((2, 4), "f4"),
                         label=np.array([[0], [1]]),
                         table=np.array([[0], [7]]))


if __name__ == "__main__":
    unittest.main()
