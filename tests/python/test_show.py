"""What a notebook and a terminal show; the profiler."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import flotilla as fl
from flotilla import profiler, show
from flotilla.fleet.strategy import StrategyFactory


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(**changed):
    return dict({"samples": 500, "total": 1000, "seconds": 2.0,
                 "wait_share": 0.25, "loss": 0.5, "auc": float("nan"),
                 "is_last": False, "text": None}, **changed)


class Faces(unittest.TestCase):
    def test_a_program_is_a_drawing(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            fl.layers.fc(fl.layers.data("x", [2]), 3)
        self.assertIn("<svg", main._repr_html_())
        self.assertIn("mul", main._repr_svg_())

    def test_without_graphviz_a_program_is_its_text(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            fl.layers.fc(fl.layers.data("x", [2]), 3)
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            self.assertIsNone(main._repr_svg_())
            self.assertIn("<pre>", main._repr_html_())

    def test_a_tensor_shows_its_first_numbers(self):
        t = fl.create_lod_tensor(np.arange(60.0).reshape(30, 2), [[10, 20]])
        shown = t._repr_html_()
        self.assertIn("float64[30, 2]", shown)
        self.assertIn("<td>3</td>", shown)
        self.assertNotIn("<td>59</td>", shown)

    def test_rows_show_their_numbers(self):
        rows = fl.SelectedRows([7, 9], 20)
        rows.get_tensor().set(np.ones((2, 2), "float32"))
        self.assertIn("<td>9</td>", rows._repr_html_())

    def test_a_strategy_shows_its_settings(self):
        shown = StrategyFactory.create_geo_strategy(7)._repr_html_()
        self.assertIn("geo", shown)
        self.assertIn("<td>7</td>", shown)

    def test_text_of_others_is_no_html(self):
        self.assertIn("&lt;b&gt;", show.table([["<b>"]]))


class Record(unittest.TestCase):
    def test_numbers_and_notes_go_to_the_folder_of_the_setting(self):
        script = ("import flotilla as fl\n"
                  "fl.record.note('model', 'mine')\n"
                  "fl.record.number('epoch/test/ndcg', 300, 0.75)\n")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", script], check=True,
                           env=dict(os.environ, FLOTILLA_RECORD_DIR=folder))
            with open(os.path.join(folder, "process.jsonl")) as f:
                lines = [json.loads(line) for line in f]
        self.assertEqual(lines[0]["type"], "begin")
        self.assertEqual(lines[1]["text"], "mine")
        self.assertEqual((lines[2]["step"], lines[2]["value"]), (300, 0.75))

    def test_without_the_setting_nothing_is_written(self):
        fl.record.note("model", "mine")


class ProgressLine(unittest.TestCase):
    def test_a_terminal_has_one_line_that_is_written_over(self):
        out = Terminal()
        line = show.Progress(out)
        line(progress())
        line(progress(samples=1000, is_last=True))
        self.assertEqual(out.getvalue().count("\n"), 1)
        self.assertIn("\r0:02  500 samples (50 %), 250 a second, loss 0.5000, "
                      "25 % waiting for data", out.getvalue())
        self.assertNotIn("auc", out.getvalue())

    def test_a_file_has_none(self):
        out = io.StringIO()
        show.Progress(out)(progress(is_last=True))
        self.assertEqual(out.getvalue(), "")

    def test_texts_are_printed(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            show.Progress(io.StringIO())(progress(text="batch 100: loss 1"))
        self.assertEqual(out.getvalue(), "batch 100: loss 1\n")


class Profiler(unittest.TestCase):
    def run_profiled(self, key):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            y = fl.layers.mean(fl.layers.data("x", [2]))
        exe, out = fl.Executor(), io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile")
            with contextlib.redirect_stdout(out):
                with profiler.profiler("CPU", key, path):
                    for _ in range(3):
                        exe.run(main, feed={"x": np.ones((1, 2), "float32")},
                                fetch_list=[y])
                exe.run(main, feed={"x": np.ones((1, 2), "float32")})
            with open(path) as f:
                return out.getvalue(), json.load(f)["traceEvents"]

    def test_a_table_and_a_trace(self):
        for key in (None, "calls", "total", "max", "min", "ave"):
            said, events = self.run_profiled(key)
            self.assertRegex(said, r"mean +3 ")
            self.assertEqual([e["name"] for e in events], ["mean"] * 3)

    def test_what_is_not_there_says_so(self):
        with self.assertRaises(NotImplementedError):
            profiler.cuda_profiler("x")
        with self.assertRaises(ValueError):
            profiler.start_profiler("TPU")
        with self.assertRaises(ValueError):
            profiler.stop_profiler("best")


if __name__ == "__main__":
    unittest.main()
