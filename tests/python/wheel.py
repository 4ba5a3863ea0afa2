"""What a wheel must do where nothing else of Flotilla is: train in a process
and in a job with a server, and have its tools."""
import platform
import subprocess
import sys

import numpy as np

import flotilla as fl

SCRIPT = """
import numpy as np
import paddle.fluid as fluid
import paddle.distributed.fleet as fleet
from paddle.distributed.fleet.base import role_maker

fleet.init(role_maker.PaddleCloudRoleMaker())
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 1)))
fleet.distributed_optimizer(fluid.optimizer.SGD(0.05)).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((8, 4), "float32")}
    for _ in range(20):
        value, = exe.run(feed=feed, fetch_list=[loss])
    print("trained", float(value[0]) < 1)
    fleet.stop_worker()
"""


def train():
    x = fl.layers.data("x", [13])
    y = fl.layers.data("y", [1])
    loss = fl.layers.mean(fl.layers.square_error_cost(fl.layers.fc(x, 1), y))
    fl.optimizer.Adam(0.05).minimize(loss)
    exe = fl.Executor()
    exe.run(fl.default_startup_program())
    rng = np.random.RandomState(1)
    feed = {"x": rng.rand(64, 13).astype("float32")}
    feed["y"] = feed["x"].sum(1, keepdims=True)
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0])
              for _ in range(200)]
    assert losses[-1] < 0.1 * losses[0], losses


def run_job():
    with open("script.py", "w") as f:
        f.write(SCRIPT)
    done = subprocess.run(["fleetrun", "--server_num=1", "--worker_num=2",
                           "script.py"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert not done.returncode and "trained True" in done.stdout, \
        done.stdout


train()
run_job()
subprocess.run(["flotilla", "version"], check=True, stdout=subprocess.DEVNULL)
print(f"Python {platform.python_version()} with numpy {np.__version__}: "
      f"trains alone and in a job ({sys.prefix})")
