"""Gradients and optimizers."""
import unittest

import numpy as np

import flotilla as fl

RULES = [fl.optimizer.SGD(0.1), fl.optimizer.Momentum(0.1, 0.9),
         fl.optimizer.Adagrad(0.1), fl.optimizer.Adam(0.1),
         fl.optimizer.Adamax(0.1), fl.optimizer.DecayedAdagrad(0.1),
         fl.optimizer.Adadelta(1.0), fl.optimizer.RMSProp(0.05),
         fl.optimizer.Ftrl(0.1), fl.optimizer.Lamb(0.1),
         fl.optimizer.LarsMomentum(1.0, 0.9)]


def line(optimizer):
    """Trains w * x to 3 * x; the losses on the way."""
    main, startup, scope = fl.Program(), fl.Program(), fl.Scope()
    startup.random_seed = 5
    with fl.program_guard(main, startup), fl.unique_name.guard():
        x = fl.layers.data("x", [1])
        y = fl.layers.data("y", [1])
        loss = fl.layers.mean(fl.layers.square_error_cost(
            fl.layers.fc(x, 1), y))
        optimizer.minimize(loss)
    exe = fl.Executor()
    exe.run(startup, scope=scope)
    a = np.linspace(-1, 1, 16, dtype="float32").reshape(16, 1)
    return [float(exe.run(main, feed={"x": a, "y": 3 * a}, fetch_list=[loss],
                          scope=scope)[0][0]) for _ in range(50)]


class Rules(unittest.TestCase):
    def test_every_rule_lowers_the_loss(self):
        for optimizer in RULES:
            with self.subTest(rule=optimizer.type):
                losses = line(optimizer)
                self.assertLess(losses[-1], 0.9 * losses[0])

    def test_a_rate_falls_with_its_schedule(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            x = fl.layers.data("x", [1])
            loss = fl.layers.mean(fl.layers.fc(x, 1))
            rate = fl.layers.exponential_decay(1.0, 1, 0.5)
            fl.optimizer.SGD(rate).minimize(loss)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(startup, scope=scope)
        a = {"x": np.ones((1, 1), "float32")}
        rates = [float(exe.run(main, feed=a, fetch_list=[rate],
                               scope=scope)[0][0]) for _ in range(3)]
        np.testing.assert_allclose(rates, [1, 0.5, 0.25])

    def test_a_learning_rate_is_a_number_or_a_variable(self):
        with self.assertRaises(TypeError):
            fl.optimizer.SGD("fast")


class Gradients(unittest.TestCase):
    def test_of_any_variable(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            x = fl.layers.data("x", [2], stop_gradient=False)
            grad, = fl.gradients(fl.layers.mean(fl.layers.square(x)), x)
        a = np.array([[1, 2]], "float32")
        got, = fl.Executor().run(main, feed={"x": a}, fetch_list=[grad])
        np.testing.assert_allclose(got, a)

    def test_clip_and_decay_come_before_the_update(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            loss = fl.layers.mean(fl.layers.fc(fl.layers.data("x", [2]), 1))
            fl.optimizer.SGD(
                0.1, regularization=fl.regularizer.L2Decay(0.1),
                grad_clip=fl.clip.GradientClipByGlobalNorm(1.0)).minimize(loss)
        kinds = [o.type for o in main.global_block().ops]
        self.assertEqual(kinds[-5:], ["clip_by_global_norm", "weight_decay",
                                      "weight_decay", "sgd", "sgd"])


if __name__ == "__main__":
    unittest.main()
