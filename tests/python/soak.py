"""Memory stays flat: programs that come and go, steps, scopes, exceptions of
callbacks, and a random walk over the API.

    soak.py [SHARE]      SHARE of the usual number of rounds, 1 unless said

Under a sanitizer or a debug build of Python a smaller share is enough: they
find the first fault.
"""
import gc
import random
import sys
import tempfile
import unittest

import numpy as np

import flotilla as fl

SHARE = float(sys.argv.pop(1)) if len(sys.argv) > 1 else 1.0
PROGRAMS, STEPS, SCOPES, RAISED, WALK = 10_000, 1_000_000, 10_000, 200, 20_000
FLAT_KB = 8192  # what may come late: pools of Python and of malloc


def rounds(n):
    """Enough to fill what Python and malloc keep for later."""
    return max(int(n * SHARE), min(n, 800))


def resident_kb():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4


def build():
    main, startup = fl.Program(), fl.Program()
    with fl.unique_name.guard(), fl.program_guard(main, startup):
        x = fl.layers.data("x", [4])
        y = fl.layers.data("y", [1])
        h = fl.layers.fc(x, 8, act="relu")
        loss = fl.layers.mean(
            fl.layers.square_error_cost(fl.layers.fc(h, 1), y))
        fl.optimizer.Adam(0.01).minimize(loss)
    return main, startup, loss


FEED = {"x": np.ones((8, 4), "float32"), "y": np.ones((8, 1), "float32")}


class Soak(unittest.TestCase):
    def flat(self, work, n):
        """The second half of the rounds adds nothing to the first."""
        for _ in range(n // 2):
            work()
        before = resident_kb()
        for _ in range(n - n // 2):
            work()
        self.assertLess(resident_kb() - before, FLAT_KB)

    def test_programs_come_and_go(self):
        exe = fl.Executor()

        def one():
            main, startup, loss = build()
            scope = fl.Scope()
            exe.run(startup, scope=scope)
            exe.run(main, feed=FEED, fetch_list=[loss], scope=scope)
            main.clone(for_test=True)

        self.flat(one, rounds(PROGRAMS))

    def test_steps(self):
        main, startup, loss = build()
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(startup, scope=scope)
        self.flat(lambda: exe.run(main, feed=FEED, fetch_list=[loss],
                                  scope=scope), rounds(STEPS))

    def test_large_values_that_are_handed_over(self):
        main = fl.Program()
        with fl.program_guard(main, fl.Program()):
            y = fl.layers.relu(fl.layers.data("x", [1000]))
        exe, feed = fl.Executor(), {"x": np.ones((500, 1000), "float32")}
        kept = []

        def one():
            kept[:] = exe.run(main, feed=feed, fetch_list=[y])

        self.flat(one, rounds(SCOPES))
        del exe
        self.assertEqual(kept[0].sum(), 500_000)

    def test_scopes(self):
        def one():
            scope = fl.Scope()
            kid = scope.new_scope()
            scope.var("a").get_tensor().set(np.ones(1000, "float32"), None)
            value = np.asarray(kid.find_var("a").get_tensor())
            scope.drop_kids()
            return value.sum()

        self.flat(one, rounds(SCOPES))

    def test_exceptions_of_callbacks(self):
        main, startup, loss = build()
        exe = fl.Executor()
        exe.run(startup)
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("4 1 1 1 1 1 1\n" * 200)
            f.flush()
            data = fl.DatasetFactory().create_dataset("QueueDataset")
            block = main.global_block()
            data.set_use_var([block.var("x"), block.var("y")])
            data.set_batch_size(1)
            data.set_filelist([f.name] * 20)

            class Bad(fl.FetchHandler):
                def handler(self, values):
                    raise KeyError("of the handler")

            def one():
                try:
                    exe.train_from_dataset(
                        main, data, fetch_handler=Bad({"loss": loss}, 0.001))
                except KeyError:
                    pass

            self.flat(one, rounds(RAISED))

    def test_errors(self):
        main, startup, loss = build()
        exe = fl.Executor()
        exe.run(startup)
        bad = dict(FEED, x=np.ones((8, 5), "float32"))

        def one():
            with self.assertRaises(ValueError):
                exe.run(main, feed=bad, fetch_list=[loss])

        self.flat(one, rounds(SCOPES))


class Walk(unittest.TestCase):
    """Faces outlive what they show, in any order: every step does something
    with something of a pool, and what it gives goes into the pool."""

    def test_a_random_walk_over_the_api(self):
        rng = random.Random(1)
        exe = fl.Executor()
        pool = [build()[0]]
        for _ in range(rounds(WALK)):
            made = self.step(rng, exe, rng.choice(pool))
            if made is not None:
                pool.append(made)
            while len(pool) > 50:
                pool.pop(rng.randrange(len(pool)))

    def step(self, rng, exe, thing):
        ways = {fl.Program: self.of_program, fl.ir.Block: self.of_block,
                fl.Scope: self.of_scope}
        for kind, way in ways.items():
            if isinstance(thing, kind):
                return way(rng, exe, thing)
        if isinstance(thing, fl.Operator):
            return self.of_operator(rng, thing)
        return self.of_variable(rng, thing)

    def of_program(self, rng, exe, p):
        ways = [lambda: p.clone(), lambda: p.clone(for_test=True),
                lambda: p.global_block(), lambda: build()[0],
                lambda: fl.Scope(), lambda: self.run_program(exe, p),
                lambda: rng.choice(p.all_parameters() or [None]),
                lambda: str(p) and None, lambda: p._repr_svg_() and None]
        return rng.choice(ways)()

    @staticmethod
    def run_program(exe, p):
        scope = fl.Scope()
        try:
            exe.run(p, feed=FEED, scope=scope)
        except (fl.Error, ValueError):
            pass  # without values it says so
        return scope

    def of_block(self, rng, exe, b):
        ways = [lambda: rng.choice(list(b.vars.values()) or [None]),
                lambda: rng.choice(b.ops or [None]), lambda: b.program]
        if b.ops and rng.random() < 0.1:
            b._remove_op(rng.randrange(len(b.ops)))
        return rng.choice(ways)()

    def of_scope(self, rng, exe, s):
        s.var("v").get_tensor().set(np.ones(rng.randrange(1, 100), "float32"),
                                    None)
        if rng.random() < 0.2:
            s.erase(["v"])
        return s.new_scope() if rng.random() < 0.3 else None

    def of_operator(self, rng, op):
        try:
            op.type, op.input_arg_names, op.output_arg_names, op.attr_names
        except fl.Error:
            pass  # it was removed from its block
        return op.block

    def of_variable(self, rng, v):
        try:
            v.shape, v.dtype, v.persistable, v.name
            v.stop_gradient = rng.random() < 0.5
        except (fl.Error, ValueError):
            pass  # nothing makes it any more
        return v.block


if __name__ == "__main__":
    unittest.main()
