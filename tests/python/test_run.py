"""Runs, feeds, fetches and scopes."""
import subprocess
import sys
import threading
import unittest

import numpy as np

import flotilla as fl
from flotilla import fetched
from kit import NetCase


def net(build):
    """A program of one layer over x [-1, 2], and what it gives."""
    main = fl.Program()
    with fl.program_guard(main, fl.Program()), fl.unique_name.guard():
        x = fl.layers.data("x", [2])
        return main, build(x)


class Feeds(unittest.TestCase):
    def setUp(self):
        self.main, self.out = net(lambda x: fl.layers.scale(x, 2.0))
        self.exe = fl.Executor(fl.CPUPlace())

    def run_with(self, x):
        return self.exe.run(self.main, feed={"x": x}, fetch_list=[self.out])[0]

    def test_an_array(self):
        x = np.arange(6, dtype="float32").reshape(3, 2)
        np.testing.assert_array_equal(self.run_with(x), 2 * x)

    def test_a_part_of_an_array(self):
        x = np.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
        np.testing.assert_array_equal(self.run_with(x), 2 * x)

    def test_a_list_takes_the_type_of_its_variable(self):
        np.testing.assert_array_equal(self.run_with([[1, 2]]), [[2.0, 4.0]])

    def test_no_rows(self):
        self.assertEqual(self.run_with(np.zeros((0, 2), "float32")).shape,
                         (0, 2))

    def test_a_fetched_array_stays_when_the_program_runs_again(self):
        first = self.run_with(np.ones((1, 2), "float32"))
        self.run_with(np.zeros((1, 2), "float32"))
        np.testing.assert_array_equal(first, [[2.0, 2.0]])

    def test_a_type_that_there_is_not(self):
        with self.assertRaisesRegex(TypeError, "feed x: .*cast to float32"):
            self.run_with(np.ones((1, 2), "complex64"))

    def test_a_shape_that_operators_do_not_take_names_the_variable(self):
        main, out = net(lambda x: fl.layers.matmul(x, x, transpose_y=True))
        with self.assertRaisesRegex(fl.Error, r"feed x: got shape \[3\], the "
                                    r"program wants \[-1,2\]"):
            self.exe.run(main, feed={"x": np.ones(3, "float32")},
                         fetch_list=[out])

    def test_what_operators_take_is_fed_as_it_is(self):
        for x in (np.ones((1, 3, 4), "float32"), np.ones((2, 2), "float64"),
                  np.ones((2, 5), "int64")):
            got = self.run_with(x)
            self.assertEqual(got.dtype, x.dtype)
            np.testing.assert_array_equal(got, 2 * x)

    def test_sequences_where_none_were_declared(self):
        t = fl.create_lod_tensor(np.ones((3, 2), "float32"), [[1, 2]])
        got, = self.exe.run(self.main, feed={"x": t}, fetch_list=[self.out],
                            return_numpy=False)
        self.assertEqual(got.lod(), [[0, 1, 3]])

    def test_a_variable_that_was_not_declared_as_data(self):
        main = fl.Program()
        block = main.global_block()
        block.create_var(name="x", shape=[-1, 2], dtype="float32")
        block.append_op("scale", inputs={"X": "x"}, outputs={"Out": "y"},
                        attrs={"scale": 2.0})
        x = np.ones((1, 2), "float32")
        got, = self.exe.run(main, feed={"x": x}, fetch_list=["y"])
        np.testing.assert_array_equal(got, 2 * x)
        self.assertFalse(block.var("x").is_data)

    def test_what_outlives_runs_is_fed_once_and_written_by_each(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            x, state = (fl.layers.data(n, [2], append_batch_size=False)
                        for n in ("x", "state"))
            state.persistable = True
            y = x + state
            fl.layers.assign(y, state)
        one, scope = np.ones(2, "float32"), fl.Scope()
        for program in (main, fl.CompiledProgram(main)):
            for feed, want in (({"x": one, "state": 5 * one}, 6.0),
                               ({"x": one}, 7.0)):
                got = self.exe.run(program, feed, [y, state], scope=scope)
                np.testing.assert_array_equal(got, [[want] * 2] * 2)

    def test_another_type_goes_through_the_branches_of_a_program(self):
        def branches(x):
            yes = fl.layers.fill_constant([1], "bool", True)
            return fl.layers.cond(yes, lambda: x + x, lambda: x - x)

        main, out = net(branches)
        x = np.ones(3, "float64")
        got, = self.exe.run(main, feed={"x": x}, fetch_list=[out])
        self.assertEqual(got.dtype, x.dtype)
        np.testing.assert_array_equal(got, 2 * x)

    def test_lists_among_the_fetches(self):
        x = np.ones((1, 2), "float32")
        got = self.exe.run(self.main, feed={"x": x},
                           fetch_list=[self.out, ["x", [self.out]]])
        self.assertEqual(len(got), 3)

    def test_what_is_to_be_checked_is_refused(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            out = fl.layers.scale(fl.data("x", [None, 2]), 2.0)
        for x, words in ((np.ones((4, 3), "float32"), "shape"),
                         (np.ones((4, 2), "float64"), "float64")):
            with self.assertRaisesRegex(ValueError, f"'x'.*{words}"):
                self.exe.run(main, feed={"x": x}, fetch_list=[out])

    def test_a_list_of_different_lengths_says_what_to_do(self):
        with self.assertRaisesRegex(TypeError, "create_lod_tensor"):
            self.run_with([[1.0, 2.0], [3.0]])

    def test_a_fetch_that_is_no_variable_is_named(self):
        x = np.ones((2, 3), "float32")
        for wrong in ([3], [self.out, [None]]):
            with self.assertRaisesRegex(TypeError, "names of variables.*not"):
                self.exe.run(self.main, feed={"x": x}, fetch_list=wrong)

    def test_a_feed_that_is_no_dict(self):
        with self.assertRaisesRegex(TypeError, "dict"):
            self.exe.run(self.main, feed=[1], fetch_list=[self.out])

    def test_a_program_that_is_none(self):
        with self.assertRaisesRegex(TypeError, "Program"):
            self.exe.run("program", fetch_list=[self.out])

    def test_a_name_that_is_not_there(self):
        with self.assertRaises(fl.Error):
            self.exe.run(self.main, feed={"y": np.ones((1, 2), "float32")},
                         fetch_list=[self.out])

    def test_a_closed_executor_says_so(self):
        self.exe.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            self.run_with(np.ones((1, 2), "float32"))


class Pruned(NetCase):
    """Two losses over one weight, each with updates of its own."""

    def setUp(self):
        super().setUp()
        x = fl.data("x", [None, 2])
        self.hidden = fl.layers.fc(x, 2, bias_attr=False)
        self.losses = [fl.layers.mean(self.hidden),
                       fl.layers.mean(fl.layers.square(fl.layers.fc(
                           fl.data("z", [None, 2]), 2, bias_attr=False)))]
        for loss in self.losses:
            loss.persistable = True
        self.updates = [fl.optimizer.SGD(0.5).minimize(loss)
                        for loss in self.losses]
        self.exe, self.scope = fl.Executor(), fl.Scope()
        self.exe.run(self.startup, scope=self.scope)

    def weights(self):
        return [np.array(self.scope.find_var(f"fc_{i}.w_0").get_tensor())
                for i in range(2)]

    def run_one(self, program, *fetches, **feed):
        """Which weights a run of these fetches has changed."""
        before = self.weights()
        self.exe.run(program, feed, list(fetches), scope=self.scope)
        return [not np.array_equal(a, b)
                for a, b in zip(before, self.weights())]

    def test_updates_that_are_fetched_are_run_alone(self):
        x = np.ones((4, 2), "float32")
        parallel = fl.CompiledProgram(self.main).with_data_parallel(
            self.losses[0].name, places=[fl.CPUPlace()] * 2)
        for program in (self.main, parallel):
            for updates in (self.updates[0], self.updates[0][0]):
                self.assertEqual(self.run_one(program, self.losses[0], updates,
                                              x=x), [True, False])
        self.assertEqual(self.run_one(self.main, self.losses[1],
                                      self.updates[1], z=x), [False, True])
        self.assertIsNone(fl.Scope().find_var(self.losses[1].name))

    def test_what_is_fed_is_not_computed(self):
        test = self.main.clone(for_test=True)
        with self.assertRaisesRegex(fl.Error, "which is fed"):
            self.exe.run(test, {self.hidden.name: np.ones((1, 2), "float32")},
                         [self.losses[0]], scope=self.scope)
        got, = self.exe.run(test, {self.hidden.name: np.full((1, 2), 3, "f4"),
                                   "not needed": np.ones(1)},
                            [self.losses[0]], scope=self.scope, use_prune=True)
        self.assertEqual(got.item(), 3.0)

    def test_a_tuple_of_something_else_is_refused(self):
        with self.assertRaisesRegex(TypeError, "what minimize"):
            self.exe.run(self.main, fetch_list=[(1, 2)], scope=self.scope)


class Ragged(unittest.TestCase):
    def test_an_array_of_tensors_is_a_list_of_arrays(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            x = fl.data("x", [None, 2])
            array = fl.layers.array_write(x, fl.layers.zeros([1], "int64"))
            fl.layers.array_write(x * 2.0, fl.layers.ones([1], "int64"), array)
        exe, x = fl.Executor(), np.ones((4, 2), "float32")
        got, = exe.run(main, {"x": x}, [array])
        np.testing.assert_array_equal(got, [x, 2 * x])
        parallel = fl.CompiledProgram(main).with_data_parallel(
            places=[fl.CPUPlace()] * 2)
        got, = exe.run(parallel, {"x": x}, [array])
        np.testing.assert_array_equal(got, [x, 2 * x])
        parts, = exe.run(parallel, {"x": x}, [array], return_merged=False)
        np.testing.assert_array_equal(parts, [[x[:2], 2 * x[:2]]] * 2)

    def test_sequences_go_in_and_come_out(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            x = fl.layers.data("x", [1], dtype="float32", lod_level=1)
            doubled = fl.layers.scale(x, 2.0)
            pooled = fl.layers.sequence_pool(x, "sum")
        t = fl.create_lod_tensor(
            np.arange(5, dtype="float32").reshape(5, 1), [[2, 3]],
            fl.CPUPlace())
        exe = fl.Executor()
        two, one = exe.run(main, feed={"x": t}, fetch_list=[doubled, pooled],
                           return_numpy=False)
        self.assertEqual(two.lod(), [[0, 2, 5]])
        self.assertEqual(two.recursive_sequence_lengths(), [[2, 3]])
        np.testing.assert_array_equal(np.array(one), [[1.0], [9.0]])

    def test_offsets_that_do_not_fit_are_refused(self):
        with self.assertRaises(AssertionError):
            fl.create_lod_tensor(np.zeros((5, 1)), [[2, 2]], fl.CPUPlace())


class Scopes(unittest.TestCase):
    def test_values_are_set_and_read(self):
        scope = fl.Scope()
        scope.var("a").get_tensor().set(np.ones((2, 3), "float32"))
        t = scope.find_var("a").get_tensor()
        self.assertEqual(t.shape(), [2, 3])
        self.assertIsNone(scope.find_var("b"))

    def test_a_child_shows_its_parents_values(self):
        parent = fl.Scope()
        parent.var("a").get_tensor().set(np.ones(2, "float32"))
        self.assertIsNotNone(parent.new_scope().find_var("a"))

    def test_two_scopes_train_apart(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            out = fl.layers.fc(fl.layers.data("x", [2]), 1)
        exe = fl.Executor()
        x = {"x": np.ones((1, 2), "float32")}
        a, b = fl.Scope(), fl.Scope()
        for scope in (a, b):
            exe.run(startup, scope=scope)
        b.var("fc_0.b_0").get_tensor().set(np.full(1, 5, "float32"))
        one = exe.run(main, feed=x, fetch_list=[out], scope=a)[0]
        two = exe.run(main, feed=x, fetch_list=[out], scope=b)[0]
        self.assertAlmostEqual(float((two - one)[0, 0]), 5.0, places=5)

    def test_a_value_of_a_smaller_type_is_widened(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup):
            table = fl.layers.create_global_var([3], 0, "int64", True)
            at = fl.layers.data("at", [1], dtype="int64")
            out = fl.layers.gather(table, at)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(startup, scope=scope)
        held = scope.find_var(table.name).get_tensor()
        held.set(np.array([7, 8, 9], "int32"))
        got, = exe.run(main, feed={"at": np.array([[2]])}, fetch_list=[out],
                       scope=scope)
        self.assertEqual(got.tolist(), [9])
        self.assertEqual(np.array(held).dtype, "int64")
        held.set(np.array([7.5, 8, 9]))
        with self.assertRaisesRegex(ValueError, "f64.* in the scope"):
            exe.run(main, feed={"at": np.array([[2]])}, fetch_list=[out],
                    scope=scope)


class Replicas(unittest.TestCase):
    def test_batches_are_split_and_fetches_joined(self):
        main, out = net(lambda x: fl.layers.scale(x, 3.0))
        both = fl.CompiledProgram(main).with_data_parallel(
            places=[fl.CPUPlace(), fl.CPUPlace()])
        x = np.arange(8, dtype="float32").reshape(4, 2)
        got, = fl.Executor().run(both, feed={"x": x}, fetch_list=[out])
        np.testing.assert_array_equal(got, 3 * x)

    def test_what_the_update_makes_is_fetched_from_all_replicas(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup), fl.unique_name.guard(), \
                fl.scope_guard(fl.Scope()):
            x = fl.layers.data("x", [2])
            loss = fl.layers.mean(fl.layers.fc(x, 1))
            fl.optimizer.SGD(0.1, regularization=fl.regularizer.L2Decay(
                1.0)).minimize(loss)
            exe = fl.Executor()
            exe.run(startup)
            feed = {"x": np.ones((4, 2), "float32")}
            one, = exe.run(main.clone(), feed=feed,
                           fetch_list=["fc_0.w_0@GRAD"])
            exe.run(startup)
            both = fl.CompiledProgram(main).with_data_parallel(
                loss_name=loss.name, places=[fl.CPUPlace()] * 2)
            got, = exe.run(both, feed=feed, fetch_list=["fc_0.w_0@GRAD"])
        np.testing.assert_allclose(got, np.concatenate([one, one]), rtol=1e-6)

    def test_replicas_normalise_each_for_itself(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            fl.layers.batch_norm(fl.layers.data("x", [2, 2, 2]))
        build = fl.BuildStrategy()
        build.sync_batch_norm = True
        with self.assertRaisesRegex(NotImplementedError, "over replicas"):
            fl.CompiledProgram(main).with_data_parallel(build_strategy=build)

    def test_a_switch_that_there_is_not(self):
        with self.assertRaises(AttributeError):
            fl.BuildStrategy().no_such_switch = True
        with self.assertRaisesRegex(AttributeError, "mean reduce_strategy"):
            fl.BuildStrategy().reduce_stategy = 1
        with self.assertRaisesRegex(AttributeError, "mean num_threads"):
            fl.ExecutionStrategy().num_thread = 2

    def counting(self, **switches):
        """A program that counts its runs, as replicas run it."""
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup), fl.unique_name.guard():
            n = fl.layers.create_global_var([1], 0, "float32", True, name="n")
            fl.layers.increment(n)
        how = fl.ExecutionStrategy()
        for name, value in switches.items():
            setattr(how, name, value)
        scope = fl.Scope()
        fl.Executor().run(startup, scope=scope)
        exe = fl.compiler.ParallelExecutor(main_program=main, scope=scope,
                                           exec_strategy=how)
        return exe, scope.find_var("n").get_tensor()

    def test_a_run_may_be_several_or_none(self):
        exe, n = self.counting(num_iteration_per_run=3)
        self.assertEqual(exe.run(["n"])[0][0], 3)
        exe, n = self.counting(_dry_run=True)
        self.assertEqual(exe.run([]), [])
        self.assertEqual(np.array(n)[0], 0)

    def test_plans_are_dropped_and_made_again(self):
        exe, n = self.counting()
        exe.run(["n"])
        self.assertFalse(exe._need_create_local_exe_scopes())
        exe.drop_local_exe_scopes()
        self.assertTrue(exe._need_create_local_exe_scopes())
        self.assertEqual(exe.run(["n"])[0][0], 2)

    def test_one_process_is_all_of_it(self):
        with self.assertRaisesRegex(NotImplementedError, "fleet.collective"):
            fl.compiler.ParallelExecutor(num_trainers=2)

    def test_one_replica_takes_feeds_of_unequal_length(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            a, b = (fl.layers.data(n, [2]) for n in "ab")
            out = fl.layers.elementwise_add(fl.layers.reduce_sum(a),
                                            fl.layers.reduce_sum(b))
        one = fl.CompiledProgram(main).with_data_parallel(
            places=[fl.CPUPlace()])
        got, = fl.Executor().run(one, feed={"a": np.ones((2, 2), "float32"),
                                            "b": np.ones((5, 2), "float32")},
                                 fetch_list=[out])
        self.assertEqual(got.tolist(), [14])


class ReplicaGradients(NetCase):
    def fetch(self, names, **feed):
        both = fl.CompiledProgram(self.main).with_data_parallel(
            self.loss.name, places=[fl.CPUPlace()] * 2)
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)
        return exe.run(both, feed=feed, fetch_list=names, scope=scope)

    def test_gradients_are_those_of_the_step(self):
        x = fl.layers.data("x", [1])
        x.stop_gradient = False
        out = fl.layers.fc(x, 1, bias_attr=False,
                           param_attr=fl.initializer.Constant(2.0))
        self.loss = fl.layers.mean(out)
        fl.append_backward(self.loss)
        dx, dw = self.fetch(["x@GRAD", "fc_0.w_0@GRAD"],
                            x=np.array([[1], [3]], "float32"))
        np.testing.assert_array_equal(dx, [[1], [1]])
        np.testing.assert_array_equal(dw, [[2], [2]])

    def test_arrays_of_different_lengths_are_each_cut(self):
        x, n = fl.layers.data("x", [1]), fl.layers.data("n", [1])
        self.loss = fl.layers.mean(fl.layers.reduce_sum(x) * n)
        found = self.fetch([self.loss], x=np.ones((6, 1), "float32"),
                           n=np.array([[1], [2]], "float32"))[0]
        np.testing.assert_array_equal(found, [3, 6])


# A child of a process with threads reads data, runs nothing, and ends.
FORKS = """
import os, sys
import numpy as np
import flotilla as fl
out = fl.layers.scale(fl.layers.data("x", [2]), 3.0)
both = fl.CompiledProgram(fl.default_main_program()).with_data_parallel(
    places=[fl.CPUPlace()] * int(sys.argv[1]))
exe = fl.Executor()
feed = {"x": np.ones((4, 2), "float32")}
exe.run(both, feed=feed, fetch_list=[out])
if os.fork():
    sys.exit(os.wait()[1] >> 8)
print(fl.create_lod_tensor(np.arange(3).reshape(3, 1), [[1, 2]],
                           fl.CPUPlace()).shape())
try:
    print(exe.run(both, feed=feed, fetch_list=[out])[0].shape)
except RuntimeError as e:
    print(e)
del exe, both
sys.exit(7)
"""


class Forks(unittest.TestCase):
    def child_of(self, n_threads):
        done = subprocess.run([sys.executable, "-c", FORKS, str(n_threads)],
                              text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 7, done.stderr)
        return done.stdout

    def test_a_child_has_no_threads_of_its_parent_and_says_so(self):
        out = self.child_of(2)
        self.assertIn("[3, 1]", out)
        self.assertIn("it may read data", out)

    def test_a_child_of_one_without_threads_runs(self):
        self.assertIn("(4, 2)", self.child_of(1))


class Threads(unittest.TestCase):
    def test_executors_run_side_by_side(self):
        main, out = net(lambda x: fl.layers.scale(x, 2.0))
        wrong = []

        def work(k):
            exe = fl.Executor()
            x = np.full((8, 2), k, "float32")
            for _ in range(200):
                got, = exe.run(main, feed={"x": x}, fetch_list=[out])
                if not (got == 2 * k).all():
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


class Fetched(unittest.TestCase):
    def test_a_loss_is_a_number_for_float_and_int(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            loss = fl.layers.mean(fl.layers.data("x", [2]))
        got, = fl.Executor().run(main, feed={"x": np.full((3, 2), 4.0, "f4")},
                                 fetch_list=[loss])
        self.assertEqual((float(got), int(got), got.shape), (4.0, 4, (1,)))
        self.assertEqual(repr(got), "array([4.], dtype=float32)")

    def test_tensors_and_arrays_become_each_other(self):
        t = fetched.as_tensor(2, fl.CPUPlace(), "int32")
        self.assertEqual(fetched.as_numpy([t]), [np.array([2])])
        ragged = fl.create_lod_tensor(np.ones((2, 1)), [[2]], fl.CPUPlace())
        with self.assertRaisesRegex(RuntimeError, "return_numpy=False"):
            fetched.as_numpy(ragged)
        with self.assertRaisesRegex(RuntimeError, "LoDTensor of a list"):
            fetched.as_tensor([1], fl.CPUPlace())
        with self.assertRaisesRegex(AssertionError, "dtype"):
            fetched.as_tensor(1, fl.CPUPlace())


class ChosenUpdates(unittest.TestCase):
    def test_updates_among_the_fetches_are_made_alone(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup):
            x = fl.layers.data("x", [2])
            losses = [fl.layers.mean(fl.layers.fc(
                x, 1, param_attr=fl.ParamAttr(name=name), bias_attr=False))
                for name in ("one", "two")]
            made = [fl.optimizer.SGD(1.0).minimize(loss) for loss in losses]
        scope, exe = fl.Scope(), fl.Executor()
        with fl.scope_guard(scope):
            exe.run(startup)
            before = [self.value(scope, n) for n in ("one", "two")]
            got = exe.run(main, feed={"x": np.ones((3, 2), "float32")},
                          fetch_list=[losses[0], made[0]])
        self.assertEqual(len(got), 1)
        self.assertFalse(np.array_equal(before[0], self.value(scope, "one")))
        np.testing.assert_array_equal(before[1], self.value(scope, "two"))

    def test_what_is_no_result_of_minimize(self):
        main, out = net(lambda x: fl.layers.scale(x, 2.0))
        with self.assertRaisesRegex(TypeError, "minimize"):
            fl.Executor().run(main, feed={"x": np.ones((1, 2), "float32")},
                              fetch_list=[out, (["sgd"], [])])

    @staticmethod
    def value(scope, name):
        return np.array(scope.find_var(name).get_tensor())


if __name__ == "__main__":
    unittest.main()
