"""Replicas of a net, each on a part of the batch, in threads of one process.

    CPU_NUM=4 python3 -m flotilla replicas.py
"""
import os

import numpy as np
import paddle.fluid as fluid

x = fluid.layers.data("x", [13])
y = fluid.layers.data("y", [1])
predict = fluid.layers.fc(x, 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(predict, y))
fluid.optimizer.SGD(0.1).minimize(loss)
fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())

how = fluid.ExecutionStrategy()
how.num_threads = int(os.getenv("CPU_NUM", "1"))
build = fluid.BuildStrategy()
if how.num_threads > 1:
    build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
pe = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name,
                            build_strategy=build, exec_strategy=how)

random = np.random.RandomState(0)
truth = random.randn(13, 1).astype("float32")
for step in range(100):
    a = random.randn(64, 13).astype("float32")
    losses, = pe.run(feed={"x": a, "y": a @ truth}, fetch_list=[loss.name])
print(f"{pe.device_count} replicas: loss {losses.mean():f}")
assert losses.mean() < 0.01
