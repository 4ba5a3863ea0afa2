"""Tables of this process, and those of servers.

    test_table.py FLEETRUN
"""
import os
import sys
import tempfile
import unittest

import numpy as np

import flotilla as fl
from kit import FolderCase

FLEETRUN = os.path.abspath(sys.argv.pop(1))

BY_HAND = """
import os
import numpy as np
import flotilla as fl

servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
n = int(os.environ["PADDLE_TRAINERS_NUM"])
if os.environ["TRAINING_ROLE"] == "PSERVER":
    fl.serve(servers, n, int(os.environ["PADDLE_PSERVER_ID"]))
else:
    rank = int(os.environ["PADDLE_TRAINER_ID"])
    with fl.Job(servers, n, rank) as job:
        users = job.table("users", dim=4, init="constant(1)", optimizer="sgd")
        bias = job.dense("bias", 3, "sgd", learning_rate=1)
        job.start()
        keys = np.array([3, 2 ** 63, 3], dtype="uint64")
        users.push(keys, np.ones((3, 4)), lr=0.25)
        bias.push([1, 2, 3])
        job.barrier()
        rows = users.pull(keys)
        assert rows.tolist() == [[0.0] * 4, [0.5] * 4, [0.0] * 4], rows
        assert bias.pull().tolist() == [-2.0, -4.0, -6.0], bias.pull()
        assert users.pull([77], create=False).shape == (1, 4)
        assert job.table("users").dim == 4 and job.dense("bias").size == 3
        try:
            users.push([1], np.ones((1, 5)), lr=1.0)
        except ValueError as e:
            assert "rows of 4 want 4 values, not 5" in str(e), e
        else:
            raise AssertionError("five numbers for four")
        job.barrier()
        if rank == 0:
            job.save("model")
            users.clear()
            job.load("model")
            assert users.pull([3]).tolist() == [[0.0] * 4]
            assert job.stats()
            bias.assign([7, 7, 7])
            assert bias.pull().tolist() == [7.0] * 3
        job.barrier()
    print("trainer", rank, "is through")
"""

OF_FLEET = """
import numpy as np
import flotilla as fl
from flotilla.fleet import fleet

ids = fl.layers.data("ids", [1], dtype="int64")
rows = fl.layers.embedding(ids, [100, 6], is_sparse=True, is_distributed=True,
                           param_attr=fl.ParamAttr(
                               name="emb", initializer=fl.initializer.
                               Constant(2.0)))
loss = fl.layers.mean(rows)
fleet.init()
fleet.distributed_optimizer(fl.optimizer.SGD(1.0)).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = fl.Executor()
    exe.run(fl.default_startup_program())
    a = np.full((4, 1), 5)
    exe.run(feed={"ids": a}, fetch_list=[loss])
    fleet.util.barrier()
    emb = fl.Job.of(fleet).table("emb")
    got = emb.pull([5, 6])
    assert np.allclose(got[1], 2.0), got
    assert np.allclose(got[0], 2.0 - 1 / 6), got
    fleet.stop_worker()
    print("looked")
"""


class OfThisProcess(unittest.TestCase):
    def test_rows_are_made_updated_and_forgotten(self):
        t = fl.Table("t1", dim=3, init="constant(2)", optimizer="sgd")
        ids = np.array([[1, 2], [1, 9]])
        self.assertEqual(t.pull(ids).shape, (2, 2, 3))
        self.assertEqual(len(t), 3)
        t.push([1, 1], np.ones((2, 3)), lr=0.5)
        self.assertEqual(t.pull([1, 2]).tolist(), [[1.0] * 3, [2.0] * 3])
        t.assign([7], [[1, 2, 3]])
        t.add([7, 7], [[1, 1, 1], [1, 1, 1]])
        self.assertEqual(t.pull([7]).tolist(), [[3.0, 4.0, 5.0]])
        self.assertEqual(t.remove([7, 8]), 1)
        self.assertEqual(t.end_day(2), 0)
        t.push([1], np.ones((1, 3)), lr=0.5)
        self.assertEqual(t.end_day(2), 2)
        self.assertEqual(len(t), 1)
        t.clear()
        self.assertEqual(len(t), 0)

    def test_any_64_bit_number_is_a_key(self):
        t = fl.Table("t2", dim=1, init="constant(0)")
        t.assign(np.array([2 ** 64 - 1], dtype="uint64"), [[4.0]])
        self.assertEqual(t.pull([-1]).tolist(), [[4.0]])
        with self.assertRaisesRegex(TypeError, "whole numbers"):
            t.pull([0.5])

    def test_numbers_that_do_not_fit_are_refused(self):
        t = fl.Table("t3", dim=2)
        for call in (lambda: t.push([1, 2], np.ones((2, 3)), lr=1.0),
                     lambda: t.assign([1], [1.0]),
                     lambda: t.push([1], [[1, 1]], lr=1.0, shows=[1, 1],
                                    clicks=[0, 0])):
            with self.assertRaisesRegex(ValueError, "rows of 2 want"):
                call()
        with self.assertRaisesRegex(ValueError, "come together"):
            t.push([1], [[1, 1]], lr=1.0, shows=[1])

    def test_a_table_is_found_and_a_second_one_of_its_name_refused(self):
        fl.Table("t4", dim=2)
        self.assertEqual(fl.Table.find("t4").dim, 2)
        with self.assertRaises(fl.Error):
            fl.Table("t4", dim=2)
        with self.assertRaises(fl.Error):
            fl.Table.find("nobody")
        with self.assertRaisesRegex(ValueError, "give dim"):
            fl.Table("t5", optimizer="sgd")

    def test_rows_are_lines_of_text(self):
        t = fl.Table("t6", dim=2, init="constant(0)")
        t.assign([4, 5], [[1, 2], [3, 4]])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            t.dump(path)
            t.clear()
            t.load(path)
        self.assertEqual(t.pull([5, 4]).tolist(), [[3, 4], [1, 2]])

    def test_an_embedding_learns_in_the_table_of_its_name(self):
        main, startup = fl.Program(), fl.Program()
        with fl.program_guard(main, startup):
            ids = fl.layers.data("ids", [1], dtype="int64")
            rows = fl.layers.embedding(
                ids, [100, 4], is_sparse=True, is_distributed=True,
                param_attr=fl.ParamAttr(
                    name="t7", initializer=fl.initializer.Constant(1.0)))
            loss = fl.layers.mean(rows)
            fl.optimizer.SGD(4.0).minimize(loss)
        exe = fl.Executor()
        exe.run(startup)
        exe.run(main, feed={"ids": np.array([[3]])}, fetch_list=[loss])
        self.assertEqual(fl.Table.find("t7").pull([3]).tolist(), [[0.0] * 4])


class OfServers(FolderCase):
    def run_job(self, script, said):
        self.assertIn(said, self.run_script(
            script, FLEETRUN, "--server_num=2", "--worker_num=2"))

    def test_a_client_without_programs(self):
        self.run_job(BY_HAND, "trainer 0 is through")

    def test_the_tables_of_a_fleet(self):
        self.run_job(OF_FLEET, "looked")

    def test_a_single_process_has_no_job(self):
        from flotilla.fleet import fleet
        fleet.init()
        with self.assertRaisesRegex(RuntimeError, "Table.find"):
            fl.Job.of(fleet)


if __name__ == "__main__":
    unittest.main()
