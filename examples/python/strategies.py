"""Four ways to train on servers, and what can be changed about them.

    fleetrun --server_num=1 --worker_num=2 strategies.py sync
    fleetrun --server_num=1 --worker_num=2 strategies.py geo
"""
import sys

import numpy as np
import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.base.role_maker as role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import \
    fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.\
    distributed_strategy import StrategyFactory

strategy = {
    "sync": StrategyFactory.create_sync_strategy,
    "half_async": StrategyFactory.create_half_async_strategy,
    "async": StrategyFactory.create_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(update_frequency=10),
}[sys.argv[1]]()

# Parameters below this size stay in one piece: changed in place, or by a dict.
config = strategy.get_program_config()
config.min_block_size = 81920
strategy.set_program_config({"slice_var_up": True})

ids = fluid.layers.data("ids", [1], dtype="int64")
click = fluid.layers.data("click", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [1000, 16], is_sparse=True)
score = fluid.layers.fc(rows, 2, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(score, click))

fleet.init(role_maker.PaddleCloudRoleMaker())
optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy)
optimizer.minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
elif fleet.is_worker():
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    program = fluid.CompiledProgram(fleet.main_program).with_data_parallel(
        loss_name=loss.name, build_strategy=strategy.get_build_strategy(),
        exec_strategy=strategy.get_execute_strategy())
    random = np.random.RandomState(fleet.worker_index())
    for step in range(300):
        a = random.randint(0, 1000, (200, 1))
        losses, = exe.run(program, feed={"ids": a, "click": a % 2},
                          fetch_list=[loss.name])
    print(f"{sys.argv[1]}: worker {fleet.worker_index()}, loss "
          f"{losses.mean():f}")
    fleet.stop_worker()
