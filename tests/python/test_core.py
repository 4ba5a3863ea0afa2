"""What programs ask PaddlePaddle's core for, under its names."""
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

    def test_one_that_is_none(self):
        with self.assertRaisesRegex(ValueError, "FLAGS_x"):
            fluid.get_flags(["FLAGS_x"])
        with self.assertRaisesRegex(ValueError, "FLAGS_x"):
            fluid.set_flags({"FLAGS_x": 1})
        with self.assertRaises(TypeError):
            fluid.set_flags("FLAGS_x")

    def test_versions(self):
        fluid.require_version("1.5", "1.8.5")
        with self.assertRaisesRegex(Exception, "2.0"):
            fluid.require_version("2.0")
        with self.assertRaises(ValueError):
            fluid.require_version("one")


if __name__ == "__main__":
    unittest.main()
