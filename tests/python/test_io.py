"""Models at rest."""
import os
import tempfile
import unittest

import numpy as np

import flotilla as fl


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model")
        self.main, self.startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, self.startup), \
                fl.unique_name.guard():
            x = fl.layers.data("x", [2])
            y = fl.layers.data("y", [1])
            self.out = fl.layers.fc(x, 1)
            loss = fl.layers.mean(fl.layers.square_error_cost(self.out, y))
            fl.optimizer.Adam(0.1).minimize(loss)
        self.exe, self.scope = fl.Executor(), fl.Scope()
        guard = fl.scope_guard(self.scope)
        guard.__enter__()
        self.addCleanup(guard.__exit__, None, None, None)
        self.exe.run(self.startup)
        self.feed = {"x": np.ones((4, 2), "float32"),
                     "y": np.ones((4, 1), "float32")}
        for _ in range(3):
            self.exe.run(self.main, feed=self.feed)

    def values(self):
        return {v.name: np.array(fl.global_scope().find_var(v.name)
                                 .get_tensor())
                for v in self.main.list_vars()
                if v.persistable and not v.is_data}

    def check_comes_back(self, save, load):
        before = self.values()
        save()
        self.exe.run(self.startup)
        self.assertTrue(any((before[k] != v).any()
                            for k, v in self.values().items()))
        load()
        for name, value in self.values().items():
            np.testing.assert_array_equal(value, before[name], name)

    def test_persistables_come_back(self):
        self.check_comes_back(
            lambda: fl.io.save_persistables(self.exe, self.path, self.main),
            lambda: fl.io.load_persistables(self.exe, self.path, self.main))

    def test_one_file_of_arrays_comes_back(self):
        self.check_comes_back(lambda: fl.save(self.main, self.path),
                              lambda: fl.load(self.main, self.path))

    def test_an_inference_model_gives_the_same_scores(self):
        test = self.main.clone(for_test=True)
        x = {"x": self.feed["x"]}
        want, = self.exe.run(test._prune(self.out), feed=x,
                             fetch_list=[self.out])
        fl.io.save_inference_model(self.path, ["x"], [self.out], self.exe,
                                   self.main)
        with fl.scope_guard(fl.Scope()):
            program, feeds, targets = fl.io.load_inference_model(self.path,
                                                                 self.exe)
            got, = self.exe.run(program, feed=x, fetch_list=targets)
        self.assertEqual(feeds, ["x"])
        np.testing.assert_array_equal(got, want)

    def test_a_model_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(fl.Error, "nowhere"):
            fl.io.load_persistables(self.exe, "/nowhere", self.main)

    def test_a_model_of_another_net_is_refused_by_name(self):
        fl.io.save_persistables(self.exe, self.path, self.main)
        other, startup = fl.Program(), fl.Program()
        with fl.program_guard(other, startup), fl.unique_name.guard():
            fl.layers.fc(fl.layers.data("x", [3]), 1)
        with fl.scope_guard(fl.Scope()):
            self.exe.run(startup)
            with self.assertRaisesRegex(fl.Error, "fc_0.w_0"):
                fl.io.load_persistables(self.exe, self.path, other)


if __name__ == "__main__":
    unittest.main()
