"""examples/python: each one as its first lines say.

    test_examples.py FLEETRUN FLOTILLA FOLDER
"""
import glob
import os
import re
import shutil
import sys
import unittest

from kit import FolderCase, path_with

FLEETRUN, FLOTILLA, FOLDER = (os.path.abspath(p) for p in sys.argv[1:4])
del sys.argv[1:4]
ALONE = (sys.executable, "-m", "flotilla")


class Examples(FolderCase):
    def setUp(self):
        super().setUp()
        for path in glob.glob(FOLDER + "/*.py"):
            shutil.copy(path, self.folder)

    def run_it(self, *words, **variables):
        """What it prints, those of all workers together."""
        said = self.command(*words, PATH=path_with(FLEETRUN), **variables)
        return said + self.logs("*log.*")

    def job(self, servers, workers, *words, **variables):
        many = [f"--server_num={servers}"] if servers else []
        return self.run_it(FLEETRUN, *many, f"--worker_num={workers}", *words,
                           **variables)

    def test_mlp_alone_on_servers_and_by_workers_alone(self):
        for how in ((*ALONE,), (FLEETRUN, "--server_num=2", "--worker_num=2"),
                    (FLEETRUN, "--worker_num=2")):
            costs = re.findall(r"worker 0, step \d+: cost (\S+)",
                               self.run_it(*how, "mlp.py", "301"))
            self.assertLess(float(costs[3]), float(costs[0]))

    def test_roles(self):
        launch = (*ALONE, "-m", "paddle.distributed.launch")
        self.assertIn("worker 1 of 2", self.run_it(
            *launch[:-1], launch[-1] + "_ps", "--server_num=2",
            "--worker_num=2", "roles.py"))
        self.assertIn("worker 0 of 1",
                      self.run_it(*launch, "roles.py", "collective"))
        self.assertIn("server 0 of 2", self.run_it(*ALONE, "roles.py",
                                                   "by_hand"))

    def test_replicas(self):
        for n in ("1", "4"):
            self.assertIn(f"{n} replicas: loss 0.0",
                          self.run_it(*ALONE, "replicas.py", CPU_NUM=n))

    def test_strategies(self):
        for kind in ("sync", "half_async", "async", "geo"):
            self.assertIn(f"{kind}: worker 1, loss",
                          self.job(1, 2, "strategies.py", kind))
        self.job(1, 2, "strategies.py", "half_async", CPU_NUM="2")

    def test_clicks(self):
        self.run_it(*ALONE, "clicks.py")

    def test_incremental(self):
        self.run_it(*ALONE, "incremental.py")
        for n in (1, 2, 4):
            self.assertIn(f"trainer {n - 1}: loss",
                          self.job(2, n, "incremental.py"))

    def test_ctr_app(self):
        os.mkdir(self.folder + "/train_data")
        for i in ("0", "1"):
            self.run_it(FLOTILLA, "datagen", "--lines", "1000", "--out",
                        f"train_data/part-{i}")
        said = self.job(1, 2, "ctr_app.py", "--epoch=2", "--batch_size=250")
        self.assertEqual(len(re.findall("^worker_index: 1.*train_loss", said,
                                        re.M)), 8)


if __name__ == "__main__":
    unittest.main()
