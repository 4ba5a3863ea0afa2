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
        self.assertEqual(kinds[-8:], ["elementwise_mul", "elementwise_mul",
                                      "scale", "sum", "scale", "sum", "sgd",
                                      "sgd"])

    def test_a_gradient_of_rows_is_clipped_by_the_norm_of_all(self):
        """An embedding and a matrix, one step of rate 1: what they moved by
        has the norm that they were clipped to."""
        def net():
            ids = fl.layers.data("ids", [1], dtype="int64")
            rows = fl.layers.embedding(ids, [5, 2], is_sparse=True,
                                       param_attr="rows")
            return fl.layers.mean(fl.layers.fc(rows, 1, param_attr="w",
                                               bias_attr=False))

        moved = self.moves(net, {"ids": np.array([[1], [3], [1]])},
                           fl.clip.GradientClipByGlobalNorm(0.25))
        self.assertAlmostEqual(
            np.sqrt(sum((m**2).sum() for m in moved.values())), 0.25, 5)
        self.assertFalse(moved["rows"][[0, 2, 4]].any())

    def test_set_gradient_clip_is_for_the_next_minimization(self):
        def net():
            loss = fl.layers.mean(fl.layers.fc(
                fl.layers.data("x", [2]), 1, param_attr="w", bias_attr=False))
            fl.clip.set_gradient_clip(fl.clip.GradientClipByValue(0.1))
            return loss

        moved = self.moves(net, {"x": np.full((1, 2), 3, "float32")})
        np.testing.assert_allclose(moved["w"], -0.1, rtol=1e-5)

    def test_an_error_clip_limits_what_goes_on_back(self):
        def net():
            h = fl.layers.fc(fl.layers.data("x", [2]), 1, param_attr="w",
                             bias_attr=False)
            h.error_clip = fl.clip.ErrorClipByValue(0.5)
            return fl.layers.mean(h * 8.0)

        moved = self.moves(net, {"x": np.ones((1, 2), "float32")})
        np.testing.assert_allclose(moved["w"], -0.5, rtol=1e-6)

    def test_what_is_computed_again_is_the_same(self):
        def net():
            h = fl.layers.fc(fl.layers.data("x", [3]), 4, act="relu",
                             param_attr="w", bias_attr=False)
            self.kept = fl.layers.fc(h, 4, act="relu", param_attr="u")
            return fl.layers.mean(fl.layers.fc(self.kept, 1, param_attr="v"))

        feed = {"x": np.ones((8, 3), "float32")}
        plain = self.moves(net, feed)
        again = self.moves(net, feed, checkpoints=lambda: [self.kept])
        for name in plain:
            np.testing.assert_allclose(plain[name], again[name], rtol=1e-6)

    def test_dropout_that_is_computed_again_drops_the_same(self):
        main, startup, scope = fl.Program(), fl.Program(), fl.Scope()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            x = fl.layers.data("x", [9])
            kept = fl.layers.fc(fl.layers.dropout(x, 0.5, name="drop"), 1)
            optimizer = fl.optimizer.RecomputeOptimizer(fl.optimizer.SGD(0.1))
            optimizer._set_checkpoints([kept])
            optimizer.minimize(fl.layers.mean(kept))
        exe = fl.Executor()
        exe.run(startup, scope=scope)
        a, b = exe.run(main, feed={"x": np.ones((8, 9), "float32")},
                       fetch_list=["drop.tmp_1", "drop.tmp_1.subprog_0"],
                       scope=scope)
        np.testing.assert_array_equal(a, b)
        self.assertTrue(0 < a.sum() < a.size)

    def test_a_callback_that_would_be_between_gradients_is_refused(self):
        with fl.program_guard(fl.Program(), fl.Program()):
            loss = fl.layers.mean(fl.layers.fc(fl.layers.data("x", [2]), 1))
            with self.assertRaisesRegex(NotImplementedError, "callback"):
                fl.append_backward(loss, callbacks=[print])

    def moves(self, net, feed, clip=None, checkpoints=None):
        """What a step of rate 1 adds to each parameter of a net."""
        main, startup, scope = fl.Program(), fl.Program(), fl.Scope()
        startup.random_seed = 5
        with fl.program_guard(main, startup), fl.unique_name.guard():
            loss = net()
            optimizer = fl.optimizer.SGD(1.0, grad_clip=clip)
            if checkpoints:
                optimizer = fl.optimizer.RecomputeOptimizer(optimizer)
                optimizer._set_checkpoints(checkpoints())
            optimizer.minimize(loss)
        exe = fl.Executor()
        exe.run(startup, scope=scope)
        names = [p.name for p in main.all_parameters()]

        def values():
            return {n: np.array(scope.find_var(n).get_tensor()) for n in names}

        before = values()
        exe.run(main, feed=feed, scope=scope)
        return {n: v - before[n] for n, v in values().items()}


class Around(unittest.TestCase):
    def test_the_mean_of_a_window_is_applied_and_taken_back(self):
        main, startup, scope = fl.Program(), fl.Program(), fl.Scope()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            x = fl.layers.data("x", [1])
            loss = fl.layers.mean(fl.layers.fc(x, 1, param_attr=fl.ParamAttr(
                "w", fl.initializer.Constant(4.0)), bias_attr=False))
            fl.optimizer.SGD(1.0).minimize(loss)
            average = fl.optimizer.ModelAverage(1.0, 2, 100)
        exe = fl.Executor()
        with fl.scope_guard(scope):
            exe.run(startup)
            for _ in range(3):
                exe.run(main, feed={"x": np.ones((1, 1), "float32")})

            def w():
                return float(np.array(scope.find_var("w").get_tensor()).item())

            with average.apply(exe):
                self.assertAlmostEqual(w(), 2.0, 5)
            self.assertAlmostEqual(w(), 1.0, 5)

    def test_lookahead_moves_as_in_1_8_5(self):
        """Weights, fast and slow, that PaddlePaddle 1.8.5 gives."""
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            x, y = fl.data("x", [None, 3]), fl.data("y", [None, 1])
            out = fl.layers.fc(x, 1, param_attr=fl.ParamAttr(
                name="w", initializer=fl.initializer.Constant(0.3)))
            loss = fl.layers.mean(fl.layers.square_error_cost(out, y))
            fl.optimizer.LookaheadOptimizer(fl.optimizer.Adagrad(0.2),
                                            alpha=0.4, k=3).minimize(loss)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(startup, scope=scope)
        rng, found = np.random.RandomState(5), []
        for _ in range(7):
            a = rng.rand(4, 3).astype("float32")
            found.append(exe.run(main, {"x": a, "y": a.sum(1, keepdims=True)},
                                 ["w", "w@SLOW"], scope=scope))
        for step, fast, slow in ((2, [0.562428, 0.560648, 0.595632], [0.3] * 3),
                                 (3, [0.430002, 0.426603, 0.431802], None),
                                 (6, [0.520141, 0.524774, 0.527915], None),
                                 (7, [0.568492, 0.610857, 0.623510],
                                  [0.520141, 0.524774, 0.527915])):
            for got, want in zip(found[step - 1], (fast, slow or fast)):
                np.testing.assert_allclose(got.ravel(), want, atol=2e-6)

    def test_what_is_for_gpus_alone_says_so(self):
        for make in (lambda: fl.optimizer.PipelineOptimizer(None),
                     lambda: fl.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0)):
            with self.assertRaises(NotImplementedError):
                make()


class LeftOut(unittest.TestCase):
    def update(self, **slots):
        from flotilla.fluid import OneOperator
        scope = fl.Scope()
        for name, value in (("p", 1.0), ("s", 3.0), ("v", 0.5), ("g", 2.0),
                            ("lr", 0.1)):
            scope.var(name).get_tensor().set(np.full(1, value, "float32"),
                                             fl.CPUPlace())
        OneOperator("rmsprop", Param="p", MeanSquare="s", Moment="v", Grad="g",
                    LearningRate="lr", ParamOut="p", MeanSquareOut="s",
                    MomentOut="v", decay=0.5, momentum=0.1, epsilon=0.0,
                    **slots).run(scope, fl.CPUPlace())
        return np.array(scope.find_var("p").get_tensor())

    def test_what_is_not_centred_needs_no_mean(self):
        np.testing.assert_allclose(
            self.update(centered=False),
            [1 - (0.1 * 0.5 + 0.1 * 2 / np.sqrt(0.5 * 3 + 0.5 * 4))],
            rtol=1e-6)

    def test_what_is_centred_needs_one(self):
        with self.assertRaisesRegex(Exception, "MeanGrad has 0 variables"):
            self.update(centered=True)


if __name__ == "__main__":
    unittest.main()
