"""Scores from saved models."""
import threading
import unittest

import numpy as np

import flotilla as fl
from flotilla import inference
from kit import FolderCase


class Predictors(FolderCase):
    def setUp(self):
        super().setUp()
        self.path = self.at("model")
        self.main, startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, startup), fl.unique_name.guard():
            ids = fl.layers.data("ids", [1], dtype="int64", lod_level=1)
            x = fl.layers.data("x", [2])
            rows = fl.layers.embedding(ids, [10, 3])
            both = fl.layers.concat(
                [fl.layers.sequence_pool(rows, "sum"), x], axis=1)
            self.out = fl.layers.fc(both, 2, act="softmax")
        self.enter(fl.scope_guard(fl.Scope()))
        self.exe = fl.Executor()
        self.exe.run(startup)
        self.feed = {
            "ids": fl.create_lod_tensor(np.array([[1], [2], [3]]), [[2, 1]],
                                        fl.CPUPlace()),
            "x": np.ones((2, 2), "float32")}
        self.save()

    def save(self, **files):
        fl.io.save_inference_model(self.path, ["ids", "x"], [self.out],
                                   self.exe, self.main, **files)

    def want(self):
        return self.exe.run(self.main, feed=self.feed,
                            fetch_list=[self.out])[0]

    def test_scores_are_those_of_the_program(self):
        predictor = fl.Predictor(self.path)
        self.assertEqual([v.name for v in predictor.inputs], ["ids", "x"])
        self.assertEqual(repr(predictor.inputs[1]), "x : float32[-1, 2]")
        got, = predictor.run(self.feed)
        np.testing.assert_allclose(got, self.want(), rtol=1e-6)
        self.assertEqual(predictor.stats()["records"], 2)

    def test_a_dataset_is_scored_in_one_call(self):
        with open(self.at("data"), "w") as f:
            for i in range(50):
                f.write(f"1 {i % 2} 2 {i % 10} 3 2 0.{i} 1\n")
        with fl.program_guard(self.main):
            fl.layers.data("click", [1], dtype="int64")
        block = self.main.global_block()
        data = fl.DatasetFactory().create_dataset("QueueDataset")
        data.set_use_var([block.var(n) for n in ("click", "ids", "x")])
        data.set_filelist([self.at("data")])
        data.set_batch_size(7)
        predictor = fl.Predictor(self.path)
        got = predictor.run_dataset(data, threads=3)
        self.assertEqual((got.shape, got.dtype), ((50,), np.float32))
        one, = predictor.run({
            "ids": fl.create_lod_tensor(np.array([[4], [3]]), [[2]],
                                        fl.CPUPlace()),
            "x": np.array([[0.34, 1]], "float32")})
        np.testing.assert_allclose(got[34], one[0, -1], rtol=1e-5)
        other = fl.DatasetFactory().create_dataset("QueueDataset")
        other.set_use_var([block.var("click"), block.var("ids")])
        other.set_filelist([self.at("data")])
        with self.assertRaisesRegex(LookupError, "input x is no slot"):
            predictor.run_dataset(other)

    def test_threads_have_predictors_of_their_own(self):
        first, found = fl.Predictor(self.path), []

        def score(predictor):
            for _ in range(20):
                found.append(predictor.run(self.feed)[0])

        threads = [threading.Thread(target=score, args=(p,))
                   for p in (first, first.clone())]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(found), 40)
        for got in found:
            np.testing.assert_array_equal(got, found[0])

    def test_a_newer_version_is_taken(self):
        predictor = fl.Predictor(self.path)
        before, = predictor.run(self.feed)
        weight = fl.global_scope().find_var("fc_0.w_0").get_tensor()
        weight.set(np.array(weight) + np.array([1, -1], "float32"))
        self.save()
        predictor.refresh()
        after, = predictor.run(self.feed)
        self.assertTrue((before != after).all())
        np.testing.assert_allclose(after, self.want(), rtol=1e-6)
        self.assertEqual(predictor.stats()["versions"], 1)

    def test_a_model_to_train_on_is_asked_for_targets(self):
        fl.io.save_persistables(self.exe, self.path + "2", self.main)
        got, = fl.Predictor(self.path + "2",
                            targets=[self.out.name]).run(self.feed)
        np.testing.assert_allclose(got, self.want(), rtol=1e-6)

    def test_files_that_were_named_are_a_model(self):
        self.path += "3"
        self.save(model_filename="program", params_filename="params")
        predictor = fl.Predictor(self.path, model_filename="program",
                                 params_filename="params")
        np.testing.assert_allclose(predictor.run(self.feed)[0], self.want(),
                                   rtol=1e-6)

    def test_what_is_not_there_is_named(self):
        with self.assertRaisesRegex(fl.Error, "nowhere"):
            fl.Predictor("/nowhere")
        with self.assertRaisesRegex(ValueError, "no file.*program"):
            fl.Predictor(self.path, model_filename="program")
        with self.assertRaisesRegex(fl.Error, "x"):
            fl.Predictor(self.path).run({"ids": self.feed["ids"]})

    # --- Fluid's names ---

    def tensors(self):
        ids = inference.PaddleTensor(np.array([[1], [2], [3]]), "ids")
        ids.lod = [[0, 2, 3]]
        x = inference.PaddleTensor()
        x.name, x.data = "x", inference.PaddleBuf(np.ones(4, "float32"))
        x.shape, x.dtype = [2, 2], inference.PaddleDType.FLOAT32
        return [ids, x]

    def test_lists_of_tensors(self):
        native = inference.NativeConfig()
        native.model_dir = self.path
        by_name = inference.AnalysisConfig(self.path)
        by_name.switch_specify_input_names(True)
        by_name.switch_ir_optim(False)
        for config, inputs in ((native, self.tensors()),
                               (by_name, self.tensors()[::-1])):
            out, = inference.create_paddle_predictor(config).run(inputs)
            self.assertEqual((out.name, out.shape), (self.out.name, [2, 2]))
            np.testing.assert_allclose(
                np.reshape(out.data.float_data(), [2, 2]), self.want(),
                rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "1 tensors for.*ids, x"):
            inference.create_paddle_predictor(native).run(inputs[:1])

    def test_inputs_that_are_filled_one_by_one(self):
        predictor = inference.create_paddle_predictor(
            inference.AnalysisConfig(self.path)).clone()
        ids = predictor.get_input_tensor("ids")
        ids.copy_from_cpu(np.array([[1], [2], [3]]))
        ids.set_lod([[0, 2, 3]])
        predictor.get_input_tensor("x").copy_from_cpu(self.feed["x"])
        predictor.zero_copy_run()
        name, = predictor.get_output_names()
        np.testing.assert_allclose(
            predictor.get_output_tensor(name).copy_to_cpu(), self.want(),
            rtol=1e-6)

    def test_a_config_says_what_it_has_not(self):
        with self.assertLogs("flotilla", "WARNING") as said:
            inference.AnalysisConfig(self.path).enable_profile()
        self.assertIn("fluid.profiler", said.output[0])
        with self.assertRaisesRegex(NotImplementedError, "tensorrt"):
            inference.AnalysisConfig(self.path).enable_tensorrt_engine()
        with self.assertRaisesRegex(ValueError, "folder, or by the files"):
            inference.create_paddle_predictor(inference.NativeConfig())


if __name__ == "__main__":
    unittest.main()
