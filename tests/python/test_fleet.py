"""Jobs: scripts under fleetrun, with real servers and workers.

    test_fleet.py FLEETRUN
"""
import os
import re
import subprocess
import sys
import unittest

from kit import FolderCase

FLEETRUN = os.path.abspath(sys.argv.pop(1))

NET = """
import sys
import numpy as np
import paddle.fluid as fluid
ids = fluid.layers.data("ids", [1], dtype="int64")
y = fluid.layers.data("y", [1], dtype="int64")
e = fluid.layers.embedding(ids, [100, 8], is_sparse=True,
                           is_distributed={table})
p = fluid.layers.fc(e, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(p, y))
exe = fluid.Executor(fluid.CPUPlace())

def train(program, rank):
    rng = np.random.RandomState(rank)
    losses = []
    for _ in range(50):
        a = rng.randint(0, 100, (32, 1))
        got, = exe.run(program, feed={{"ids": a, "y": a % 2}},
                       fetch_list=[loss])
        losses.append(float(got[0]))
    # How late a gradient of mode async comes is a matter of the machine.
    assert np.mean(losses[-10:]) < losses[0], losses
"""

FLEET = NET + """
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker
fleet.init(role_maker.PaddleCloudRoleMaker())
{strategy}
optimizer = fleet.distributed_optimizer(
    fluid.optimizer.Adagrad(0.5), strategy)
optimizer.minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe.run(fluid.default_startup_program())
    train(fluid.default_main_program(), fleet.worker_index())
    total = fleet.util.all_reduce([1.0, 2.0])
    print("summed", total.tolist(), "of", fleet.worker_num())
    fleet.stop_worker()
"""

TRANSPILED = NET + """
import os
fluid.optimizer.SGD(1.0).minimize(loss)
t = fluid.DistributeTranspiler()
servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
t.transpile(int(os.environ.get("PADDLE_TRAINER_ID", 0)), pservers=servers,
            trainers=int(os.environ["PADDLE_TRAINERS_NUM"]))
if os.environ["TRAINING_ROLE"] == "PSERVER":
    here = os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"]
    program, startup = t.get_pserver_programs(here)
    exe.run(startup)
    exe.run(program)
else:
    program = t.get_trainer_program()
    exe.run(fluid.default_startup_program())
    train(program, 0)
    print("trained")
"""

# Each worker takes its part of the same batches, so that their mean is what one
# process finds.
SAME = """
import sys
import numpy as np
import paddle.fluid as fluid
import paddle.distributed.fleet as fleet
fluid.default_startup_program().random_seed = 3
ids = fluid.layers.data("ids", [1], dtype="int64")
y = fluid.layers.data("y", [1], dtype="int64")
e = fluid.layers.embedding(ids, [100, 8], is_sparse=True)
p = fluid.layers.fc(e, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(p, y))
fleet.init()
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
{more}
fleet.distributed_optimizer({optimizer}, strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(1)
    losses = []
    for _ in range(8):
        a = rng.randint(0, 100, (32, 1))[fleet.worker_index()::
                                         fleet.worker_num()]
        got, = exe.run(feed={{"ids": a, "y": a % 2}}, fetch_list=[loss])
        losses.append(float(got[0]))
    means = fleet.util.all_reduce(losses) / fleet.worker_num()
    if fleet.is_first_worker():
        print("losses", *("%.5f" % x for x in means))
"""

# It would train for ever, if nobody told it that the other one is gone.
FAILS = """
import sys
import numpy as np
import paddle.fluid as fluid
import paddle.distributed.fleet as fleet
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
fleet.init()
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    step = 0
    while True:
        exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
        step += 1
        if step == 5 and fleet.worker_index() == 1:
            raise ValueError("no more")
"""

# In a scope of its own: two losses of one program; the programs of a minimize that was given up, and
# are held; a minimize that comes too late.
TWICE = """
import warnings
import numpy as np
import paddle.fluid as fluid
import paddle.distributed.fleet as fleet

def net():
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    return [fluid.layers.mean(fluid.layers.square_error_cost(
        fluid.layers.fc(x, 1), y)) for _ in range(2)]

def minimize(loss, rate):
    fleet.distributed_optimizer(fluid.optimizer.SGD(rate)).minimize(loss)

fleet.init()
guard = fluid.scope_guard(fluid.Scope())
guard.__enter__()
given_up = fluid.Program(), fluid.Program()
with fluid.program_guard(*given_up):
    minimize(net()[0], 0.5)
fluid.default_startup_program().random_seed = 7
losses = net()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    minimize(losses[0], 0.1)
    minimize(losses[1], 0.05)
told = [str(w.message) for w in told]
assert len(told) == (fleet.worker_num() > 1), told
assert all("train alone" in t for t in told), told
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(1)
    for _ in range(5):
        x = rng.rand(8, 4).astype("float32")
        feed = {"x": x, "y": x.sum(1, keepdims=True)}
        print("losses", *("%.5f" % v.item() for v in exe.run(
            feed=feed, fetch_list=losses)))
    exe.run(given_up[1])
    if fleet.is_first_worker():
        try:
            minimize(losses[0], 0.1)
        except RuntimeError as e:
            print("refused:", e)
    fleet.stop_worker()
"""

KINDS = {
    "sync": "strategy = None",
    "half_async": "strategy = fleet.DistributedStrategy()\n"
                  "strategy.a_sync = True",
    "geo": "strategy = fleet.DistributedStrategy()\n"
           "strategy.a_sync = True\n"
           "strategy.a_sync_configs = {'k_steps': 5}",
}


class Jobs(FolderCase):
    def run_job(self, script, *options, code=0):
        return self.run_script(script, FLEETRUN, *options, sys.executable,
                               code=code)

    def test_every_kind_of_strategy_trains(self):
        for kind, strategy in KINDS.items():
            with self.subTest(kind=kind):
                out = self.run_job(FLEET.format(table=False, strategy=strategy),
                                   "--server_num=1", "--worker_num=2")
                self.assertTrue(re.search(r"summed \[2.0, 4.0\] of 2", out),
                                out)

    def test_rows_of_a_table_are_on_the_servers(self):
        out = self.run_job(FLEET.format(table=True, strategy=KINDS["sync"]),
                           "--server_num=2", "--worker_num=2")
        self.assertIn("summed", out)

    def test_rows_move_on_servers_as_in_one_process(self):
        decay = "regularization=fluid.regularizer."
        for optimizer in ("SGD(0.5)", "Adam(0.05)", "Momentum(0.05, 0.9)",
                          f"SGD(0.5, {decay}L2Decay(0.01))",
                          f"SGD(0.5, {decay}L1Decay(0.01))"):
            with self.subTest(optimizer=optimizer):
                found = [self.losses(optimizer, *how)
                         for how in (("--worker_num=1",),
                                     ("--server_num=2", "--worker_num=2"))]
                self.assertEqual(len(found[0]), 1)
                self.assertEqual(found[0], found[1])

    def losses(self, optimizer, *how, more=""):
        script = SAME.format(optimizer="fluid.optimizer." + optimizer,
                             more=more)
        return re.findall(r"losses .*", self.run_job(script, *how))

    def test_numbers_travel_as_the_strategy_of_either_kind_says(self):
        old = ("from paddle.fluid.incubate.fleet.parameter_server."
               "distribute_transpiler.distributed_strategy import "
               "StrategyFactory\n"
               "strategy = StrategyFactory.create_sync_strategy()\n"
               "strategy.set_trainer_runtime_config("
               "{'wire_pull': 'bf16', 'wire_push': 'bf16'})")
        new = "strategy.wire_pull = strategy.wire_push = 'bf16'"
        how = ("--server_num=1", "--worker_num=1")
        whole = self.losses("SGD(0.5)", *how)
        found = [self.losses("SGD(0.5)", *how, more=more)
                 for more in (old, new)]
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], whole)
        for a, b in zip(found[0][0].split()[1:], whole[0].split()[1:]):
            self.assertAlmostEqual(float(a), float(b), 2)
        geo = new + "\nstrategy.a_sync, strategy.a_sync_configs = True, " \
                    "{'k_steps': 4}"
        out = self.run_job(SAME.format(optimizer="fluid.optimizer.SGD(0.5)",
                                       more=geo), *how, code=1)
        self.assertIn("wire_p", out)

    def test_what_is_computed_again_is_the_same(self):
        new = ("strategy.recompute = True\n"
               "strategy.recompute_configs = {'checkpoints': [e, p]}")
        old = ("from paddle.fluid.incubate.fleet.collective import "
               "DistributedStrategy\n"
               "strategy = DistributedStrategy()\n"
               "strategy.forward_recompute = True\n"
               "strategy.recompute_checkpoints = [e, p]")
        how = ("--worker_num=2",)
        whole = self.losses("SGD(0.5)", *how)
        for more in (old, new):
            again = more + "\nimport atexit\natexit.register(lambda: print(" \
                           "'twice', '.subprog_' in str(loss.block.program)))"
            out = self.run_job(SAME.format(
                optimizer="fluid.optimizer.SGD(0.5)", more=again), *how)
            self.assertEqual(re.findall(r"losses .*", out), whole)
            self.assertIn("twice True", out)

    def test_a_worker_that_fails_ends_its_job(self):
        for how in (("--server_num=1", "--worker_num=2"), ("--worker_num=2",)):
            with self.subTest(how=how):
                out = self.run_job(FAILS, *how, code=1)
                self.assertIn("ValueError: no more", out)
                self.assertIn("worker 1 ended with exit status 1", out)

    def test_one_process_is_a_job_of_its_own(self):
        script = FLEET.format(table=False, strategy=KINDS["sync"])
        done = subprocess.run([sys.executable, "-c", script], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 1", done.stdout)

    def test_the_last_minimize_of_a_fleet_counts(self):
        found = []
        for how in (("--worker_num=1",), ("--worker_num=2",),
                    ("--server_num=1", "--worker_num=2")):
            with self.subTest(how=how):
                self.run_job(TWICE, *how)
                out = self.logs("workerlog.0")
                found.append(re.findall(r"losses .*", out))
                self.assertEqual(len(found[-1]), 5, out)
                self.assertEqual(found[-1], found[0])
                self.assertIn("refused: fleet: minimize after the job has "
                              "begun", out)

    def test_a_transpiled_program_trains(self):
        out = self.run_job(TRANSPILED.format(table=False), "--server_num=1",
                           "--worker_num=2")
        self.assertIn("trained", out)


if __name__ == "__main__":
    unittest.main()
