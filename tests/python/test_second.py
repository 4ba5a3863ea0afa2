"""Gradients of gradients against central differences."""
import unittest

import numpy as np

import flotilla as fl
from flotilla import layers

STEP = 1e-5


class Net:
    """y = build(x0, x1, ...); of the squares of its gradients, summed up, the
    gradient for every x and for what came to y."""

    def __init__(self, build, shapes):
        self.main, self.startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, self.startup), fl.unique_name.guard():
            xs = [self.data(f"x{i}", s) for i, s in enumerate(shapes)]
            y = build(*xs)
            came = self.data("came", y.shape)
            first = fl.gradients([y], xs, [came])
            self.total = layers.sums([layers.reduce_sum(layers.square(g))
                                      for g in first if g is not None])
            self.second = fl.gradients([self.total], xs + [came])
        self.names = [f"x{i}" for i in range(len(shapes))] + ["came"]
        self.shapes = list(shapes) + [y.shape]
        self.exe, self.scope = fl.Executor(), fl.Scope()
        self.exe.run(self.startup, scope=self.scope)

    @staticmethod
    def data(name, shape):
        v = fl.data(name, list(shape), "float64")
        v.stop_gradient = False
        return v

    def draw(self, low, high):
        rng = np.random.RandomState(5)
        return {n: rng.uniform(low, high, s)
                for n, s in zip(self.names, self.shapes)}

    def run(self, feed, *fetches):
        return self.exe.run(self.main, feed=feed, fetch_list=list(fetches),
                            scope=self.scope)

    def difference(self, feed, name):
        found = np.zeros_like(feed[name])
        for at in np.ndindex(found.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = dict(feed)
                moved[name] = feed[name].copy()
                moved[name][at] += step
                ends.append(self.run(moved, self.total)[0].item())
            found[at] = (ends[0] - ends[1]) / (2 * STEP)
        return found


class Second(unittest.TestCase):
    def check(self, build, *shapes, low=0.5, high=1.5):
        net = Net(build, shapes)
        feed = net.draw(low, high)
        for name, grad in zip(net.names, net.second):
            got = 0 if grad is None else net.run(feed, grad)[0]
            np.testing.assert_allclose(
                np.broadcast_to(got, feed[name].shape),
                net.difference(feed, name), rtol=1e-4, atol=1e-5,
                err_msg=name)

    def test_products(self):
        self.check(layers.mul, (2, 3), (3, 2))
        self.check(lambda a, b: layers.matmul(a, b, transpose_y=True),
                   (2, 3), (4, 3))
        self.check(layers.elementwise_mul, (2, 3), (3,))

    def test_ratios(self):
        self.check(layers.elementwise_div, (2, 3), (3,))
        self.check(lambda a: layers.elementwise_div(a, a * a), (2, 3))

    def test_curves(self):
        self.check(layers.square, (2, 3))
        self.check(layers.sqrt, (2, 3))
        self.check(layers.elu, (2, 3), low=-1)
        self.check(lambda a: layers.square(a) * a, (2, 3))

    def test_corners(self):
        self.check(lambda a: layers.relu(a) * a, (2, 3), low=-1)
        self.check(lambda a: layers.square(layers.leaky_relu(a, 0.1)), (2, 3),
                   low=-1)

    def test_what_is_linear(self):
        for build in (lambda a: layers.reshape(a, [3, 2]),
                      lambda a: layers.transpose(a, [1, 0]),
                      lambda a: layers.reduce_mean(a, 1),
                      lambda a: layers.scale(a, 3.0, 1.0),
                      lambda a: layers.concat([a, a * a], 0),
                      lambda a: a[1]):
            self.check(lambda a, build=build: layers.square(build(a)), (2, 3))

    def test_images(self):
        self.check(lambda x: layers.square(layers.conv2d(
            x, 2, 2, padding=1, bias_attr=False)), (1, 2, 3, 3))

    def test_a_gradient_penalty_trains(self):
        """|d out / d x| is pulled to 1."""
        x = fl.data("x", [4, 3])
        x.stop_gradient = False
        out = layers.fc(layers.fc(x, 8, act="relu"), 1)
        slope, = fl.gradients([out], [x])
        norm = layers.sqrt(layers.reduce_sum(layers.square(slope), 1) + 1e-8)
        loss = layers.mean(layers.square(norm - 1.0))
        fl.optimizer.SGD(0.05).minimize(loss)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(fl.default_startup_program(), scope=scope)
        feed = {"x": np.random.RandomState(2).rand(4, 3).astype("f4")}
        losses = [exe.run(feed=feed, fetch_list=[loss], scope=scope)[0].item()
                  for _ in range(100)]
        self.assertLess(losses[-1], 0.1 * losses[0])


if __name__ == "__main__":
    unittest.main()
