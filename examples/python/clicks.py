"""Files of records that the library reads, and an embedding whose gradient is
the rows of a batch.

    python3 -m flotilla clicks.py
"""
import os
import tempfile

import paddle.fluid as fluid

folder = tempfile.TemporaryDirectory()
for i in range(4):
    with open(os.path.join(folder.name, f"part-{i}"), "w") as f:
        for n in range(i * 500, i * 500 + 500):
            f.write(f"2 {n % 50} {50 + n % 20} 1 {n % 2}\n")

ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
click = fluid.layers.data("click", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [100, 16], is_sparse=True)
score = fluid.layers.fc(fluid.layers.sequence_pool(rows, "sum"), 2,
                        act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(score, click))
fluid.optimizer.SGD(0.5).minimize(loss)

dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
dataset.set_use_var([ids, click])
dataset.set_batch_size(50)
dataset.set_thread(2)
dataset.set_filelist([os.path.join(folder.name, n)
                      for n in sorted(os.listdir(folder.name))])
dataset.load_into_memory()

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
for epoch in range(5):
    dataset.local_shuffle()
    exe.train_from_dataset(fluid.default_main_program(), dataset,
                           fetch_list=[loss], fetch_info=["loss"],
                           print_period=20)
