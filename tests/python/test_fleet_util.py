"""What fleets have beside training: file systems, metrics, checkpoints."""
import os
import stat
import tempfile
import unittest

import numpy as np

import flotilla as fl
import paddle.distributed.fleet as fleet2
import paddle.fluid as fluid
from paddle.distributed.fs_wrapper import LocalFS
from paddle.fluid.communicator import Communicator
from paddle.fluid.incubate.fleet.base.role_maker import \
    UserDefinedCollectiveRoleMaker
from paddle.fluid.incubate.fleet.collective import TrainStatus
from paddle.fluid.incubate.fleet.collective import fleet as collective
from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet as pslib
from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient
from paddle.fluid.transpiler.ps_dispatcher import HashName, RoundRobin
from kit import FolderCase

# `hadoop fs -Dk=v -COMMAND ...` over a folder of this machine.
HADOOP = """#!/bin/sh
shift
while case $1 in -D*) true;; *) false;; esac; do shift; done
command=$1; shift
case $command in
-test) [ "$1" "$2" ];;
-cat) cat "$1";;
-mkdir) mkdir -p "$2";;
-rm) rm "$1";;
-rmr) rm -r "$1";;
-mv) mv "$1" "$2";;
-put|-get) cp -r "$1" "$2";;
-ls) for f in "$1"/*; do
    [ -d "$f" ] && kind=d || kind=-
    echo "${kind}rwx 1 user group 0 2020-01-01 00:00 $f"; done;;
-lsr) find "$1" -type f | sed 's/^/-rwx 1 user group 0 2020-01-01 00:00 /';;
esac
"""


class FileSystems(FolderCase):
    def test_the_machines_own(self):
        fs = LocalFS()
        fs.mkdir(self.at("a", "b"))
        fs.touch(self.at("a", "file"))
        self.assertEqual(fs.ls_dir(self.at("a")), ["b", "file"])
        self.assertEqual(fs.list_dirs(self.at("a")), ["b"])
        self.assertEqual(fs.list_dirs(self.at("nowhere")), [])
        fs.mv(self.at("a", "file"), self.at("a", "other"))
        self.assertTrue(fs.stat(self.at("a", "other")))
        with self.assertRaisesRegex(AssertionError, "already a file"):
            fs.mkdir(self.at("a", "other"))
        fs.delete(self.at("a", "other"))
        fs.delete(self.at("a"))
        fs.delete(self.at("a"))
        self.assertFalse(fs.stat(self.at("a")) or fs.need_upload_download())

    def client(self):
        os.makedirs(self.at("home", "bin"), exist_ok=True)
        path = self.at("home", "bin", "hadoop")
        with open(path, "w", encoding="utf-8") as f:
            f.write(HADOOP)
        os.chmod(path, stat.S_IRWXU)
        return HDFSClient(self.at("home"), {"fs.default.name": "hdfs://x"})

    def test_hdfs_by_its_command(self):
        hdfs = self.client()
        self.assertTrue(hdfs.makedirs(self.at("data", "sub")))
        with open(self.at("here"), "w", encoding="utf-8") as f:
            f.write("line\n")
        hdfs.upload(self.at("here"), self.at("data", "file"))
        self.assertTrue(hdfs.is_file(self.at("data", "file")))
        self.assertTrue(hdfs.is_dir(self.at("data")))
        self.assertEqual(hdfs.cat(self.at("data", "file")), "line")
        self.assertEqual(hdfs.cat(self.at("data")), "")
        self.assertEqual(hdfs.ls_dir(self.at("data")), (["sub"], ["file"]))
        self.assertEqual(hdfs.lsr(self.at("data")), [self.at("data", "file")])
        hdfs.rename(self.at("data", "file"), self.at("data", "moved"))
        hdfs.download(self.at("data", "moved"), self.at("back"))
        self.assertTrue(os.path.exists(self.at("back")))
        self.assertTrue(hdfs.delete(self.at("data")))
        self.assertFalse(hdfs.is_exist(self.at("data")))
        self.assertEqual(hdfs.split_files(list("abcde"), 0, 2), list("abc"))

    def test_a_client_without_a_home_says_so_when_it_is_used(self):
        with self.assertRaisesRegex(ValueError, "no hadoop_home was given"):
            HDFSClient(None, {}).is_exist("/data")

    def test_a_command_that_fails_is_told(self):
        with self.assertRaisesRegex(RuntimeError, "-mv .* ended with 1"):
            self.client().rename(self.at("no"), self.at("where"))


class Numbers(unittest.TestCase):
    def test_metrics_of_one_process_are_its_own(self):
        fleet2.init()
        m = fleet2.metrics
        self.assertEqual(m.sum(np.array([1.0, 2.0])).tolist(), [1.0, 2.0])
        self.assertEqual(m.max(3).tolist(), 3.0)
        self.assertEqual(m.acc(3, 4), 0.75)
        self.assertEqual(m.rmse(16.0, 4.0), 2.0)
        self.assertEqual(m.auc([0, 0, 2], [2, 0, 0]), 1.0)
        self.assertEqual(m.auc([1, 1], [1, 1]), 0.5)
        self.assertEqual(m.auc([0, 0], [1, 1]), 0.5)
        with self.assertRaisesRegex(ValueError, "no variable nobody"):
            m.sum("nobody")

    def test_statistics_of_a_scope(self):
        util, scope = FleetUtil(), fluid.Scope()
        for name, value in (("pos", [[0, 0, 4]]), ("neg", [[4, 0, 0]])):
            scope.var(name).get_tensor().set(np.array(value, "int64"),
                                             fluid.CPUPlace())
        self.assertEqual(util.get_global_auc(scope, "pos", "neg"), 1.0)
        util.set_zero("pos", scope)
        self.assertEqual(util.get_global_auc(scope, "pos", "neg"), 0.5)
        self.assertIsNone(util.get_global_auc(scope, "no", "neg"))
        with self.assertRaises(ValueError):
            FleetUtil("other")

    def test_the_parts_of_a_day(self):
        parts = FleetUtil().get_online_pass_interval("{20190720..20190729}",
                                                     "{0..23}", 30, "2", False)
        self.assertEqual(len(parts), 24)
        self.assertEqual(parts[:2], [["0000", "0030"], ["0100", "0130"]])
        hourly = FleetUtil().get_online_pass_interval("20190720", "1 2", 60, 1,
                                                      True)
        self.assertEqual(hourly, [["01"], ["02"]])

    def test_dispatchers_deal_by_name_or_in_turn(self):
        class Var:
            def name(self):
                return "v"

        turn = RoundRobin(["a", "b"])
        self.assertEqual(turn.dispatch([Var()] * 3), ["a", "b", "a"])
        turn.reset()
        self.assertEqual(turn.dispatch([Var()]), ["a"])
        self.assertIn(HashName(["a", "b"]).dispatch([Var()])[0], "ab")

    def test_a_communicator_belongs_to_a_program(self):
        c = Communicator(fluid.Program())
        c.start()
        self.assertTrue(c.is_running())
        c.stop()
        self.assertFalse(c.is_running())
        with self.assertRaises(AssertionError):
            Communicator("program")


class Checkpoints(unittest.TestCase):
    def test_the_newest_one_counts(self):
        collective.init(UserDefinedCollectiveRoleMaker(
            0, ["127.0.0.1:36111"]))
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), tempfile.TemporaryDirectory() \
                as folder:
            x = fluid.layers.data("x", [2])
            loss = fluid.layers.mean(fluid.layers.fc(x, 1))
            fluid.optimizer.SGD(0.1).minimize(loss)
            exe = fluid.Executor()
            exe.run(startup)
            self.assertIsNone(collective.load_check_point(exe, folder, 0,
                                                          main))
            for epoch in range(3):
                collective.save_check_point(exe, folder, TrainStatus(epoch),
                                            main)
            found = collective.load_check_point(exe, folder, 0, main)
            self.assertEqual(found, TrainStatus(2))
            self.assertEqual(found.next(), 3)
            collective.clean_redundant_check_points(folder)
            self.assertEqual(len(os.listdir(folder)), 1)

    def test_without_one_it_is_told_when_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(AssertionError, "no checkpoint in"):
                collective.load_check_point(None, folder, 0,
                                            ignore_empty=False)


class Tables(unittest.TestCase):
    def test_rows_of_pslibs_tables_are_cleared_by_number(self):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), \
                fluid.scope_guard(fluid.Scope()):
            ids = fluid.layers.data("ids", [1], dtype="int64")
            rows = fluid.layers.embedding(ids, [100, 4], is_sparse=True,
                                          is_distributed=True, param_attr="w")
            loss = fluid.layers.mean(rows)
            pslib.init()
            pslib.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(
                loss, startup_programs=startup)
            exe = fluid.Executor()
            exe.run(startup)
            exe.run(main, feed={"ids": np.arange(5).reshape(5, 1)})
            self.assertEqual(len(fl.Table.find("w")), 5)
            self.assertEqual(pslib.shrink_sparse_table(), 0)
            with self.assertRaisesRegex(ValueError, "no table 1.*order: w"):
                pslib.clear_one_table(1)
            pslib.clear_model()
            self.assertEqual(len(fl.Table.find("w")), 0)


class Refusals(unittest.TestCase):
    def test_pslib_has_one_loss_and_no_dict_of_accessors(self):
        fleet2.init()
        pslib.init()
        sgd = fluid.optimizer.SGD(0.1)
        with self.assertRaisesRegex(NotImplementedError, "accessors"):
            pslib.distributed_optimizer(sgd, {"a": 1})
        with self.assertRaisesRegex(NotImplementedError, "one loss, not 2"):
            pslib.distributed_optimizer(sgd).minimize([1, 2])

    def test_pslib_says_what_it_has_not(self):
        for call in ("print_table_stat", "save_cache_model", "revert",
                     "save_one_table"):
            with self.assertRaisesRegex(NotImplementedError,
                                        f"pslib.fleet.{call}: "):
                getattr(pslib, call)(0)
        with self.assertRaisesRegex(NotImplementedError, "of mode 3"):
            pslib.save_model("/nowhere", mode=3)

    def test_models_are_saved_by_an_executor(self):
        fleet2.init()
        for save in (lambda e: fleet2.save_persistables(e, "/nowhere"),
                     lambda e: fleet2.save_inference_model(e, "/nowhere", [],
                                                           [])):
            with self.assertRaisesRegex(TypeError, "executor is an Executor"):
                save("executor")


if __name__ == "__main__":
    unittest.main()
