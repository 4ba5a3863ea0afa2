"""Distributions against the formulas, in numpy."""
import math
import unittest

import numpy as np

import flotilla as fl
from kit import NetCase

L = fl.layers


class Distributions(NetCase):
    def test_draws_lie_where_they_should(self):
        low, high = [1.0, 10.0], [2.0, 20.0]
        out = L.Uniform(low, high).sample([500])
        found, = self.run_for(out)
        self.assertEqual(found.shape, (500, 2))
        self.assertTrue((found >= low).all() and (found < high).all())

    def test_draws_of_an_open_batch_belong_to_their_rows(self):
        loc, scale = L.data("loc", [2]), L.data("scale", [2])
        out = L.Normal(loc, scale).sample([300])
        means = np.array([[0, 10], [20, 30], [40, 50]], "float32")
        found, = self.run_for(out, loc=means,
                              scale=np.full([3, 2], 0.1, "float32"))
        self.assertEqual(found.shape, (300, 3, 2))
        np.testing.assert_allclose(found.mean(axis=0), means, atol=0.1)

    def test_two_numbers_draw_the_shape_itself(self):
        self.assertEqual(self.run_for(L.Normal(0.0, 1.0).sample([3, 2]))[0]
                         .shape, (3, 2))

    def test_uniform(self):
        d = L.Uniform(1.0, 3.0)
        v = L.assign(np.array([2.0, 5.0], "float32"))
        entropy, density = self.run_for(d.entropy(), d.log_prob(v))
        np.testing.assert_allclose(entropy, [math.log(2)], rtol=1e-6)
        np.testing.assert_allclose(density, [-math.log(2), -math.inf],
                                   rtol=1e-6)

    def test_normal(self):
        a, b = L.Normal([0.0], [1.0]), L.Normal([0.5], [2.0])
        v = L.assign(np.array([0.3], "float32"))
        entropy, density, far = self.run_for(
            a.entropy(), b.log_prob(v), a.kl_divergence(b))
        np.testing.assert_allclose(
            entropy, [0.5 + 0.5 * math.log(2 * math.pi)], rtol=1e-6)
        np.testing.assert_allclose(
            density, [-0.5 * 0.01 - math.log(2 * math.sqrt(2 * math.pi))],
            rtol=1e-5)
        np.testing.assert_allclose(
            far, [0.5 * (0.25 + 0.0625 - 1 - math.log(0.25))], rtol=1e-5)

    def test_categorical(self):
        a, b = np.array([[1, 2, 3]], "float32"), np.array([[1, 1, 0]], "float32")
        p, q = (np.exp(v) / np.exp(v).sum() for v in (a, b))
        one, other = L.Categorical(a), L.Categorical(b)
        entropy, far = self.run_for(one.entropy(), one.kl_divergence(other))
        np.testing.assert_allclose(entropy, [[-(p * np.log(p)).sum()]],
                                   rtol=1e-5)
        np.testing.assert_allclose(far, [[(p * np.log(p / q)).sum()]],
                                   rtol=1e-5)

    def test_vectors(self):
        a = L.MultivariateNormalDiag([0.3, 0.5], [[0.4, 0.0], [0.0, 0.5]])
        b = L.MultivariateNormalDiag([0.2, 0.4], [[0.3, 0.0], [0.0, 0.4]])
        entropy, far = self.run_for(a.entropy(), a.kl_divergence(b))
        want = 0.5 * (2 * (1 + math.log(2 * math.pi)) + math.log(0.2))
        np.testing.assert_allclose(entropy, [want], rtol=1e-5)
        want = 0.5 * (0.4 / 0.3 + 0.5 / 0.4 + 0.01 / 0.3 + 0.01 / 0.4 - 2 +
                      math.log(0.12 / 0.2))
        np.testing.assert_allclose(far, [want], rtol=1e-4)

    def test_variables_and_numbers_do_not_mix(self):
        with self.assertRaisesRegex(ValueError, "all arguments"):
            L.Normal(L.data("x", [1]), 1.0)
        with self.assertRaises(TypeError):
            L.Uniform(1, 2.0)


if __name__ == "__main__":
    unittest.main()
