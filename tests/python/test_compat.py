"""PaddlePaddle's names."""
import unittest

import numpy as np

import paddle
import paddle.fluid as fluid


class Names(unittest.TestCase):
    def test_a_module_of_names_may_be_loaded_again(self):
        import importlib
        from paddle.fluid import executor
        self.assertIs(importlib.reload(executor), executor)
        self.assertTrue(executor.Executor)

    def test_a_module_of_names_is_found_and_run(self):
        import importlib.util
        import subprocess
        import sys
        found = importlib.util.find_spec("paddle.fluid.reader")
        self.assertEqual(found.name, "paddle.fluid.reader")
        subprocess.run([sys.executable, "-m", "flotilla", "-m",
                        "paddle.fluid.reader"], check=True)

    def test_it_says_what_it_is(self):
        self.assertIn("flotilla", paddle.__version__)

    def test_every_row_of_the_list_names_something(self):
        from flotilla import compat
        for module, name, path, why in compat._rows():
            with self.subTest(name=f"{module}.{name}"):
                self.assertTrue(why or compat._find(path) is not None)

    def test_what_is_refused_is_nothing_that_there_is(self):
        from flotilla import compat
        rows = list(compat._rows())
        owners = {}
        for module, name, path, _ in rows:
            if path and name == "*":
                owners.setdefault(module, []).append(compat._find(path))
        given = {(module, name) for module, name, path, _ in rows if path}
        for module, name, _, why in rows:
            with self.subTest(name=f"{module}.{name}"):
                self.assertFalse(why and name != "*" and (
                    (module, name) in given or
                    any(hasattr(o, name) for o in owners.get(module, []))))

    def test_a_name_that_is_not_there_is_answered_with_the_nearest(self):
        with self.assertRaisesRegex(AttributeError, "did you mean fc"):
            fluid.layers.fcc

    def test_what_makes_no_sense_is_there_and_says_why_when_it_is_called(self):
        from paddle.fluid.dygraph import Layer

        class Mine(Layer):
            pass

        with self.assertRaisesRegex(NotImplementedError,
                                    "dygraph.Layer: there is no eager mode"):
            Mine()

    def test_an_object_behind_a_module_is_asked_again(self):
        import paddle.distributed.fleet as fleet
        first = fleet.main_program
        with fluid.program_guard(fluid.Program()):
            self.assertIsNot(fleet.main_program, first)

    def test_texts_are_changed_in_place_when_that_is_asked_for(self):
        import paddle.compat as cpt
        for kind in (list, set):
            given = kind([b"a", "b"])
            self.assertEqual(cpt.to_text(given), kind(["a", "b"]))
            self.assertIn(b"a", given)
            self.assertIs(cpt.to_text(given, inplace=True), given)
            self.assertEqual(given, kind(["a", "b"]))
        given = {b"a": b"b"}
        self.assertIs(cpt.to_text(given, inplace=True), given)
        self.assertEqual(given, {"a": "b"})
        with self.assertRaises(AssertionError):
            cpt.get_exception_message(None)

    def test_a_name_is_imported_out_of_its_module(self):
        from paddle.fluid.backward import append_backward
        self.assertIs(append_backward, fluid.append_backward)

    def test_there_is_no_gpu(self):
        self.assertFalse(fluid.is_compiled_with_cuda())
        self.assertIsInstance(fluid.CUDAPlace(0), fluid.CPUPlace)

    def test_a_net_trains(self):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup):
            x = fluid.layers.data(name="x", shape=[13], dtype="float32")
            y = fluid.layers.data(name="y", shape=[1], dtype="float32")
            loss = fluid.layers.mean(fluid.layers.square_error_cost(
                input=fluid.layers.fc(input=x, size=1), label=y))
            fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(fluid.core.Scope()):
            exe.run(startup)
            feed = {"x": np.ones((4, 13), "float32"),
                    "y": np.ones((4, 1), "float32")}
            losses = [exe.run(main, feed=feed, fetch_list=[loss.name])[0][0]
                      for _ in range(20)]
        self.assertLess(losses[-1], losses[0])

    def test_one_operator_runs_on_a_scope(self):
        scope = fluid.core.Scope()
        for name, value in (("p", 1.0), ("g", 2.0), ("lr", 0.5)):
            scope.var(name).get_tensor().set(np.full(1, value, "float32"),
                                             fluid.CPUPlace())
        fluid.op.Operator("sgd", Param="p", Grad="g", LearningRate="lr",
                          ParamOut="p").run(scope, fluid.CPUPlace())
        got = np.array(scope.find_var("p").get_tensor())
        self.assertEqual(got.tolist(), [0.0])


if __name__ == "__main__":
    unittest.main()
