"""Layers: names, operators, shapes, and what they compute."""
import unittest

import numpy as np

import flotilla as fl
from kit import NetCase


class Layers(NetCase):
    def kinds(self):
        return [o.type for o in self.main.global_block().ops]

    def test_fc_is_named_as_in_fluid(self):
        out = fl.layers.fc(fl.layers.data("x", [3]), 4, act="relu")
        self.assertEqual(self.kinds(), ["mul", "elementwise_add", "relu"])
        self.assertEqual(out.name, "fc_0.tmp_2")
        self.assertEqual(out.shape, (-1, 4))
        self.assertEqual([p.name for p in self.main.all_parameters()],
                         ["fc_0.w_0", "fc_0.b_0"])

    def test_fc_of_two_inputs_adds_them_up(self):
        x = [fl.layers.data("a", [3]), fl.layers.data("b", [2])]
        fl.layers.fc(x, 4, bias_attr=False)
        self.assertEqual(self.kinds(), ["mul", "mul", "sum"])

    def test_a_parameter_of_a_name_is_shared(self):
        ids = [fl.layers.data(n, [1], dtype="int64") for n in "ab"]
        for i in ids:
            fl.layers.embedding(i, [10, 4], param_attr="shared")
        self.assertEqual([p.name for p in self.main.all_parameters()],
                         ["shared"])

    def test_a_shared_parameter_of_another_shape_is_refused(self):
        ids = fl.layers.data("a", [1], dtype="int64")
        fl.layers.embedding(ids, [10, 4], param_attr="shared")
        with self.assertRaisesRegex(ValueError, "shared"):
            fl.layers.embedding(ids, [10, 5], param_attr="shared")

    def test_arithmetic_reads_as_it_is_written(self):
        x = fl.layers.data("x", [2])
        out = (2.0 - x * 3.0) / (x + 1.0)
        a = np.array([[1, 2]], "float32")
        np.testing.assert_allclose(self.run_for(out, x=a)[0],
                                   (2 - a * 3) / (a + 1), rtol=1e-6)

    def test_functions_of_one_number_come_from_descriptors(self):
        x = fl.layers.data("x", [2])
        a = np.array([[-1, 2]], "float32")
        np.testing.assert_allclose(
            self.run_for(fl.layers.leaky_relu(x, alpha=0.1), x=a)[0],
            [[-0.1, 2]], rtol=1e-6)

    def test_a_setting_that_there_is_not(self):
        with self.assertRaisesRegex(TypeError, "leaky_relu.*beta"):
            fl.layers.leaky_relu(fl.layers.data("x", [2]), beta=1.0)

    def test_what_is_no_variable_is_a_type_error(self):
        with self.assertRaises(TypeError):
            fl.layers.fc([1, 2], 3)

    def test_a_loss_of_two_classes(self):
        x = fl.layers.data("x", [2])
        y = fl.layers.data("y", [1], dtype="int64")
        loss = fl.layers.mean(fl.layers.softmax_with_cross_entropy(x, y))
        got, = self.run_for(loss, x=np.zeros((3, 2), "float32"),
                           y=np.zeros((3, 1), "int64"))
        np.testing.assert_allclose(got, [np.log(2)], rtol=1e-6)

    def test_auc_counts_over_runs(self):
        p = fl.layers.data("p", [2])
        y = fl.layers.data("y", [1], dtype="int64")
        auc, _, _ = fl.layers.auc(p, y)
        got, = self.run_for(auc, p=np.array([[.9, .1], [.2, .8]], "float32"),
                           y=np.array([[0], [1]]))
        self.assertEqual(float(got[0]), 1.0)


if __name__ == "__main__":
    unittest.main()
