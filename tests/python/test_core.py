"""What programs ask PaddlePaddle's core for, under its names."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np

from flotilla import tensor

import paddle.fluid as fluid
from paddle.fluid import core, framework


class Names(unittest.TestCase):
    def test_suffixes(self):
        self.assertEqual(core.grad_var_suffix(), "@GRAD")
        self.assertEqual(core.empty_var_name(), framework.EMPTY_VAR_NAME)

    def test_types(self):
        self.assertEqual(core.size_of_dtype(core.VarDesc.VarType.FP16), 2)
        self.assertTrue(framework.dtype_is_floating("float64"))
        self.assertFalse(framework.dtype_is_floating("int64"))

    def test_defaults_of_operators(self):
        found = core.get_op_attrs_default_value(b"scale")
        self.assertEqual((found["scale"], found["bias_after_scale"]),
                         (1.0, True))
        self.assertTrue(core.has_grad_op_maker("relu"))

    @unittest.skipUnless(hasattr(np, "from_dlpack"), "of numpy before 1.23")
    def test_a_capsule_goes_around(self):
        t = fluid.create_lod_tensor(np.arange(4).reshape(4, 1), [[1, 3]])
        again = core.from_dlpack(t._to_dlpack())
        self.assertIsInstance(again, core.Tensor)
        np.testing.assert_array_equal(np.array(again), np.array(t))

    def test_numpy_may_be_too_old_for_capsules(self):
        t = fluid.create_lod_tensor(np.arange(4).reshape(4, 1), [[1, 3]])
        with mock.patch.object(tensor, "np", types.SimpleNamespace(
                __version__="1.17.5")):
            with self.assertRaisesRegex(NotImplementedError, "1.17.5.*1.23"):
                t._to_dlpack()

    def test_what_is_not_there_says_so(self):
        for name in ("Graph", "ProgramDesc", "VarBase"):
            with self.assertRaisesRegex(NotImplementedError, name):
                getattr(core, name)()


class Flags(unittest.TestCase):
    def test_a_flag_that_is_a_setting(self):
        self.addCleanup(fluid.set_flags, {"FLAGS_check_nan_inf": False})
        fluid.set_flags({"FLAGS_check_nan_inf": True})
        self.assertEqual(fluid.get_flags("FLAGS_check_nan_inf"),
                         {"FLAGS_check_nan_inf": True})

    def test_the_environment_says_it_as_well(self):
        script = ("import paddle.fluid as fluid;"
                  "print(fluid.get_flags('FLAGS_check_nan_inf'))")
        out = subprocess.run([sys.executable, "-c", script], text=True,
                             check=True, capture_output=True,
                             env={**os.environ, "FLAGS_check_nan_inf": "1"})
        self.assertIn("True", out.stdout)

    def test_how_1_8_keeps_memory_is_kept(self):
        fluid.set_flags({"FLAGS_eager_delete_tensor_gb": 1})
        self.assertEqual(fluid.get_flags(["FLAGS_eager_delete_tensor_gb"]),
                         {"FLAGS_eager_delete_tensor_gb": 1.0})

    def test_one_that_is_none(self):
        with self.assertRaisesRegex(ValueError, "FLAGS_x"):
            fluid.get_flags(["FLAGS_x"])
        with self.assertRaisesRegex(ValueError, "FLAGS_x"):
            fluid.set_flags({"FLAGS_x": 1})
        with self.assertRaises(TypeError):
            fluid.set_flags("FLAGS_x")

    def test_flags_by_their_names(self):
        g = core.globals()
        self.assertIn("FLAGS_check_nan_inf", g)
        self.assertEqual(g["FLAGS_check_nan_inf"], False)
        self.addCleanup(core._set_eager_deletion_mode, 0.0, 1.0, True)
        core._set_eager_deletion_mode(-1, 0.5, False)
        self.assertEqual([g["FLAGS_eager_delete_tensor_gb"],
                          g["FLAGS_memory_fraction_of_eager_deletion"],
                          g.get("FLAGS_fast_eager_deletion_mode")],
                         [-1.0, 0.5, False])
        self.assertEqual(g.get("FLAGS_none", 3), 3)
        with self.assertRaisesRegex(RuntimeError, "FLAGS_use_mkldnn cannot"):
            g["FLAGS_use_mkldnn"] = True
        with self.assertRaisesRegex(KeyError, "mean FLAGS_check_nan_inf"):
            g["FLAGS_check_nan_ifn"] = True

    def test_versions(self):
        fluid.require_version("1.5", "1.8.5")
        with self.assertRaisesRegex(Exception, "2.0"):
            fluid.require_version("2.0")
        with self.assertRaises(ValueError):
            fluid.require_version("one")


class Scopes(unittest.TestCase):
    def test_feeds_and_fetches_are_arrays_of_a_scope(self):
        scope = core.Scope()
        t = fluid.create_lod_tensor(np.arange(4).reshape(4, 1), [[1, 3]])
        core.set_feed_variable(scope, t, "feed", 1)
        self.assertEqual(len(scope.find_var("feed").get_fetch_list()), 2)
        got = core.get_fetch_variable(scope, "feed", 1)
        self.assertEqual(got.recursive_sequence_lengths(), [[1, 3]])

    def test_scopes_inside_of_each_other(self):
        from paddle.fluid import default_scope_funcs as scopes
        scopes.var("outer").set_int(3)
        seen = []

        def inside():
            scopes.var("inner")
            seen.append(scopes.find_var("outer").get_int())

        scopes.scoped_function(inside)
        self.assertEqual(seen, [3])
        self.assertIsNone(scopes.find_var("inner"))
        with self.assertRaisesRegex(RuntimeError, "enter_local_scope"):
            scopes.leave_local_scope()


class Looking(unittest.TestCase):
    def setUp(self):
        self.main = fluid.Program()
        with fluid.program_guard(self.main, fluid.Program()):
            loss = fluid.layers.mean(fluid.layers.fc(fluid.data(
                "x", [None, 2]), 1))
            fluid.optimizer.SGD(0.1).minimize(loss)

    def say(self, call, *args, **kwargs):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            call(*args, **kwargs)
        return out.getvalue()

    def test_programs_and_blocks_are_printed(self):
        from paddle.fluid import debugger
        from paddle.fluid.transpiler import details
        self.assertIn("op mul (X=x",
                      self.say(debugger.pprint_program_codes, self.main))
        block = self.main.global_block()
        self.assertEqual(str(self.main) + "\n",
                         self.say(details.program_to_code, self.main))
        self.assertEqual(details.op_to_code(block.ops[0]), str(block.ops[0]))
        with self.assertRaisesRegex(NotImplementedError, "op_callstack"):
            details.op_to_code(block.ops[0], skip_op_callstack=False)
        short = self.say(debugger.pprint_block_codes, block)
        self.assertIn("mul", short)
        self.assertNotIn("sgd", short)
        self.assertIn("sgd", self.say(debugger.pprint_block_codes, block,
                                      show_backward=True))

    def test_a_drawing_is_written_for_dot(self):
        from paddle.fluid import debugger
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.dot")
            debugger.draw_block_graphviz(self.main.global_block(), path=path)
            with open(path, encoding="utf-8") as f:
                self.assertRegex(f.read(), r"digraph[\s\S]*sgd")
        with self.assertRaisesRegex(NotImplementedError, "highlights"):
            debugger.draw_block_graphviz(self.main.global_block(), ["x"])

    def test_what_is_installed_works(self):
        said = self.say(fluid.install_check.run_check)
        self.assertIn("trains on two places", said)


if __name__ == "__main__":
    unittest.main()
