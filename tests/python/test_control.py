"""Conditions, loops, recurrent nets, arrays, images."""
import tempfile
import unittest

import numpy as np

import flotilla as fl
from flotilla import layers
from kit import NetCase


class Case(NetCase):
    def data(self, name, shape, dtype="float32", smooth=True):
        v = fl.data(name, shape, dtype)
        v.stop_gradient = not smooth
        return v

    def tearDown(self):
        """Whatever a test has built is read again from its text."""
        self.assertEqual(str(fl.Program.from_text(str(self.main))),
                         str(self.main))


def number(value, dtype="int64"):
    return layers.fill_constant([1], dtype, value)


class Conditions(Case):
    def test_cond_runs_one_branch_and_its_gradient(self):
        x = self.data("x", [2])
        less = self.data("less", [1], "bool", smooth=False)
        out = layers.cond(less, lambda: x * x, lambda: x * 3.0)
        fl.append_backward(layers.mean(out))
        for chosen, want, slope in ((True, [1, 4], [1, 2]),
                                    (False, [3, 6], [1.5, 1.5])):
            got, grad = self.run_for(out, "x@GRAD", x=np.array([1, 2], "f4"),
                                     less=np.array([chosen]))
            np.testing.assert_allclose(got, want)
            np.testing.assert_allclose(grad, slope)

    def test_what_is_made_of_data_alone_has_a_gradient_too(self):
        i = fl.data("i", [1])
        a = i * 2.0
        out = layers.cond(layers.less_than(i, number(5.0, "float32")),
                          lambda: layers.cond(
                              layers.less_than(i, number(3.0, "float32")),
                              lambda: a - a, lambda: a + a),
                          lambda: a * a)
        fl.append_backward(layers.mean(out))
        for value, want, slope in ((1, 0, 0), (4, 16, 2), (6, 144, 24)):
            got, grad = self.run_for(out, a.grad_name,
                                     i=np.array([value], "f4"))
            self.assertEqual((got[0], grad[0]), (want, slope))

    def test_what_an_inner_condition_does_not_write_stays_as_it_was(self):
        x, y = self.data("x", [1]), self.data("y", [1])
        out = layers.assign(x * 2.0)
        zero = number(0.0, "float32")
        with layers.Switch() as outer:
            with outer.case(layers.less_than(zero, x)):
                with layers.Switch() as inner:
                    with inner.case(layers.less_than(zero, y)):
                        layers.assign(x * y * 3.0, out)
        for a, b, want in ((2, 5, 30), (2, -5, 4), (-2, 5, -4)):
            got, = self.run_for(out, x=np.array([a], "f4"),
                                y=np.array([b], "f4"))
            self.assertEqual(got[0], want)

    def test_an_array_keeps_the_entries_that_a_block_does_not_write(self):
        x = self.data("x", [1])
        first, second = number(0), number(1)
        array = layers.array_write(x * 2.0, first)
        layers.array_write(x * 5.0, second, array=array)
        with layers.Switch() as switch:
            with switch.case(layers.less_than(number(0.0, "float32"), x)):
                layers.array_write(x * 3.0, second, array=array)
        found = [layers.array_read(array, i) for i in (first, second)]
        for value, want in ((2, [4, 6]), (-2, [-4, -10])):
            got = self.run_for(*found, x=np.array([value], "f4"))
            self.assertEqual([v[0] for v in got], want)

    def test_cond_gives_structures_and_refuses_different_ones(self):
        c = self.data("c", [1], "bool", smooth=False)
        a, (b,) = layers.cond(c, lambda: (number(1), [number(2)]),
                              lambda: (number(3), [number(4)]))
        self.assertEqual([int(v[0]) for v in
                          self.run_for(a, b, c=np.array([False]))], [3, 4])
        with self.assertRaisesRegex(ValueError, "Incompatible return values"):
            layers.cond(c, lambda: (number(1), number(2)),
                        lambda: (number(3),))

    def test_case_takes_the_first_that_holds(self):
        x = self.data("x", [1])
        out = layers.case([(layers.less_than(x, number(1.0, "float32")),
                            lambda: number(10)),
                           (layers.less_than(x, number(2.0, "float32")),
                            lambda: number(20))], default=lambda: number(30))
        self.assertEqual([int(self.run_for(out, x=np.array([v], "f4"))[0][0])
                          for v in (0.5, 1.5, 2.5)], [10, 20, 30])

    def test_switch_case_falls_back_to_the_highest(self):
        i = self.data("i", [1], "int64", smooth=False)
        out = layers.switch_case(i, {1: lambda: number(10),
                                     3: lambda: number(30)})
        self.assertEqual([int(self.run_for(out, i=np.array([v]))[0][0])
                          for v in (1, 3, 7)], [10, 30, 30])

    def test_switch_assigns_in_the_case_that_holds(self):
        x = self.data("x", [1])
        out = layers.create_global_var([1], 0.0, "float32", persistable=True)
        with layers.Switch() as switch:
            with switch.case(layers.less_than(x, number(1.0, "float32"))):
                layers.assign(number(1.0, "float32"), out)
            with switch.default():
                layers.assign(number(2.0, "float32"), out)
        self.assertEqual([float(self.run_for(out, x=np.array([v], "f4"))[0][0])
                          for v in (0.5, 3.0)], [1.0, 2.0])

    def gradient_of_a_change(self, reads):
        """Of the sum of squares of h = 3 x, which becomes twice itself, or 10
        x, when c holds."""
        x = self.data("x", [2])
        c = self.data("c", [1], "bool", smooth=False)
        h, z = layers.scale(x, 3.0), layers.scale(x, 5.0)
        with layers.ConditionalBlock([c], is_scalar_condition=True).block():
            layers.assign(layers.scale(h if reads else z, 2.0), h)
        fl.append_backward(layers.reduce_sum(layers.square(h)))
        return [self.run_for("x@GRAD", x=np.ones(2, "f4"),
                             c=np.array([held]))[0].tolist()
                for held in (True, False)]

    def test_a_gradient_gets_to_a_value_that_a_condition_changes(self):
        self.assertEqual(self.gradient_of_a_change(reads=True),
                         [[72, 72], [18, 18]])

    def test_a_gradient_gets_to_a_value_that_a_condition_replaces(self):
        self.assertEqual(self.gradient_of_a_change(reads=False),
                         [[200, 200], [18, 18]])

    def test_if_else_parts_rows_and_joins_them(self):
        x = self.data("x", [None, 1])
        zero = layers.fill_constant_batch_size_like(x, [-1, 1], "float32", 0.0)
        parts = layers.IfElse(layers.greater_than(x, zero))
        with parts.true_block():
            parts.output(parts.input(x) * 2.0)
        with parts.false_block():
            parts.output(parts.input(x) * -1.0)
        out, = parts()
        fl.append_backward(layers.mean(out))
        got, grad = self.run_for(out, "x@GRAD",
                                 x=np.array([[1], [-2], [3], [-4]], "f4"))
        np.testing.assert_allclose(got, [[2], [2], [6], [4]])
        np.testing.assert_allclose(grad, [[.5], [-.25], [.5], [-.25]])


class Loops(Case):
    def test_while_changes_variables_outside(self):
        i, n = number(0), number(4)
        more = layers.less_than(i, n)
        with layers.While(more).block():
            layers.increment(i)
            layers.less_than(i, n, cond=more)
        self.assertEqual(int(self.run_for(i)[0][0]), 4)

    def test_a_gradient_goes_through_while_loop(self):
        x = self.data("x", [2])
        w = self.data("w", [2])
        _, y = layers.while_loop(lambda i, y: layers.less_than(i, number(3)),
                                 lambda i, y: [i + 1, y * w],
                                 [number(0), x])
        fl.append_backward(layers.mean(y))
        got, dx, dw = self.run_for(y, "x@GRAD", "w@GRAD",
                                   x=np.array([1, 2], "f4"),
                                   w=np.array([3, 4], "f4"))
        np.testing.assert_allclose(got, [27, 128])
        np.testing.assert_allclose(dx, [13.5, 32])   # w^3 / 2
        np.testing.assert_allclose(dw, [13.5, 48])   # 3 x w^2 / 2

    def test_a_loop_has_parameters(self):
        x = self.data("x", [None, 3], smooth=False)

        def body(i, y):
            return [i + 1, layers.fc(y, 3, param_attr="w", bias_attr=False)]

        _, y = layers.while_loop(lambda i, y: layers.less_than(i, number(2)),
                                 body, [number(0), x])
        loss = layers.mean(layers.square(y))
        pairs = fl.append_backward(loss)
        self.assertEqual([p.name for p, _ in pairs], ["w"])
        fl.optimizer.SGD(0.1).apply_gradients(pairs)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)
        feed = {"x": np.ones((4, 3), "f4")}
        losses = [float(np.ravel(exe.run(self.main, feed=feed,
                                         fetch_list=[loss], scope=scope)[0])[0])
                  for _ in range(20)]
        self.assertLess(losses[-1], losses[0])

    def test_a_loop_fills_an_array(self):
        x = self.data("x", [2])
        array = layers.create_array("float32")
        i, n = number(0), number(3)
        more = layers.less_than(i, n)
        with layers.While(more).block():
            layers.array_write(x * layers.cast(i, "float32"), i, array)
            layers.increment(i)
            layers.less_than(i, n, cond=more)
        out, sizes = layers.tensor_array_to_tensor(array, axis=0)
        fl.append_backward(layers.mean(out))
        got, size, length, grad = self.run_for(
            out, sizes, layers.array_length(array), "x@GRAD",
            x=np.array([1, 2], "f4"))
        np.testing.assert_allclose(got, [0, 0, 1, 2, 2, 4])
        self.assertEqual(list(size), [2, 2, 2])
        self.assertEqual(int(length[0]), 3)
        np.testing.assert_allclose(grad, [.5, .5])

    def test_what_is_no_loop_is_refused(self):
        with self.assertRaisesRegex(TypeError, "should be callable"):
            layers.while_loop(1, lambda i: i, [number(0)])
        with self.assertRaisesRegex(ValueError, "should not be empty"):
            layers.while_loop(lambda: 1, lambda: 1, [])
        with self.assertRaisesRegex(ValueError, "same arity"):
            layers.while_loop(lambda i: layers.less_than(i, number(1)),
                              lambda i: [i, i], [number(0)])


class Recurrent(Case):
    def test_static_rnn_adds_up_its_steps(self):
        x = self.data("x", [3, 2, 4])
        rnn = layers.StaticRNN()
        with rnn.step():
            step = rnn.step_input(x)
            before = rnn.memory(shape=[-1, 4], batch_ref=step)
            after = before + step
            rnn.update_memory(before, after)
            rnn.step_output(after)
        out = rnn()
        fl.append_backward(layers.reduce_sum(out))
        value = np.arange(24, dtype="f4").reshape(3, 2, 4)
        got, grad = self.run_for(out, "x@GRAD", x=value)
        np.testing.assert_allclose(got, np.cumsum(value, 0))
        np.testing.assert_allclose(
            grad, np.broadcast_to(np.array([3, 2, 1], "f4")[:, None, None],
                                  value.shape))

    def test_a_net_of_blocks_predicts_from_its_files(self):
        x = self.data("x", [3, 2, 4])
        rnn = layers.StaticRNN()
        with rnn.step():
            step = rnn.step_input(x)
            before = rnn.memory(shape=[-1, 4], batch_ref=step)
            after = layers.fc([before, step], 4)
            rnn.update_memory(before, after)
            rnn.step_output(after)
        last = layers.reduce_sum(rnn())
        out = layers.cond(layers.less_than(last, number(0, "float32")),
                          lambda: last * -2.0, lambda: last + 1.0)
        feed = {"x": np.arange(24, dtype="f4").reshape(3, 2, 4)}
        exe, scope = fl.Executor(), fl.Scope()
        with fl.scope_guard(scope), tempfile.TemporaryDirectory() as folder:
            exe.run(self.startup)
            want, = exe.run(self.main, feed, [out])
            fl.io.save_inference_model(folder, ["x"], [out], exe,
                                       model_filename="net",
                                       params_filename="values")
            with fl.scope_guard(fl.Scope()):
                program, _, targets = fl.io.load_inference_model(
                    folder, exe, "net", "values")
                got, = exe.run(program, feed, targets)
        np.testing.assert_array_equal(got, want)

    def test_dynamic_rnn_takes_sequences_of_any_length(self):
        x = fl.data("x", [None, 2], "float32", lod_level=1)
        x.stop_gradient = False
        rnn = layers.DynamicRNN()
        with rnn.block():
            step = rnn.step_input(x)
            before = rnn.memory(shape=[2], value=0.0)
            after = before + step
            rnn.update_memory(before, after)
            rnn.output(after)
        out = rnn()
        fl.append_backward(layers.reduce_sum(out))
        value = np.arange(12, dtype="f4").reshape(6, 2)
        fed = fl.create_lod_tensor(value, [[2, 1, 3]], fl.CPUPlace())
        exe = fl.Executor()
        got, grad = exe.run(self.main, feed={"x": fed},
                            fetch_list=[out, "x@GRAD"], return_numpy=False)
        want = np.concatenate([np.cumsum(value[a:b], 0)
                               for a, b in ((0, 2), (2, 3), (3, 6))])
        np.testing.assert_allclose(np.asarray(got), want)
        self.assertEqual(got.recursive_sequence_lengths(), [[2, 1, 3]])
        np.testing.assert_allclose(np.asarray(grad)[:, 0], [2, 1, 1, 3, 2, 1])


class Looking(Case):
    def test_an_assertion_that_fails_shows_its_data(self):
        x = self.data("x", [2])
        layers.Assert(layers.less_than(layers.reduce_sum(x),
                                       number(1.0, "float32")), [x])
        out = x * 1.0
        self.run_for(out, x=np.array([0, 0], "f4"))
        with self.assertRaisesRegex(fl.Error, r"x f32\[2\] is \[3, 4\]"):
            self.run_for(out, x=np.array([3, 4], "f4"))


class Images(Case):
    def test_conv2d_against_loops(self):
        x = self.data("x", [2, 3, 5, 5])
        out = layers.conv2d(x, 4, 3, stride=2, padding=1, param_attr="w",
                            bias_attr=False)
        self.assertEqual(out.shape, (2, 4, 3, 3))
        rng = np.random.RandomState(1)
        value = rng.rand(2, 3, 5, 5).astype("f4")
        got, w = self.run_for(out, "w", x=value)
        padded = np.pad(value, ((0, 0), (0, 0), (1, 1), (1, 1)))
        want = np.zeros_like(got)
        for i in range(3):
            for j in range(3):
                seen = padded[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3]
                want[:, :, i, j] = np.tensordot(seen, w, ((1, 2, 3),
                                                          (1, 2, 3)))
        np.testing.assert_allclose(got, want, rtol=1e-4)

    def test_pool2d_takes_the_largest_or_the_mean(self):
        x = self.data("x", [1, 1, 4, 4])
        value = np.arange(16, dtype="f4").reshape(1, 1, 4, 4)
        largest, mean, whole = self.run_for(
            layers.pool2d(x, 2, "max", 2), layers.pool2d(x, 2, "avg", 2),
            layers.pool2d(x, pool_type="avg", global_pooling=True), x=value)
        np.testing.assert_array_equal(largest[0, 0], [[5, 7], [13, 15]])
        np.testing.assert_array_equal(mean[0, 0], [[2.5, 4.5], [10.5, 12.5]])
        np.testing.assert_array_equal(whole.ravel(), [7.5])


class Versions(unittest.TestCase):
    def test_a_program_may_ask_for_a_version(self):
        from flotilla.version import require_version
        require_version("1.6.0", "1.9")
        with self.assertRaisesRegex(Exception, "version 2.0 or higher"):
            require_version("2.0")
        with self.assertRaises(ValueError):
            require_version("next")
        with self.assertRaises(TypeError):
            require_version(1)


if __name__ == "__main__":
    unittest.main()
