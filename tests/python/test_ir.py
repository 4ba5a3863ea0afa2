"""Programs, blocks, variables and operators from Python."""
import gc
import unittest

import flotilla as fl
from flotilla import VarType


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


if __name__ == "__main__":
    unittest.main()
