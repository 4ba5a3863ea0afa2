"""Functions of columns from Python."""
import unittest

import numpy as np

import flotilla as fl
from kit import NetCase

FORMAT = "csv:columns=age:float job:hash when:time tags:hashes click:id"


class FeaturesTest(NetCase):
    def test_columns_are_variables_of_the_program(self):
        columns, feeds = fl.features.build(
            "age = standard(age, 40, 10); hour = hour(when); drop tags",
            FORMAT, label="click")
        self.assertEqual([c.name for c in columns], ["age", "job", "hour"])
        self.assertEqual([c.kind for c in columns],
                         ["number", "category", "category"])
        self.assertEqual([c.height for c in columns], [0, 1000001, 24])
        self.assertEqual([v.name for v in feeds],
                         ["age", "job", "when", "click"])
        age, hour = self.run_for(
            columns[0].var, columns[2].var,
            age=np.array([[50], [30]], "float32"), job=np.array([[1], [2]]),
            when=np.array([[3600], [7200]]), click=np.array([[0], [1]]))
        self.assertEqual(age.tolist(), [[1], [-1]])
        self.assertEqual(hour.tolist(), [[1], [2]])

    def test_names_do_not_meet_those_of_layers(self):
        fl.layers.scale(fl.layers.data("x", [1]), 2.0)
        for name in "ab":
            fl.features.build(f"{name} = standard(age, 40, 10)", FORMAT)

    def test_without_a_text_columns_are_those_of_the_data(self):
        columns, _ = fl.features.build(None, FORMAT, label="click")
        self.assertEqual([c.width for c in columns], [1, 1, 1, 0])

    def test_what_is_wrong_is_told(self):
        with self.assertRaisesRegex(fl.Error, "did you mean age"):
            fl.features.build("a = log(agee)", FORMAT)
        with self.assertRaisesRegex(fl.Error, "describes no column"):
            fl.features.build("", "csv:columns=a")


if __name__ == "__main__":
    unittest.main()
