"""A net of three layers: alone, on servers, or by workers alone.

    python3 -m flotilla mlp.py
    fleetrun --server_num=2 --worker_num=2 mlp.py
    fleetrun --worker_num=2 mlp.py

How it was started says which; the script is the same.
"""
import sys

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

paddle.enable_static()
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1001


def mlp(x, y, hidden=128, classes=2):
    h = paddle.static.nn.fc(x, hidden, act="tanh")
    h = paddle.static.nn.fc(h, hidden, act="tanh")
    prediction = paddle.static.nn.fc(h, classes, act="softmax")
    return paddle.static.nn.mean(paddle.static.nn.cross_entropy(prediction, y))


def batches(seed):
    """The class says whether the numbers of a row are large."""
    random = np.random.RandomState(seed)
    while True:
        x = random.random_sample((128, 32)).astype("float32")
        yield {"x": x, "y": (x.sum(1, keepdims=True) > 16).astype("int64")}


x = paddle.static.data("x", [None, 32], "float32")
y = paddle.static.data("y", [None, 1], "int64")
cost = mlp(x, y)

fleet.init()
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.05), strategy)
optimizer.minimize(cost)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    for step, feed in zip(range(STEPS), batches(fleet.worker_index())):
        value, = exe.run(feed=feed, fetch_list=[cost])
        if step % 100 == 0:
            print(f"worker {fleet.worker_index()}, step {step}: cost "
                  f"{value[0]:f}", flush=True)
    fleet.stop_worker()
