"""Models at rest."""
import os
import pickle
import sys
import unittest

import numpy as np

import flotilla as fl
from flotilla.types import VarType
from kit import FolderCase


# What save_persistables of PaddlePaddle 1.8.5 wrote of a bias.
SEQUENCES_OF_1_8 = bytes.fromhex(
    "000000000100000000000000180000000000000000000000000000000000000000000000"
    "02000000000000000000000006000000080510021001000000000000803f")
ROWS_OF_1_8 = bytes.fromhex(
    "000000000200000000000000030000000000000005000000000000000a00000000000000"
    "00000000060000000805100210010000803f0000803f")
VARIABLE_OF_1_8 = bytes.fromhex(
    "0000000000000000000000000000000004000000"
    "08051001c278b73c")


class Models(FolderCase):
    def setUp(self):
        super().setUp()
        self.path = self.at("model")
        self.main, self.startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, self.startup), \
                fl.unique_name.guard():
            x = fl.layers.data("x", [2])
            y = fl.layers.data("y", [1])
            self.out = fl.layers.fc(x, 1)
            loss = fl.layers.mean(fl.layers.square_error_cost(self.out, y))
            fl.optimizer.Adam(0.1).minimize(loss)
        self.exe, self.scope = fl.Executor(), fl.Scope()
        self.enter(fl.scope_guard(self.scope))
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

    def test_values_are_saved_as_the_program_has_them(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup):
            tree = fl.layers.create_global_var([2], 0, "int64", True)
        self.exe.run(startup)
        held = fl.global_scope().find_var(tree.name).get_tensor()
        held.set(np.array([3, 4], "int32"))
        fl.io.save_persistables(self.exe, self.path, main)
        self.exe.run(startup)
        fl.io.load_persistables(self.exe, self.path, main)
        self.assertEqual(np.array(held).tolist(), [3, 4])

    def test_one_file_of_arrays_comes_back(self):
        self.check_comes_back(lambda: fl.save(self.main, self.path),
                              lambda: fl.load(self.main, self.path))

    def test_files_that_are_named_come_back(self):
        self.check_comes_back(
            lambda: fl.io.save_persistables(self.exe, self.path, self.main,
                                            filename="all"),
            lambda: fl.io.load_persistables(self.exe, self.path, self.main,
                                            filename="all"))
        self.assertEqual(os.listdir(self.path), ["all"])

    def test_bytes_come_back(self):
        kept = []
        self.check_comes_back(
            lambda: kept.append(fl.io.save_persistables(self.exe, None,
                                                        self.main)),
            lambda: fl.io.load_persistables(self.exe, None, self.main,
                                            filename=kept[0]))

    def test_load_takes_what_save_persistables_wrote(self):
        self.check_comes_back(
            lambda: fl.io.save_persistables(self.exe, self.path, self.main),
            lambda: fl.load(self.main, self.path, self.exe))
        with self.assertRaisesRegex(ValueError, "executor is required"):
            fl.load(self.main, self.path)
        state = fl.load_program_state(self.path)
        self.assertEqual(set(state), set(self.values()))

    def test_a_program_for_test_loads_what_it_has_of_a_model(self):
        fl.io.save_persistables(self.exe, self.path, self.main)
        before = self.values()
        test = self.main.clone(for_test=True)._prune(self.out)
        with fl.scope_guard(fl.Scope()):
            self.exe.run(self.startup)
            fl.io.load_persistables(self.exe, self.path, test)
            np.testing.assert_array_equal(self.values()["fc_0.w_0"],
                                          before["fc_0.w_0"])

    def test_state_that_does_not_fit_is_refused(self):
        state = {"fc_0.w_0": np.zeros((3, 1), "float32")}
        with self.assertRaisesRegex(AssertionError, "fc_0.w_0.*shape"):
            fl.set_program_state(self.main, state)
        state = {"fc_0.w_0": np.zeros((2, 1), "float64")}
        with self.assertRaisesRegex(AssertionError, "float64"):
            fl.set_program_state(self.main, state)
        with self.assertWarnsRegex(UserWarning, "stranger"):
            fl.set_program_state(self.main, {"stranger": np.zeros(1)})

    def test_a_pickle_of_more_than_arrays_is_refused(self):
        with open(self.path + ".pdparams", "wb") as f:
            f.write(pickle.dumps({"fc_0.w_0": os.path.join}))
        with self.assertRaisesRegex(pickle.UnpicklingError, "join"):
            fl.load_program_state(self.path)

    def test_a_file_of_the_original_is_read(self):
        os.makedirs(self.path)
        with open(os.path.join(self.path, "fc_0.b_0"), "wb") as f:
            f.write(VARIABLE_OF_1_8)
        fl.io.load_vars(self.exe, self.path, self.main,
                        [self.main.global_block().var("fc_0.b_0")])
        self.assertEqual(self.values()["fc_0.b_0"],
                         np.array([0.022396449], "float32"))
        with self.assertRaisesRegex(RuntimeError, "fc_0.w_0"):
            fl.io.load_params(self.exe, self.path, self.main)

    def test_a_file_that_is_cut_is_told(self):
        with open(self.path, "wb") as f:
            f.write(VARIABLE_OF_1_8[:-1])
        with self.assertRaisesRegex(ValueError, "model: 4 bytes more"):
            fl.io.load_vars(self.exe, os.path.dirname(self.path), self.main,
                            ["fc_0.b_0"], filename="model")

    def test_sequences_and_rows_are_saved_as_1_8_saves_them(self):
        program, scope = fl.Program(), fl.Scope()
        block = program.global_block()
        block.create_var(name="r", shape=[-1, 1], dtype="float32",
                         persistable=True, lod_level=1)
        block.create_var(name="s", shape=[-1, 1], dtype="float32",
                         persistable=True, type=VarType.SELECTED_ROWS)
        with fl.scope_guard(scope):
            t = scope.var("r").get_tensor()
            t.set(np.arange(2, dtype="float32").reshape(2, 1))
            t.set_lod([[0, 0, 2]])
            rows = scope.var("s").get_selected_rows()
            rows.set_height(10)
            rows.set_rows([3, 5])
            rows.get_tensor().set(np.ones((2, 1), "float32"))
            fl.io.save_persistables(self.exe, self.path, program)
            with self.assertRaisesRegex(RuntimeError, "variable s has rows"):
                fl.io.save_persistables(self.exe, self.path, program, "all")
            fl.io.save_vars(self.exe, self.path, program, ["r"],
                            filename="one")
        for name, want in (("r", SEQUENCES_OF_1_8), ("s", ROWS_OF_1_8),
                           ("one", SEQUENCES_OF_1_8)):
            with open(os.path.join(self.path, name), "rb") as f:
                self.assertEqual(f.read(), want)
        scope = fl.Scope()
        with fl.scope_guard(scope):
            fl.io.load_persistables(self.exe, self.path, program)
        found = scope.find_var("s").get_selected_rows()
        self.assertEqual((found.rows(), found.height()), ([3, 5], 10))
        self.assertEqual(scope.find_var("r").get_tensor().lod(), [[0, 0, 2]])

    def test_offsets_that_do_not_rise_are_told(self):
        spoilt = bytearray(SEQUENCES_OF_1_8)
        spoilt[20] = 9
        with open(self.path, "wb") as f:
            f.write(spoilt)
        with self.assertRaisesRegex(ValueError, "model: offsets .* are none"):
            fl.io.load_vars(self.exe, os.path.dirname(self.path), self.main,
                            ["fc_0.b_0"], filename="model")

    def test_the_program_of_a_model_lies_beside_it(self):
        fl.io.save_inference_model(self.path, ["x"], [self.out], self.exe,
                                   self.main)
        with open(os.path.join(self.path, "__model__"), "rb") as f:
            program = fl.Program.parse_from_string(f.read())
        self.assertTrue(program.global_block().has_var(self.out.name))
        with open(os.path.join(self.path, "__model__"), "wb") as f:
            f.write(b"not read")
        _, feeds, _ = fl.io.load_inference_model(self.path, self.exe)
        self.assertEqual(feeds, ["x"])

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

    def test_a_model_in_named_files_gives_the_same_scores(self):
        x = {"x": self.feed["x"]}
        program, _, targets = self.scored()
        want, = self.exe.run(program, feed=x, fetch_list=targets)
        for params in ("params", None):
            fl.io.save_inference_model(self.path, ["x"], [self.out], self.exe,
                                       self.main, "model", params)
            with fl.scope_guard(fl.Scope()):
                program, feeds, targets = fl.io.load_inference_model(
                    self.path, self.exe, "model", params)
                got, = self.exe.run(program, feed=x, fetch_list=targets)
            self.assertEqual(feeds, ["x"])
            np.testing.assert_array_equal(got, want)

    def scored(self):
        fl.io.save_inference_model(self.path + "0", ["x"], [self.out],
                                   self.exe, self.main)
        return fl.io.load_inference_model(self.path + "0", self.exe)

    def test_rows_of_a_table_are_no_array_of_a_file(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            fl.layers.embedding(fl.layers.data("ids", [1], dtype="int64"),
                                [9, 2], is_distributed=True, param_attr="emb")
        with self.assertRaisesRegex(NotImplementedError,
                                    "rows of emb .*save_persistables"):
            fl.save(main, self.at("a", "m"))

    def test_a_whole_program_is_saved_without_targets(self):
        files = {"model_filename": "m", "params_filename": "p"}
        fl.io.save_inference_model(self.path, [], [], self.exe, self.main,
                                   export_for_deployment=False, **files)
        program, feeds, targets = fl.io.load_inference_model(
            self.path, self.exe, **files)
        self.assertEqual((feeds, targets), ([], []))
        self.assertEqual(str(program), str(self.main))
        self.exe.run(program, feed=self.feed)

    def test_another_process_predicts_with_rows_of_a_table(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup):
            ids = fl.layers.data("ids", [1], dtype="int64")
            out = fl.layers.embedding(ids, [9, 2], is_distributed=True,
                                      param_attr="table_of_test_io")
            fl.optimizer.SGD(0.5).minimize(fl.layers.mean(out))
        feed = {"ids": np.array([[3], [5]])}
        self.exe.run(startup)
        for _ in range(2):
            self.exe.run(main, feed=feed)
            fl.io.save_inference_model(self.path, ["ids"], [out], self.exe,
                                       main)
        with self.assertLogs("flotilla", "WARNING") as said:
            program, _, targets = fl.io.load_inference_model(self.path,
                                                             self.exe)
        self.assertIn("is trained in this process", said.output[0])
        want, = self.exe.run(program, feed=feed, fetch_list=targets)
        said = self.run_script(f"""
import numpy as np
import flotilla as fl
exe = fl.Executor()
for _ in range(2):
    program, _, targets = fl.io.load_inference_model({self.path!r}, exe)
    got, = exe.run(program, feed={{"ids": np.array([[3], [5]])}},
                   fetch_list=targets)
print("got", got.tolist())
""", sys.executable)
        self.assertIn(f"got {want.tolist()}", said)

    def test_what_cannot_be_a_model_for_prediction_is_refused(self):
        def save(feeds, targets, **how):
            fl.io.save_inference_model(self.path, feeds, targets, self.exe,
                                       self.main, **how)

        with self.assertRaisesRegex(ValueError, "list of Variable"):
            save(["x"], [])
        with self.assertRaisesRegex(ValueError, "list of str"):
            save([1], [self.out])
        with self.assertRaisesRegex(ValueError, "feed y is not"):
            save(["x", "y"], [self.out], model_filename="model")
        with self.assertRaisesRegex(ValueError, "no directory"):
            fl.io.load_inference_model("/nowhere", self.exe)
        with self.assertRaisesRegex(NotImplementedError, "Predictor"):
            fl.io.load_inference_model(self.path, self.exe,
                                       pserver_endpoints=["a:1"])
        with self.assertRaisesRegex(TypeError, "main_program"):
            fl.io.save_params(self.exe, self.path, "program")

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
