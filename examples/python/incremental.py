"""Training that goes on from a saved model: by one process, then by servers and
any number of trainers.

    python3 -m flotilla incremental.py
    fleetrun --server_num=2 --worker_num=4 incremental.py
"""
import os

import numpy as np
import paddle.fluid as fluid

PATH = "./models"

x = fluid.layers.data("x", [13])
y = fluid.layers.data("y", [1])
predict = fluid.layers.fc(x, 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(predict, y))
fluid.optimizer.SGD(0.05).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())


def train(program, steps, seed):
    """The first and the last loss."""
    random = np.random.RandomState(seed)
    losses = []
    for _ in range(steps):
        a = random.randn(64, 13).astype("float32")
        losses += exe.run(program, feed={"x": a, "y": a.sum(1, keepdims=True)},
                          fetch_list=[loss])
    return float(losses[0][0]), float(losses[-1][0])


servers = os.getenv("PADDLE_PSERVERS_IP_PORT_LIST")
rank = int(os.getenv("PADDLE_TRAINER_ID", "0"))
if not servers:
    exe.run(fluid.default_startup_program())
    print("alone: loss %f -> %f" % train(fluid.default_main_program(), 50, 0))
    fluid.io.save_persistables(exe, PATH, fluid.default_main_program())
else:
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(rank, pservers=servers,
                         trainers=int(os.environ["PADDLE_TRAINERS_NUM"]))
    if os.environ["TRAINING_ROLE"] == "PSERVER":
        here = os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"]
        program, startup = transpiler.get_pserver_programs(here)
        exe.run(startup)
        fluid.io.load_persistables(exe, PATH, program)
        exe.run(program)
    else:
        program = transpiler.get_trainer_program()
        exe.run(fluid.default_startup_program())
        first, last = train(program, 50, rank)
        print(f"trainer {rank}: loss {first:f} -> {last:f}")
        assert last < first < 1.0, "it began anew"
