"""Losses, and weights that are learned in parts: numbers of PaddlePaddle 1.8.5,
and what is refused."""
import unittest

import numpy as np

import flotilla as fl
from kit import NetCase

L = fl.layers


class Sampled(NetCase):
    def given(self):
        logits = L.data("x", [6])
        logits.stop_gradient = False
        return L.sampled_softmax_with_cross_entropy(
            logits, L.data("y", [1], dtype="int64"), 3,
            use_customized_samples=True,
            customized_samples=L.data("s", [4], dtype="int64"),
            customized_probabilities=L.data("p", [4]))

    def test_samples_that_are_given(self):
        r = np.random.RandomState(3)
        x = r.rand(3, 6).astype("float32")
        y = r.randint(0, 6, (3, 2)).astype("int64")[:, :1]
        s = np.concatenate([y, [[0, 1, 2]] * 3], 1).astype("int64")
        p = r.rand(3, 5).astype("float32")[:, :4].copy()
        loss = self.given()
        fl.append_backward(L.mean(loss))
        found, dx = self.run_for([loss, "x@GRAD"], x=x, y=y, s=s, p=p)
        np.testing.assert_allclose(found, [[1.3868], [2.4815], [0.6622]],
                                   atol=1e-4)
        np.testing.assert_allclose(
            dx, [[0.1258, 0.089, 0.0352, 0, 0, -0.25],
                 [0.0074, -0.3055, 0.2981, 0, 0, 0],
                 [0.0673, 0.0942, -0.1614, 0, 0, 0]], atol=1e-4)

    def test_a_seed_draws_the_same_again(self):
        x, y = L.data("x", [50]), L.data("y", [1], dtype="int64")
        losses = [L.sampled_softmax_with_cross_entropy(x, y, 5, seed=s)
                  for s in (1, 2)]
        feed = {"x": np.arange(50, dtype="float32").reshape(1, 50),
                "y": np.array([[7]])}
        one, two = self.run_for(losses, **feed)
        again = self.run_for(losses, **feed)
        np.testing.assert_array_equal([one, two], again)
        self.assertNotEqual(one, two)

    def test_more_different_classes_than_there_are(self):
        with self.assertRaisesRegex(ValueError, "num_samples=7 is not in 1..6"):
            L.sampled_softmax_with_cross_entropy(
                L.data("x", [6]), L.data("y", [1], dtype="int64"), 7)


class Stable(NetCase):
    def test_large_scores_overflow_in_no_mode(self):
        x, y = L.data("x", [3]), L.data("y", [1], dtype="int64")
        loss, softmax = L.softmax_with_cross_entropy(
            x, y, numeric_stable_mode=False, return_softmax=True)
        found = self.run_for([loss, softmax], y=np.array([[0], [0]]),
                             x=np.float32([[100, 1000, -5],
                                           [-1000, -999, -1001]]))
        np.testing.assert_allclose(found[0], [[64], [1.4076059]], rtol=1e-6)
        np.testing.assert_allclose(
            found[1], [[0, 1, 0], [0.24472848, 0.66524094, 0.09003057]],
            atol=1e-6)


class Noise(NetCase):
    def test_a_seed_draws_the_same_noise_under_any_name(self):
        x, y = L.data("x", [3]), L.data("y", [1], dtype="int64")
        one, two, other = (
            L.nce(x, y, 50, num_neg_samples=3, param_attr="w", bias_attr="b",
                  seed=seed) for seed in (5, 5, 6))
        found = self.run_for(one, two, other,
                             x=np.ones((4, 3), "float32"),
                             y=np.arange(4).reshape(4, 1))
        np.testing.assert_array_equal(found[0], found[1])
        self.assertTrue((found[0] != found[2]).any())


class Centers(NetCase):
    def test_centers_follow_their_rows(self):
        x, y = L.data("x", [2]), L.data("y", [1], dtype="int64")
        loss = L.center_loss(x, y, 2, 0.5, fl.initializer.Constant(1.0))
        rows = np.array([[1, 3], [1, 1], [2, 1]], "float32")
        found, centers = self.run_for(
            [loss, self.main.all_parameters()[0]], x=rows,
            y=np.array([[0], [0], [1]]))
        np.testing.assert_allclose(found, [[2], [0], [0.5]])
        np.testing.assert_allclose(centers, [[1, 1 + 0.5 * 2 / 3],
                                             [1.25, 1]], rtol=1e-6)

    def test_a_rate_that_is_no_float(self):
        with self.assertRaisesRegex(TypeError, "alpha"):
            L.center_loss(L.data("x", [2]), L.data("y", [1], dtype="int64"),
                          2, 1, None)


class Tags(NetCase):
    def test_a_chain_learns_its_tags(self):
        words = L.data("w", [1], dtype="int64", lod_level=1)
        tags = L.data("t", [1], dtype="int64", lod_level=1)
        scores = L.embedding(words, [4, 3])
        cost = L.linear_chain_crf(scores, tags, fl.ParamAttr("chain"))
        found = L.crf_decoding(scores, fl.ParamAttr("chain"))
        right = L.crf_decoding(scores, fl.ParamAttr("chain"), label=tags)
        f1 = L.chunk_eval(found, tags, "plain", 2)[2]
        fl.optimizer.SGD(0.5).minimize(L.mean(cost))
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)

        def fed(values):
            return fl.create_lod_tensor(np.array(values).reshape(-1, 1),
                                        [[3, 2]], fl.CPUPlace())

        feed = {"w": fed([0, 1, 2, 3, 1]), "t": fed([0, 1, 2, 0, 1])}
        for _ in range(30):
            got = exe.run(self.main, feed=feed, scope=scope,
                          fetch_list=[found, right, f1], return_numpy=False)
        self.assertEqual(np.array(got[0]).ravel().tolist(), [0, 1, 2, 0, 1])
        self.assertEqual(np.array(got[1]).ravel().tolist(), [1] * 5)
        self.assertEqual(float(np.array(got[2])[0]), 1.0)

    def test_weights_that_no_layer_has_made(self):
        with self.assertRaisesRegex(ValueError, "nobody"):
            L.crf_decoding(L.data("x", [3], lod_level=1),
                           fl.ParamAttr("nobody"))


class ByTag(NetCase):
    def test_rows_of_a_tag_are_kept(self):
        ins = L.data("x", [2])
        tags = L.data("t", [1], dtype="int64", lod_level=1)
        wanted = L.data("w", [1], dtype="int64", append_batch_size=False)
        out, weight = L.filter_by_instag(ins, tags, wanted, False)
        fed = fl.create_lod_tensor(np.array([[1], [2], [1]]), [[1, 1, 1]],
                                   fl.CPUPlace())
        rows = np.arange(6, dtype="float32").reshape(3, 2)
        found, counts = self.run_for([out, weight], x=rows, t=fed,
                                     w=np.array([1]))
        np.testing.assert_array_equal(found, rows[[0, 2]])
        np.testing.assert_array_equal(counts, [[1], [1]])
        found, counts = self.run_for([out, weight], x=rows, t=fed,
                                     w=np.array([7]))
        np.testing.assert_array_equal(found, [[0, 0]])
        np.testing.assert_array_equal(counts, [[0]])


class NoShape(NetCase):
    def test_a_variable_without_a_shape_takes_that_of_its_feed(self):
        x = L.create_tensor("float32", name="input")
        y = L.create_tensor("float32", name="label")
        loss = L.mse_loss(x, y)
        for shape in ((2, 3), (4,)):
            a = np.full(shape, 3, "float32")
            found = self.run_for([loss], input=a, label=a - 2)[0]
            np.testing.assert_allclose(found, [4])


class WeightNorm(NetCase):
    def norm_of(self, dim):
        first = np.arange(1, 13, dtype="float32").reshape(3, 4)
        out = L.fc(L.data("x", [3]), 4, bias_attr=False,
                   param_attr=fl.WeightNormParamAttr(
                       dim, "w",
                       fl.initializer.NumpyArrayInitializer(first)))
        fl.optimizer.SGD(0.1).minimize(L.mean(out))
        x = np.eye(3, dtype="float32")
        found, g, dg = self.run_for([out, "w_g", "w_g@GRAD"], x=x)
        np.testing.assert_allclose(found, first, rtol=1e-5)
        self.assertEqual(g.shape, dg.shape)
        return g.shape

    def test_a_weight_begins_as_its_direction(self):
        self.assertEqual(self.norm_of(None), (1, 1))

    def test_a_length_for_each_row(self):
        self.assertEqual(self.norm_of(0), (3, 1))

    def test_a_length_for_each_column(self):
        self.assertEqual(self.norm_of(1), (1, 4))


if __name__ == "__main__":
    unittest.main()
