"""The Python side of bench python: the networks and orders of python_c.c.

    python_net.py DATA [toy]    takes orders on its input, answers each with
                                seconds by the clock and of CPU time
    python_net.py DATA MODE     is a process of a job

Written with the names of PaddlePaddle 1.8, so that the step of the toy net is
measured with that as well.
"""
import os
import sys
import time

import numpy as np
import paddle.fluid as fluid

DATA_BATCHES, BATCH, SLOTS, DENSE = 100, 1000, 26, 13
ROWS, DIM = 1000001, 10
TOY_STEPS, FEED_STEPS, THREADS = 2000, 20, 2
FEEDS = [f"C{i + 1}" for i in range(SLOTS)] + ["dense", "label"]


def build_toy():
    x = fluid.layers.data("x", [2])
    y = fluid.layers.data("y", [1], dtype="int64")
    h = fluid.layers.fc(x, 16, act="tanh")
    p = fluid.layers.fc(h, 2, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(p, y))


def build_ctr():
    rows = fluid.ParamAttr(name="rows",
                           initializer=fluid.initializer.Uniform(-0.01, 0.01))
    parts = [fluid.layers.embedding(
        fluid.layers.data(name, [1], dtype="int64"), [ROWS, DIM],
        is_sparse=True, param_attr=rows) for name in FEEDS[:SLOTS]]
    parts.append(fluid.layers.data("dense", [DENSE]))
    label = fluid.layers.data("label", [1], dtype="int64")
    h = fluid.layers.concat(parts, axis=1)
    for width in (400, 400, 400):
        h = fluid.layers.fc(h, width, act="relu")
    p = fluid.layers.fc(h, 2, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(p, label))


class Side:
    """A network of its own, trained with SGD in a scope of its own."""

    def __init__(self, build):
        self.main, startup = fluid.Program(), fluid.Program()
        self.scope = fluid.Scope()
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.program_guard(self.main, startup):
            self.loss = build()
            fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.exe.run(startup, scope=self.scope)


class Toy(Side):
    def __init__(self):
        super().__init__(build_toy)
        x = np.zeros((8, 2), "float32")
        x[0] = 0.1, 0.7
        y = np.array([0, 1, 0, 1, 1, 0, 1, 0], "int64").reshape(8, 1)
        self.fed = {"x": x, "y": y}

    def toy(self, n=TOY_STEPS):
        run, main, feed, loss = self.exe.run, self.main, self.fed, [self.loss]
        with fluid.scope_guard(self.scope):
            for _ in range(n):
                run(main, feed=feed, fetch_list=loss)

    def toy_cached(self):
        """As quick as the original can be asked to."""
        with fluid.scope_guard(self.scope):
            for _ in range(TOY_STEPS // 10):
                self.exe.run(self.main, feed=self.fed,
                             fetch_list=[self.loss], use_program_cache=True)


class Ctr(Side):
    def __init__(self, folder):
        super().__init__(build_ctr)
        ids = np.fromfile(os.path.join(folder, "ids"), "int64")
        dense = np.fromfile(os.path.join(folder, "dense"), "float32")
        labels = np.fromfile(os.path.join(folder, "labels"), "int64")
        self.columns = np.ascontiguousarray(
            ids.reshape(DATA_BATCHES, BATCH, SLOTS).transpose(0, 2, 1))
        self.dense = dense.reshape(DATA_BATCHES, BATCH, DENSE)
        self.labels = labels.reshape(DATA_BATCHES, BATCH, 1)
        self.set = open_set(self.main, folder)
        self.reader = self.make_loader()

    def batch(self, b):
        """Arrays that lie ready, as views."""
        columns = self.columns[b]
        values = [columns[k].reshape(BATCH, 1) for k in range(SLOTS)]
        return values + [self.dense[b], self.labels[b]]

    def feed(self):
        for b in range(FEED_STEPS):
            self.exe.run(self.main, feed=dict(zip(FEEDS, self.batch(b))),
                         fetch_list=[self.loss], scope=self.scope)

    def make_loader(self):
        block = self.main.global_block()
        loader = fluid.io.DataLoader.from_generator(
            feed_list=[block.var(name) for name in FEEDS], capacity=8)
        loader.set_batch_generator(
            lambda: (self.batch(b) for b in range(FEED_STEPS)),
            places=fluid.CPUPlace())
        return loader

    def loader(self):
        for feed in self.reader():
            self.exe.run(self.main, feed=feed, fetch_list=[self.loss],
                         scope=self.scope)

    def dataset(self):
        self.exe.train_from_dataset(self.main, self.set, scope=self.scope,
                                    thread=THREADS, print_period=10**9)


def open_set(program, folder):
    made = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    block = program.global_block()
    made.set_use_var([block.var(name) for name in FEEDS])
    made.set_batch_size(BATCH)
    made.set_thread(1)
    made.set_filelist([os.path.join(folder, "lines")])
    made.load_into_memory()
    return made


def take_orders(sides):
    print("ready", flush=True)
    for line in sys.stdin:
        work = next(getattr(s, line.strip()) for s in sides
                    if hasattr(s, line.strip()))
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        print(f"{time.perf_counter() - clock:.6f} "
              f"{time.process_time() - cpu:.6f}", flush=True)


def join_job(folder, mode):
    from paddle.fluid.incubate.fleet.base import role_maker
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \
        import fleet
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler \
        .distributed_strategy import StrategyFactory

    fleet.init(role_maker.PaddleCloudRoleMaker())
    loss = build_ctr()
    strategy = getattr(StrategyFactory, f"create_{mode}_strategy")()
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1),
                                strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    data = open_set(fleet.main_program, folder)
    fleet.init_worker()
    exe.run(fleet.startup_program)
    for _ in range(2):  # the first warms up
        fleet.barrier_worker()
        clock = time.perf_counter()
        exe.train_from_dataset(fleet.main_program, data, thread=1,
                               print_period=10**9)
        fleet.barrier_worker()
    if fleet.worker_index() == 0:
        print(f"seconds {time.perf_counter() - clock:.6f}", flush=True)
    fleet.stop_worker()


if __name__ == "__main__":
    folder, what = sys.argv[1], sys.argv[2:]
    if what == ["toy"]:
        take_orders([Toy()])
    elif what:
        join_job(folder, what[0])
    else:
        take_orders([Toy(), Ctr(folder)])
