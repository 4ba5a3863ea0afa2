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

    def test_numbers_roll_as_one_row_or_along_axes(self):
        x = fl.layers.data("x", [2, 3], append_batch_size=False)
        a = np.arange(6, dtype="float32").reshape(2, 3)
        flat, both = self.run_for(fl.layers.roll(x, 1),
                                  fl.layers.roll(x, [1, -1], [0, 1]), x=a)
        np.testing.assert_array_equal(flat, np.roll(a, 1))
        np.testing.assert_array_equal(both, np.roll(a, [1, -1], (0, 1)))

    def test_products_and_distances_are_those_of_numpy(self):
        x, y = (fl.layers.data(n, [3]) for n in "xy")
        a, b = np.random.default_rng(1).random((2, 2, 3), "float32")
        found = self.run_for(
            fl.layers.cross(x, y), fl.layers.kron(x, y),
            fl.layers.dist(x, y, 3), fl.layers.frobenius_norm(x, dim=[1]),
            x=a, y=b)
        want = (np.cross(a, b), np.kron(a, b),
                (np.abs(a - b) ** 3).sum() ** (1 / 3),
                np.sqrt((a * a).sum(axis=1)))
        for f, w in zip(found, want):
            np.testing.assert_allclose(np.squeeze(f), w, rtol=1e-5)

    def test_diagonals_and_grids(self):
        x = fl.layers.data("x", [3])
        u = fl.layers.data("u", [2], append_batch_size=False)
        a = np.arange(6, dtype="float32").reshape(2, 3)
        matrices = fl.layers.diag_embed(x, offset=1)
        first, second = fl.layers.meshgrid([u, u])
        found, sums, one, other = self.run_for(
            matrices, fl.layers.trace(matrices, 1, 1, 2), first, second, x=a,
            u=a[0, :2])
        np.testing.assert_array_equal(found[1], np.diag(a[1], 1))
        np.testing.assert_array_equal(sums, a.sum(axis=1))
        np.testing.assert_array_equal(one, other.T)

    def test_a_part_begins_where_a_variable_says(self):
        x = fl.layers.data("x", [4, 5], append_batch_size=False)
        at = fl.layers.data("at", [1], append_batch_size=False,
                            dtype="int32")
        a = np.arange(20, dtype="float32").reshape(4, 5)
        found, = self.run_for(
            fl.layers.crop_tensor(x, [2, -1], [at, 3]), x=a,
            at=np.array([1], "int32"))
        np.testing.assert_array_equal(found, a[1:3, 3:])
        with self.assertRaises(ValueError):
            fl.layers.crop_tensor(x, [0, 2])

    def test_parts_along_an_axis_of_known_length(self):
        x = fl.layers.data("x", [2])
        a = np.arange(6, dtype="float32").reshape(3, 2)
        found = self.run_for(*fl.layers.unbind(x, 1), x=a)
        np.testing.assert_array_equal(found, a.T)
        with self.assertRaisesRegex(ValueError, "open"):
            fl.layers.unbind(x, 0)

    def test_whole_numbers_are_added_up(self):
        x = fl.layers.data("x", [2], dtype="int64")
        a = np.array([[1 << 60, 3], [5, -7]])
        total, least = self.run_for(fl.layers.reduce_sum(x),
                                    fl.layers.reduce_min(x, dim=1), x=a)
        self.assertEqual(total.tolist(), [(1 << 60) + 1])
        self.assertEqual(least.tolist(), [3, -7])

    def test_labels_need_an_axis_of_one(self):
        x = fl.layers.data("x", [1], append_batch_size=False, dtype="int64")
        with self.assertRaisesRegex(ValueError, "two axes"):
            fl.layers.one_hot(x, 9)

    def test_only_rows_and_values_become_a_tensor(self):
        with self.assertRaisesRegex(TypeError, "SelectedRows"):
            fl.layers.get_tensor_from_selected_rows(fl.layers.data("x", [1]))

    def test_words_match_words(self):
        from flotilla import contrib
        x, y = (fl.layers.data(n, [2], lod_level=1) for n in "xy")
        match, _ = contrib.match_matrix_tensor(
            x, y, 2, param_attr=fl.ParamAttr(
                initializer=fl.initializer.Constant(1.0)))
        best = contrib.sequence_topk_avg_pooling(match, x, y, [1, 3], 2)
        a = np.array([[1, 1], [2, 0], [3, 1]], "float32")
        found, means = self.run_for(
            match, best, x=fl.create_lod_tensor(a, [[2, 1]], fl.CPUPlace()),
            y=fl.create_lod_tensor(a, [[1, 2]], fl.CPUPlace()))
        self.assertEqual(found.ravel().tolist(),
                         [4, 4, 4, 4, 8, 16, 8, 16])
        np.testing.assert_allclose(means[2], [16, 8, 16, 8])

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

    def test_a_batch_is_shuffled_row_by_row(self):
        from flotilla import contrib
        out = contrib.shuffle_batch(fl.layers.data("x", [2]), 7)
        rows = np.arange(20, dtype="float32").reshape(10, 2)
        found, = self.run_for(out, x=rows)
        self.assertEqual(sorted(map(tuple, found)), list(map(tuple, rows)))
        self.assertNotEqual(list(map(tuple, found)), list(map(tuple, rows)))

    def test_sums_of_a_job_of_clicks_grow_from_batch_to_batch(self):
        from flotilla import contrib
        p, clicks = (fl.layers.data(n, [1]) for n in "pc")
        sums = contrib.ctr_metric_bundle(p, clicks)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)
        feed = {"p": np.full((3, 1), 0.5, "float32"),
                "c": np.array([[1], [0], [1]], "float32")}
        for batch in (1, 2):
            found = exe.run(self.main, feed=feed, fetch_list=list(sums),
                            scope=scope)
            want = np.array([0.75, 1.5, 1.5, 3 / (1 + np.exp(-0.5)), 2, 3])
            np.testing.assert_allclose([float(v[0]) for v in found],
                                       batch * want, rtol=1e-6)

    def test_rows_of_ids_are_added_up_over_sequences(self):
        from flotilla import contrib
        ids = fl.layers.data("ids", [1], dtype="int64", lod_level=1)
        out = contrib.fused_embedding_seq_pool(
            ids, [9, 2], param_attr=fl.ParamAttr(
                initializer=fl.initializer.Constant(2.0)))
        fed = fl.create_lod_tensor(np.array([[1], [2], [3]]), [[1, 2]],
                                   fl.CPUPlace())
        np.testing.assert_array_equal(self.run_for(out, ids=fed)[0],
                                      [[2, 2], [4, 4]])
        self.assertEqual([p.name for p in self.main.all_parameters()],
                         ["fused_embedding_seq_pool_0.w_0"])


if __name__ == "__main__":
    unittest.main()
