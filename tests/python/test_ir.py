"""Programs, blocks, variables and operators from Python."""
import gc
import unittest

import flotilla as fl
from flotilla import VarType
from flotilla.types import AttrType
from kit import NetCase


class Faces(unittest.TestCase):
    def setUp(self):
        self.program = fl.Program()
        self.block = self.program.global_block()
        self.x = self.block.create_var(name="x", shape=[-1, 2],
                                       dtype="float32", is_data=True)

    def test_a_variable_has_one_face(self):
        self.assertIs(self.block.var("x"), self.x)
        self.assertIs(self.block.vars["x"], self.x)

    def test_an_operator_has_one_face(self):
        op = self.block.append_op("relu", inputs={"X": "x"},
                                  outputs={"Out": "y"})
        self.assertIs(self.block.ops[0], op)
        self.assertEqual(op.input("X"), ["x"])
        self.assertEqual(op.output_arg_names, ["y"])

    def test_what_an_operator_makes_has_its_shape_and_type(self):
        y = self.block._temporary("y", "float32")
        self.assertEqual(y.shape, ())
        self.block.append_op("scale", inputs={"X": self.x}, outputs={"Out": y},
                             attrs={"scale": 2.0})
        self.assertEqual((y.shape, y.dtype), ((-1, 2), VarType.FP32))

    def test_a_declared_temporary_takes_the_shape_of_its_operator(self):
        y = self.block.create_var(name="y", shape=[7], dtype="int64",
                                  stop_gradient=True)
        self.block.append_op("scale", inputs={"X": self.x}, outputs={"Out": y})
        self.assertEqual((y.shape, y.dtype), ((-1, 2), VarType.FP32))
        self.assertTrue(y.stop_gradient)

    def test_attributes_read_and_change(self):
        op = self.block.append_op("scale", inputs={"X": "x"},
                                  outputs={"Out": "y"},
                                  attrs={"scale": 2.0, "mine": "kept"})
        op._set_attr("scale", 3.0)
        self.assertEqual((op.attr("scale"), op.attr("mine")), (3.0, "kept"))
        self.assertEqual(op.attr("op_role"), 0)

    def test_types_of_attributes_are_fluids_numbers(self):
        op = self.block.append_op("cast", inputs={"X": "x"},
                                  outputs={"Out": "y"},
                                  attrs={"in_dtype": VarType.FP32,
                                         "out_dtype": VarType.INT64})
        self.assertEqual(op.attr("out_dtype"), VarType.INT64)

    def test_a_wrong_operator_is_answered_with_the_nearest(self):
        with self.assertRaisesRegex(fl.Error, "did you mean scale"):
            self.block.append_op("scal", inputs={"X": "x"},
                                 outputs={"Out": "y"})

    def test_what_is_no_variable_is_refused_by_slot(self):
        with self.assertRaisesRegex(TypeError, "slot X of relu"):
            self.block.append_op("relu", inputs={"X": 3}, outputs={"Out": "y"})

    def test_a_name_that_is_not_there(self):
        with self.assertRaisesRegex(ValueError, "var z not in this block"):
            self.block.var("z")

    def test_operators_are_inserted_and_removed(self):
        self.block.append_op("relu", inputs={"X": "x"}, outputs={"Out": "y"})
        self.block._insert_op(0, "scale", inputs={"X": "x"},
                              outputs={"Out": "x2"})
        self.assertEqual([o.type for o in self.block.ops], ["scale", "relu"])
        self.block._remove_op(0)
        self.assertEqual([o.type for o in self.block.ops], ["relu"])

    def test_a_variable_is_renamed_everywhere(self):
        self.block.append_op("relu", inputs={"X": "x"}, outputs={"Out": "y"})
        self.block._rename_var("y", "z")
        self.assertEqual(self.block.ops[0].output("Out"), ["z"])

    def test_the_text_form_comes_back(self):
        self.block.append_op("relu", inputs={"X": "x"}, outputs={"Out": "y"})
        text = str(self.program)
        self.assertEqual(str(fl.Program.from_text(text)), text)


class Copies(unittest.TestCase):
    def setUp(self):
        self.main, self.startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, self.startup), \
                fl.unique_name.guard():
            x = fl.layers.data("x", [4])
            h = fl.layers.dropout(fl.layers.fc(x, 3), 0.5)
            self.loss = fl.layers.mean(h)
            fl.optimizer.SGD(0.1).minimize(self.loss)

    def test_one_for_test_has_no_updates(self):
        kinds = [o.type for o in
                 self.main.clone(for_test=True).global_block().ops]
        self.assertEqual(kinds, ["mul", "elementwise_add", "dropout", "mean"])

    def test_a_copy_is_apart(self):
        copy = self.main.clone()
        copy.global_block().append_op("relu", inputs={"X": "x"},
                                      outputs={"Out": "more"})
        self.assertFalse(self.main.global_block().has_var("more"))

    def test_a_copy_outlives_its_original(self):
        copy = self.main.clone()
        del self.main, self.loss
        gc.collect()
        self.assertIn("fc_0.w_0", str(copy))

    def test_a_variable_keeps_its_program(self):
        def shape():
            p = fl.Program()
            return p.global_block().create_var(name="v", shape=[3],
                                               dtype="int64")
        v = shape()
        gc.collect()
        self.assertEqual(v.shape, (3,))

    def test_parameters_are_listed(self):
        self.assertEqual([p.name for p in self.main.all_parameters()],
                         ["fc_0.w_0", "fc_0.b_0"])


class Names(unittest.TestCase):
    def test_a_guard_counts_anew(self):
        with fl.unique_name.guard():
            self.assertEqual(fl.unique_name.generate("fc"), "fc_0")
            with fl.unique_name.guard("in_"):
                self.assertEqual(fl.unique_name.generate("fc"), "in_fc_0")
            self.assertEqual(fl.unique_name.generate("fc"), "fc_1")


class Marks(NetCase):
    def setUp(self):
        super().setUp()
        self.x = fl.data("x", [None, 2])

    def last(self):
        return self.main.global_block().ops[-1]

    def test_parts_of_a_net_are_numbered(self):
        with fl.name_scope("part"):
            for path in ("/part/a/", "/part/a_1/"):
                with fl.name_scope("a"):
                    fl.layers.relu(self.x)
                self.assertEqual(self.last().attr("op_namescope"), path)
        fl.layers.relu(self.x)
        self.assertEqual(self.last().attr("op_namescope"), "/")
        with self.assertRaises(AssertionError):
            with fl.name_scope(""):
                pass

    def test_a_device_is_kept_and_checked(self):
        with fl.device_guard("cpu"):
            fl.layers.relu(self.x)
        self.assertEqual(self.last().attr("op_device"), "cpu")
        with self.assertRaisesRegex(ValueError, "tpu"):
            with fl.device_guard("tpu"):
                pass

    def test_updates_name_parameter_and_gradient(self):
        loss = fl.layers.mean(fl.layers.fc(self.x, 1))
        fl.optimizer.SGD(0.1).minimize(loss)
        self.assertEqual(self.last().type, "sgd")
        param, grad = self.last().attr("op_role_var")
        self.assertEqual(grad, param + "@GRAD")
        self.assertTrue(self.last()._is_optimize_op())

    def test_types_of_attributes(self):
        fl.layers.scale(self.x, 2.0)
        op = self.last()
        self.assertEqual(op.attr_type("scale"), AttrType.FLOAT)
        self.assertEqual(op.attr_type("op_role_var"), AttrType.STRINGS)
        self.assertEqual(op.attr_type("op_device"), AttrType.STRING)
        self.assertEqual(op.idx, 0)


class Texts(unittest.TestCase):
    def setUp(self):
        self.program = fl.Program()
        with fl.program_guard(self.program, fl.Program()):
            self.y = fl.layers.fc(fl.data("x", [None, 2]), 3)

    def test_a_program_comes_back_from_its_bytes(self):
        again = fl.Program.parse_from_string(
            self.program.desc.serialize_to_string())
        self.assertEqual(str(again), str(self.program))

    def test_every_part_has_a_text(self):
        block = self.program.global_block()
        for thing in (self.program, block, self.y, block.ops[0]):
            self.assertIsInstance(thing.to_string(True), str)
        self.assertIn("persistable", self.y.to_string(True, True))
        self.assertIn("persistable", self.program.to_string(True, True))
        with self.assertRaisesRegex(AssertionError, "throw_on_error"):
            self.program.to_string("yes")

    def test_a_part_is_cut_out_by_variables_and_operators(self):
        first = self.program.global_block().ops[0]
        self.assertEqual(len(self.program._prune([first]).global_block().ops),
                         1)
        self.assertEqual(len(self.program._prune(self.y).global_block().ops),
                         2)
        with self.assertRaisesRegex(ValueError, "Variable or Operator"):
            self.program._prune(None)

    def test_there_is_no_eager_mode(self):
        for name in ("numpy", "backward", "gradient", "set_value"):
            with self.assertRaisesRegex(NotImplementedError, "eager"):
                getattr(self.y, name)()

    def test_what_is_no_program_is_refused(self):
        for copy in (self.program._copy_param_info_from,
                     self.program._copy_dist_param_info_from):
            with self.assertRaisesRegex(TypeError, "Program"):
                copy("program")

    def test_a_variable_is_not_declared_otherwise(self):
        block = self.program.global_block()
        self.assertIs(block.create_var(name="x"), block.var("x"))
        for field, value in (("shape", [3]), ("dtype", "int64"),
                             ("lod_level", 1), ("persistable", True)):
            with self.assertRaisesRegex(ValueError, f"x .*{field}"):
                block.create_var(name="x", **{field: value})

    def test_a_parameter_has_a_shape_and_a_type(self):
        block = self.program.global_block()
        for shape, dtype in ((None, None), ([], "float32"), ([-1], "float32")):
            with self.assertRaisesRegex(ValueError, "parameter"):
                block.create_parameter(shape, dtype, name="p")

    def test_an_operator_that_there_is_not(self):
        block = self.program.global_block()
        for kind, words in ((None, "can not be None"),
                            ("no_such_op", "has not been registered"),
                            ("reluu", "did you mean relu?")):
            with self.assertRaisesRegex(ValueError, words.replace("?", r"\?")):
                block.append_op(kind)

    def test_a_variable_knows_the_operator_that_makes_it(self):
        self.assertIs(self.y.op, self.program.global_block().ops[-1])

    def test_kinds_of_variables_that_have_no_numbers(self):
        v = self.program.global_block().create_var(
            name="steps", type=VarType.STEP_SCOPES)
        self.assertEqual(v.type, VarType.STEP_SCOPES)

    def test_a_variable_is_declared_again_by_its_operators(self):
        block = self.program.global_block()
        for n in (2, 3):
            block.append_op("fill_constant", outputs={"Out": "v"},
                            attrs={"shape": [n], "value": 1.0})
        self.assertEqual(block.var("v").shape, (3,))
        got, = fl.Executor().run(self.program.clone(), fetch_list=["v"])
        self.assertEqual(got.shape, (3,))


if __name__ == "__main__":
    unittest.main()
