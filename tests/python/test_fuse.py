"""Programs on their way to servers: powers are the job's."""
import unittest

import numpy as np

import flotilla as fl
from flotilla.fuse import fuse


def rows_net():
    ids = fl.layers.data("ids", [1], dtype="int64")
    rows = fl.layers.embedding(ids, [9, 4], is_sparse=True, param_attr="rows")
    return fl.layers.mean(fl.layers.fc(rows, 1, param_attr="w", bias_attr="b"))


def built(optimizer):
    main, startup = fl.Program(), fl.Program()
    startup.random_seed = 3
    with fl.program_guard(main, startup), fl.unique_name.guard():
        optimizer().minimize(rows_net())
    return main, startup


def trained(main, startup, steps=3):
    """Parameters after some steps."""
    exe, scope = fl.Executor(), fl.Scope()
    exe.run(startup, scope=scope)
    for i in range(steps):
        exe.run(main, feed={"ids": np.array([[1], [i], [8]])}, scope=scope)
    return {n: np.array(scope.find_var(n).get_tensor())
            for n in ("rows", "w", "b")}


class Fuse(unittest.TestCase):
    def kinds(self, optimizer):
        """Those of an optimizer's operators that are left; what is learned
        stays the same."""
        main, startup = built(optimizer)
        want = trained(main, startup)
        fuse(main)
        got = trained(main, startup)
        for name in want:
            np.testing.assert_allclose(want[name], got[name], rtol=1e-5,
                                       atol=1e-7)
        return [op.type for op in main.global_block().ops
                if op.attr("op_role") == 2]

    def test_an_update_advances_its_power(self):
        kinds = self.kinds(lambda: fl.optimizer.Adamax(0.5))
        self.assertEqual(kinds, ["adamax"] * 3)


if __name__ == "__main__":
    unittest.main()
