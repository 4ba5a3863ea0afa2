"""The scripts of five documents, as they stand.

    seeds.py FLEETRUN FOLDER

The documents are not in the project: FOLDER has them (make seeds DIR=...). A
script is a block of a document, or several in a row; what is changed in one is
in REPAIRS, with the reason. A block that is a piece of a program is run inside
of a frame that has the names which the document takes for granted.
"""
import glob
import os
import re
import subprocess
import sys
import textwrap
import unittest

from kit import FolderCase

FLEETRUN, FOLDER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
del sys.argv[1:3]
# Scripts run in folders of their own.
PATH = os.pathsep.join(os.path.abspath(p) for p in
                       os.environ["PYTHONPATH"].split(os.pathsep))


# --- documents ---------------------------------------------------------------

def document(number):
    path, = glob.glob(os.path.join(FOLDER, f"{number:03d}_*.txt"))
    with open(path, encoding="utf-8") as f:
        return f.read()


def fenced(text):
    """Blocks between ``` lines."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)


def indented(text):
    """Blocks of `.. code-block::`: what is indented deeper than it."""
    blocks, lines = [], text.split("\n")
    for i, line in enumerate(lines):
        if ".. code-block::" not in line:
            continue
        depth, body = len(line) - len(line.lstrip()), []
        for inner in lines[i + 1:]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= depth:
                break
            body.append(inner)
        blocks.append(textwrap.dedent("\n".join(body)).strip("\n") + "\n")
    return blocks


TRANSPILER = fenced(document(0))      # 0 save, 1 servers that load
PRACTICE = indented(document(1))      # 0 replicas, 1 sparse, 2 dataset,
                                      # 3 imports, 4 strategies, 5 compiled,
                                      # 6 a config changed
QUICK = indented(document(2))         # 0 net, 1 data, 2 alone, 3 servers,
                                      # 4 collective, 5.. role makers
CTR = fenced(document(3))             # 0 download, 1-5 ctr_app.py, 6 command

# (document, block): (what the text says, what it is made, why)
REPAIRS = {
    (0, 1): [
        ('training_role == "PSERVER"\n',
         'training_role = os.environ["TRAINING_ROLE"]\n',
         "it compares a name that nothing defines; a role is meant, and each "
         "process has its own"),
        ('pserver_endpoints = "127.0.0.1:1001,127.0.0.1:1002"\n',
         'pserver_endpoints = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]\n',
         "ports below 1024 are the system's"),
        ('trainers = 4\n',
         'trainers = int(os.environ["PADDLE_TRAINERS_NUM"])\n',
         "jobs of 1, 2 and 4 trainers are run"),
        ('current_endpoint = "127.0.0.1:1002"\n',
         'current_endpoint = os.environ["POD_IP"] + ":" + '
         'os.environ["PADDLE_PORT"]\n',
         "it is the second server's; each has its own"),
    ],
}


def block(number, i, blocks):
    text = blocks[i]
    for old, new, _ in REPAIRS.get((number, i), ()):
        assert old in text, f"document {number}, block {i}: no {old!r}"
        text = text.replace(old, new)
    return text


# --- frames ------------------------------------------------------------------

NET = """
import os
import numpy as np
import paddle.fluid as fluid
x = fluid.layers.uniform_random([32, 13], min=-1.0, max=1.0)
y = fluid.layers.reduce_sum(x, dim=1, keep_dim=True)
predict = fluid.layers.fc(x, 1)
loss = avg_cost = fluid.layers.mean(fluid.layers.square_error_cost(predict, y))
main_program = fluid.default_main_program()
learning_rate = 0.1
exe = fluid.Executor(fluid.CPUPlace())
"""


class Scripts(FolderCase):
    def command(self, *words, **variables):
        return super().command(*words, **{"PYTHONPATH": PATH, **variables})

    def alone(self, name, **variables):
        return self.command(sys.executable, "-m", "flotilla", name,
                            **variables)

    def job(self, name, servers, workers, **variables):
        options = [f"--server_num={servers}"] if servers else []
        self.command(FLEETRUN, *options, f"--worker_num={workers}", name,
                     **variables)
        return self.logs("workerlog.*")

    def losses(self, text, pattern):
        found = [float(x) for x in re.findall(pattern, text)]
        self.assertTrue(found, text)
        return found

    # --- 002: a net in three ways, roles ---

    def write_net(self):
        self.write("nets.py", QUICK[0])
        self.write("utils.py", QUICK[1])

    def test_002_the_net_trains_alone(self):
        self.write_net()
        self.write("trainer.py", QUICK[2])
        found = self.losses(self.alone("trainer.py"), r"step\d+ cost=([\d.]+)")
        self.assertEqual(len(found), 1001)

    def test_002_the_net_trains_on_servers(self):
        self.write_net()
        self.write("trainer.py", QUICK[3])
        found = self.losses(self.job("trainer.py", 2, 2),
                            r"worker_index: \d, step\d+ cost = ([\d.]+)")
        self.assertEqual(len(found), 2 * 1001)

    def test_002_the_net_trains_collectively(self):
        self.write_net()
        self.write("trainer.py", QUICK[4])
        found = self.losses(self.job("trainer.py", 0, 2),
                            r"worker_index: \d, step\d+ cost = ([\d.]+)")
        self.assertEqual(len(found), 2 * 1001)

    def test_002_the_commands_of_the_document_start_the_role_makers(self):
        names = dict(PYTHONPATH=names_on_the_path())
        for script, line in ((QUICK[5], QUICK[6]), (QUICK[7], QUICK[8])):
            self.write("trainer.py", script)
            words = line.split()
            self.assertEqual(words[0], "python")
            self.command(sys.executable, *words[1:], **names)

    def test_002_a_role_that_the_user_defines(self):
        self.write("trainer.py", QUICK[9],
                   "assert fleet.is_server() and fleet.server_index() == 0\n")
        self.alone("trainer.py")

    # --- 001: how to train faster ---

    def test_001_replicas_train(self):
        self.write("trainer.py", NET,
                   "fluid.optimizer.SGD(learning_rate).minimize(loss)\n"
                   "exe.run(fluid.default_startup_program())\n", PRACTICE[0],
                   "first, = pe.run([loss.name])\n"
                   "for _ in range(50):\n"
                   "    last, = pe.run([loss.name])\n"
                   "assert last.mean() < 0.5 * first.mean(), (first, last)\n")
        for n in ("1", "2"):
            self.alone("trainer.py", CPU_NUM=n)

    def test_001_an_embedding_is_updated_by_rows(self):
        self.write("trainer.py", "import paddle.fluid as fluid\n"
                   "dict_size = 1000\n", PRACTICE[1],
                   "loss = fluid.layers.mean(fc)\n"
                   "fluid.optimizer.SGD(0.1).minimize(loss)\n"
                   "from paddle.fluid.core import VarDesc\n"
                   "grad = fluid.default_main_program().global_block().var("
                   "'embedding_0.w_0@GRAD')\n"
                   "assert grad.type == VarDesc.VarType.SELECTED_ROWS, grad\n")
        self.alone("trainer.py")

    def test_001_a_dataset_trains(self):
        before, after = PRACTICE[2].split("exe.train_from_dataset")
        self.write("part-0", "".join(f"1 {i % 7} 1 {i % 2}\n"
                                     for i in range(100)))
        self.write("trainer.py", "import paddle.fluid as fluid\n"
                   "a = fluid.layers.data('a', [1], dtype='int64')\n"
                   "b = fluid.layers.data('b', [1], dtype='int64')\n"
                   "e = fluid.layers.embedding(a, [10, 4], is_sparse=True)\n"
                   "p = fluid.layers.fc(e, 2, act='softmax')\n"
                   "loss = fluid.layers.mean("
                   "fluid.layers.cross_entropy(p, b))\n"
                   "fluid.optimizer.SGD(0.1).minimize(loss)\n", before,
                   "dataset.set_use_var([a, b])\n"
                   "dataset.set_batch_size(10)\n"
                   "dataset.set_filelist(['part-0'])\n"
                   "exe.train_from_dataset" + after)
        self.alone("trainer.py")

    def strategies(self):
        """The block as it stands, which ends with geo; and each kind alone."""
        text = PRACTICE[4]
        kinds = re.findall(r"^strategy = .*\n", text, re.M)
        self.assertEqual(len(kinds), 4)
        yield "all", text
        for kind in kinds:
            one = text
            for other in kinds:
                if other != kind:
                    one = one.replace(other, "")
            yield kind.strip(), one

    def test_001_every_strategy_trains_on_servers(self):
        for name, text in self.strategies():
            with self.subTest(strategy=name):
                self.write("trainer.py", NET, PRACTICE[3], text)
                self.job("trainer.py", 1, 2)

    def test_001_a_compiled_program_takes_its_strategies(self):
        """In place of the one run of the block before it."""
        run = "exe.run(fleet.main_program)"
        compiled = textwrap.indent(PRACTICE[5], "    ")
        for name, text in self.strategies():
            with self.subTest(strategy=name):
                self.assertEqual(text.count("    " + run), 1)
                self.write("trainer.py", NET, PRACTICE[3], text.replace(
                    "    " + run, compiled + "    for _ in range(3):\n"
                    "        exe.run(compiled_program, "
                    "fetch_list=[loss.name])"))
                self.job("trainer.py", 1, 2, CPU_NUM="2")

    def test_001_a_config_is_changed_in_both_ways(self):
        imports = ("from paddle.fluid.transpiler.distribute_transpiler import "
                   "DistributeTranspilerConfig\n")
        text = PRACTICE[6]
        by_dict = text.replace("# config = dict()", "config = dict()").replace(
            "# config['min_block_size']", "config['min_block_size']")
        for one in (text, by_dict):
            self.write("trainer.py", NET, imports, PRACTICE[3], one,
                       "assert strategy.get_program_config().min_block_size "
                       "== 81920\n", PRACTICE[4][PRACTICE[4].index("# step2"):])
            self.job("trainer.py", 1, 2)

    # --- 000: saving, and going on from there ---

    def test_000_a_model_is_saved_and_servers_go_on_from_it(self):
        train = ("fluid.optimizer.SGD(learning_rate).minimize(loss)\n"
                 "exe.run(fluid.default_startup_program())\n")
        self.write("save.py", NET, train,
                   "for _ in range(50):\n"
                   "    exe.run(fetch_list=[loss])\n", TRANSPILER[0],
                   "w, = exe.run(fetch_list=['fc_0.w_0'])\n"
                   "np.save('trained', w)\n")
        self.alone("save.py")
        self.write("go_on.py", NET, train, "trainer_id = int(os.environ.get("
                   "'PADDLE_TRAINER_ID', 0))\n", block(0, 1, TRANSPILER),
                   "    w = np.array(fluid.global_scope().find_var("
                   "'fc_0.w_0').get_tensor())\n"
                   "    far = np.abs(w - np.load('trained.npy')).max()\n"
                   "    assert far < 0.3, far\n")
        for trainers in (1, 2, 4):
            with self.subTest(trainers=trainers):
                self.job("go_on.py", 2, trainers)

    # --- 003: an application ---

    def test_003_the_application_trains_on_lines_of_criteo(self):
        for i in range(2):
            self.write(f"train_data/part-{i}", *lines_of_criteo(2000, i))
        self.write("ctr_app.py", *CTR[1:6])
        words = CTR[6].split()
        self.assertEqual(words[0], "fleetrun")
        self.command(FLEETRUN, *words[1:])
        found = self.losses(self.logs("workerlog.*"),
                            r"train_loss: ([\d.]+)")
        self.assertEqual(len(found), 2 * 10 * 2)


def names_on_the_path():
    code = ("from flotilla.launch import environment; "
            "print(environment()['PYTHONPATH'])")
    return subprocess.run([sys.executable, "-c", code], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def lines_of_criteo(n, seed):
    """Lines of 40 columns, made up: labels follow the first category."""
    state = seed + 1
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        numbers = [str(state >> s & 7) for s in range(0, 39, 3)]
        words = [f"{(state >> s) % 997:08x}" for s in range(26)]
        label = str(int(words[0], 16) % 2)
        yield "\t".join([label] + numbers + words) + "\n"


if __name__ == "__main__":
    unittest.main()
