"""Clipping, decay and schedules, as Fluid writes them with operators, train on
servers in each mode as they do in one process.

    test_canon.py FLEETRUN
"""
import os
import re
import sys
import unittest

from kit import FolderCase

FLEETRUN = os.path.abspath(sys.argv.pop(1))

SCHEDULES = {
    "exponential": "L.exponential_decay(0.5, 10, 0.5)",
    "stairs": "L.exponential_decay(0.5, 10, 0.5, staircase=True)",
    "natural": "L.natural_exp_decay(0.5, 10, 0.5)",
    "inverse": "L.inverse_time_decay(0.5, 10, 0.5)",
    "polynomial": "L.polynomial_decay(0.5, 15, 0.1, 2.0)",
    "again": "L.polynomial_decay(0.5, 5, 0.1, 2.0, True)",
    "noam": "L.noam_decay(4, 5, 1.0)",
    "cosine": "L.cosine_decay(0.5, 5, 4)",
    "piecewise": "L.piecewise_decay([5, 10], [0.5, 0.25, 0.1])",
    "warmup": "L.linear_lr_warmup(0.5, 8, 0.0, 0.5)",
}

SCRIPT = """
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \\
    import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \\
    .distributed_strategy import StrategyFactory
L = fluid.layers
fleet.init(role_maker.PaddleCloudRoleMaker())
x = L.data("x", [4])
y = L.data("y", [1])
start = fluid.initializer.Constant(0.1)
p = L.fc(L.fc(x, 3, param_attr=fluid.ParamAttr(initializer=start)), 1,
         param_attr=fluid.ParamAttr(initializer=start))
loss = L.mean(L.square_error_cost(p, y))
optimizer = fluid.optimizer.{rule}(
    {rate}, regularization=fluid.regularizer.{decay}(0.01),
    grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5))
fleet.distributed_optimizer(
    optimizer, StrategyFactory.create_{mode}_strategy()).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(3)
    a = rng.rand(16, 4).astype("float32")
    feed = {{"x": a, "y": a.sum(1, keepdims=True)}}
    values = [float(exe.run(fluid.default_main_program(), feed=feed,
                            fetch_list=[loss])[0][0]) for _ in range(20)]
    print("losses", " ".join("%.5f" % v for v in values), flush=True)
    fleet.stop_worker()
"""

SAVED = """
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \\
    import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \\
    .distributed_strategy import StrategyFactory
L = fluid.layers
fleet.init(role_maker.PaddleCloudRoleMaker())
ids = L.data("ids", [1], dtype="int64")
rows = L.embedding(ids, [50, 3], is_sparse=True, param_attr="rows")
p = L.fc(rows, 1)
loss = L.mean(p)
optimizer = fluid.optimizer.SGD(
    L.exponential_decay(0.5, 10, 0.5),
    grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5))
strategy = StrategyFactory.create_sync_strategy()
if not {alone}:
    optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
if {alone}:
    exe.run(fluid.default_startup_program())
    fluid.io.load_persistables(exe, "model")
    find = fluid.global_scope().find_var
    print("counter", int(np.array(find("@LR_DECAY_COUNTER@").get_tensor())))
    feed = {{"ids": np.array([[7]])}}
    want, = exe.run(fluid.default_main_program().clone(for_test=True),
                    feed=feed, fetch_list=[p])
    with fluid.scope_guard(fluid.Scope()):
        program, _, targets = fluid.io.load_inference_model("scores", exe)
        got, = exe.run(program, feed=feed, fetch_list=targets)
    np.testing.assert_allclose(got, want, rtol=1e-6)
elif fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe.run(fluid.default_startup_program())
    for i in range(20):
        exe.run(fluid.default_main_program(),
                feed={{"ids": np.arange(i, i + 8).reshape(8, 1)}})
    fleet.save_persistables(exe, "model")
    fleet.save_inference_model(exe, "scores", ["ids"], [p])
    fleet.stop_worker()
"""


class Canon(FolderCase):
    def losses(self, *options, **words):
        script = SCRIPT.format(**dict({"mode": "sync", "decay": "L2Decay",
                                       "rule": "SGD"},
                                      **words))
        launcher = [FLEETRUN, *options] if options else []
        out = self.run_script(script, *launcher, sys.executable)
        found = re.findall(r"losses ([-0-9. naif]+)", out)
        return [[float(v) for v in one.split()] for one in found]

    def test_one_worker_in_sync_is_one_process(self):
        for name, rate in SCHEDULES.items():
            with self.subTest(name):
                alone, = self.losses(rate=rate)
                served, = self.losses("--server_num=1", "--worker_num=1",
                                      rate=rate)
                for a, b in zip(alone, served):
                    self.assertAlmostEqual(a, b, delta=2e-5)

    def test_powers_of_beta_are_advanced_once(self):
        alone, = self.losses(rate=0.1, rule="Adamax")
        for servers in (1, 2):
            served, = self.losses(f"--server_num={servers}", "--worker_num=1",
                                  rate=0.1, rule="Adamax")
            for a, b in zip(alone, served):
                self.assertAlmostEqual(a, b, delta=2e-5)

    def test_what_a_job_saves_one_process_goes_on_with(self):
        self.run_script(SAVED.format(alone=False), FLEETRUN, "--server_num=1",
                        "--worker_num=1", sys.executable)
        said = self.run_script(SAVED.format(alone=True), sys.executable)
        self.assertIn("counter 19", said)

    def test_every_mode_trains(self):
        for mode in ("half_async", "async", "geo"):
            with self.subTest(mode):
                found = self.losses("--server_num=2", "--worker_num=2",
                                    mode=mode, decay="L1Decay",
                                    rate=SCHEDULES["exponential"])
                for losses in found:  # those that fleetrun shows
                    self.assertLess(losses[-1], 0.5 * losses[0])
                self.assertTrue(found)


if __name__ == "__main__":
    unittest.main()
