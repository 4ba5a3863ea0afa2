"""A click model: numbers and categories of a table in text become the chance of a
click. Trained file by file, judged on what it has not seen, saved for prediction.

    python3 model.py TRAIN TEST MODEL

Started by fleetrun it is a worker or a server of a job.
"""
import glob
import os
import sys

import flotilla as fl
import numpy as np
from flotilla.fleet import DistributedStrategy, fleet, metrics

LABEL = "click"
NUMBERS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 9)]
WIDTH, HIDDEN, LAYERS, BATCH, EPOCHS = 8, 64, 2, 100, 2

HERE = os.path.dirname(os.path.abspath(__file__))
FORMAT = open(os.path.join(HERE, "format.txt")).read().strip()


def number(name):
    """log(1 + x) tames counts; what is below 0 counts as 0."""
    x = fl.layers.data(name, [1])
    return x, fl.layers.log(fl.layers.scale(fl.layers.relu(x), bias=1.0))


def category(name):
    """Rows of one table, which grows with the ids it sees."""
    ids = fl.layers.data(name, [1], dtype="int64")
    row = fl.layers.embedding(ids, [1 << 40, WIDTH], is_sparse=True,
                              is_distributed=True, param_attr="categories")
    return ids, row


def build():
    label = fl.layers.data(LABEL, [1], dtype="int64")
    columns = [number(n) for n in NUMBERS] + [category(n) for n in CATEGORIES]
    h = fl.layers.concat([value for _, value in columns], axis=1)
    for _ in range(LAYERS):
        h = fl.layers.fc(h, HIDDEN, act="relu")
    chance = fl.layers.fc(h, 2, act="softmax")
    loss = fl.layers.mean(fl.layers.cross_entropy(chance, label))
    counts = fl.layers.auc(chance, label)[2]
    return [label] + [feed for feed, _ in columns], chance, loss, counts


def open_data(feeds, path):
    files = sorted(glob.glob(os.path.join(path, "*")))
    data = fl.DatasetFactory().create_dataset("QueueDataset")
    data.set_use_var(feeds)
    data.set_format(FORMAT)
    data.set_batch_size(BATCH)
    data.set_filelist(fleet.util.get_file_shard(files))
    return data


def count_anew(counts):
    for var in counts:
        t = fl.global_scope().find_var(var.name).get_tensor()
        t.set(np.zeros_like(np.array(t)), fl.CPUPlace())


def main(train, test, model):
    fleet.init()
    feeds, chance, loss, counts = build()
    strategy = DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(fl.optimizer.Adam(0.001),
                                strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = fl.Executor()
    fleet.init_worker()
    exe.run(fl.default_startup_program())
    data, held_out = open_data(feeds, train), open_data(feeds, test)
    for epoch in range(EPOCHS):
        exe.train_from_dataset(dataset=data, print_period=-1)
        count_anew(counts)
        exe.infer_from_dataset(dataset=held_out, print_period=-1)
        auc = metrics.auc(*counts[2:])  # of all workers
        if fleet.is_first_worker():
            print(f"epoch {epoch + 1}: AUC {auc:.4f} held out", flush=True)
    count_anew(counts)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fl.io.save_inference_model(model, NUMBERS + CATEGORIES, [chance], exe)
    fleet.stop_worker()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: model.py TRAIN TEST MODEL")
    main(*sys.argv[1:])
