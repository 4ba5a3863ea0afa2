"""Errors name the line of the script and what would be right."""
import inspect
import unittest

import numpy as np

import flotilla as fl
from flotilla import fluid
from kit import NetCase


def line_here():
    return inspect.currentframe().f_back.f_lineno


class Errors(NetCase):
    def setUp(self):
        super().setUp()
        self.exe = fl.Executor()

    def build(self):
        x = fl.layers.data("x", [3]); self.x_line = line_here()
        y = fl.layers.data("y", [1])
        p = fl.layers.fc(x, 1)
        self.cost = fl.layers.square_error_cost(p, y); self.op_line = line_here()
        self.loss = fl.layers.mean(self.cost)
        fl.optimizer.SGD(0.1).minimize(self.loss)

    def feed(self, **changed):
        return dict({"x": np.ones((4, 3), "float32"),
                     "y": np.ones((4, 1), "float32")}, **changed)

    def fails(self, kind, call, *pieces):
        with self.assertRaises(kind) as caught:
            call()
        for piece in pieces:
            self.assertIn(piece, str(caught.exception))
        return caught.exception

    def run_with(self, program=None, **changed):
        return lambda: self.exe.run(program or self.main,
                                    feed=self.feed(**changed),
                                    fetch_list=[self.loss])

    def test_a_run_names_the_line_that_built_the_operator_and_both_shapes(self):
        self.build()
        self.exe.run(self.startup)
        e = self.fails(ValueError,
                       self.run_with(y=np.ones((5, 1), "float32")), "[4,1]",
                       "[5,1]", f"line {self.op_line}", "square_error_cost(p")
        self.assertEqual(e.place, (__file__, self.op_line))

    def test_a_copy_of_a_program_knows_the_lines_too(self):
        self.build()
        self.exe.run(self.startup)
        self.fails(ValueError, self.run_with(self.main.clone(),
                                             y=np.ones((5, 1), "float32")),
                   f"line {self.op_line}")

    def test_a_feed_names_the_line_that_declared_it(self):
        self.build()
        self.exe.run(self.startup)
        self.fails(ValueError, self.run_with(x=np.ones((4, 2), "float32")),
                   "feed x", "[4,2]", "[-1,3]", f"line {self.x_line}")

    def test_a_feed_that_is_checked_names_its_line_too(self):
        self.enter(fl.program_guard(fl.Program()))
        x = fluid.data("checked", [None, 3]); line = line_here()
        y = fl.layers.scale(x, 2.0)
        for value in (np.ones((2, 4), "float32"), np.ones((2, 3))):
            e = self.fails(ValueError,
                           lambda: self.exe.run(feed={"checked": value},
                                                fetch_list=[y]), "checked")
            self.assertEqual(e.place, (__file__, line))
            self.assertIn(f"line {line}", str(e.__cause__))

    def test_a_feed_that_is_missing_names_its_line(self):
        self.build()
        self.exe.run(self.startup)
        self.fails(ValueError,
                   lambda: self.exe.run(self.main, fetch_list=[self.loss],
                                        feed={"y": self.feed()["y"]}),
                   "x is needed but not fed", f"line {self.x_line}")

    def test_a_feed_that_the_program_has_not_is_told(self):
        self.build()
        self.exe.run(self.startup)
        with self.assertWarnsRegex(UserWarning, "not in the program: more"):
            self.run_with(more=np.ones(1))()
        feed = self.feed()
        feed["xx"] = feed.pop("x")
        self.fails(LookupError, lambda: self.exe.run(
            self.main, feed=feed, fetch_list=[self.loss]), "xx")

    def test_what_is_no_value_is_named(self):
        self.build()
        self.exe.run(self.startup)
        for value in (None, "text"):
            self.fails(TypeError, self.run_with(x=value), "feed x",
                       type(value).__name__)

    def test_a_type_in_the_place_of_a_switch_is_told(self):
        self.fails(TypeError, lambda: fl.layers.data("x", [1], "int64"),
                   "data x", "dtype='int64'")

    def test_a_handler_has_names_and_variables(self):
        self.build()
        handler = fl.executor.FetchHandler(self.loss.name)
        self.fails(TypeError, lambda: self.exe.train_from_dataset(
            self.main, fl.DatasetFactory().create_dataset(),
            fetch_handler=handler), "name: variable")

    def test_a_parameter_without_a_value_names_its_line(self):
        self.build()
        scope = fl.Scope()
        self.fails(LookupError,
                   lambda: self.exe.run(self.main, feed=self.feed(),
                                        scope=scope),
                   "has no value", "startup program", __file__)

    def test_building_names_line_and_shapes(self):
        x = fl.layers.data("x", [3])
        a, b = fl.layers.fc(x, 3), fl.layers.fc(x, 4)
        e = self.fails(ValueError, lambda: fl.layers.elementwise_add(a, b),
                       "[-1,3]", "[-1,4]")
        self.assertEqual(e.place[0], __file__)

    def test_a_number_that_is_not_finite_names_its_operator(self):
        x = fl.layers.data("x", [1])
        y = fl.layers.log(x); line = line_here()
        fl._core.ctx_set(fl.ir.ctx, "check_nan_inf", "true")
        self.addCleanup(fl._core.ctx_set, fl.ir.ctx, "check_nan_inf", "false")
        self.fails(ArithmeticError,
                   lambda: self.exe.run(
                       self.main, feed={"x": -np.ones((2, 1), "float32")},
                       fetch_list=[y]), f"line {line}")

    def test_a_wrong_name_is_answered_with_the_nearest(self):
        self.build()
        self.exe.run(self.startup)
        block = self.main.global_block()
        w = next(p.name for p in self.main.all_parameters())
        self.fails(ValueError, lambda: block.var(w[:-1]), f"did you mean {w}")
        self.fails(LookupError, lambda: block.append_op("matmull"),
                   "did you mean matmul?")
        self.fails(LookupError,
                   lambda: self.exe.run(self.main, feed=self.feed(),
                                        fetch_list=[self.loss.name + "0"]),
                   f"did you mean {self.loss.name}?")
        self.fails(AttributeError, lambda: fl.layers.sofmax, "softmax")
        self.fails(AttributeError, lambda: fl.Executer, "Executor")
        self.fails(TypeError, lambda: fl.layers.fc(x=1, size=1), "fc")
        self.fails(TypeError,
                   lambda: fl.layers.fc(block.var("x"), 1, activation="relu"),
                   "activation")


if __name__ == "__main__":
    unittest.main()
