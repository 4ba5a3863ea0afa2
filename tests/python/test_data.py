"""Readers, feeders, loaders, data sets."""
import gzip
import os
import unittest
from unittest import mock

import numpy as np

import flotilla as fl
from flotilla import contrib
from flotilla.data import reader as rd
from flotilla.data.feed_desc import DataFeedDesc
from flotilla.data.generator import MultiSlotDataGenerator
from flotilla.data.loader import EOFException
from flotilla.fleet.strategy import StrategyFactory
from kit import FolderCase, NetCase


def numbers(n):
    return lambda: iter(range(n))


class Readers(unittest.TestCase):
    def test_batches(self):
        self.assertEqual(list(rd.batch(numbers(5), 2)()), [[0, 1], [2, 3], [4]])
        self.assertEqual(list(rd.batch(numbers(5), 2, drop_last=True)()),
                         [[0, 1], [2, 3]])

    def test_made_of_others(self):
        self.assertEqual(list(rd.chain(numbers(2), numbers(1))()), [0, 1, 0])
        self.assertEqual(list(rd.compose(numbers(2), numbers(2))()),
                         [(0, 0), (1, 1)])
        self.assertEqual(list(rd.map_readers(lambda a: a + 1, numbers(2))()),
                         [1, 2])
        self.assertEqual(list(rd.firstn(numbers(9), 2)()), [0, 1])
        self.assertEqual(sorted(rd.shuffle(numbers(9), 4)()), list(range(9)))
        self.assertEqual(list(rd.buffered(numbers(9), 2)()), list(range(9)))
        self.assertEqual(list(rd.xmap_readers(lambda a: 2 * a, numbers(9), 3, 4,
                                              order=True)()),
                         [2 * i for i in range(9)])

    def test_a_trainer_takes_its_batches_and_as_many_as_others(self):
        with mock.patch.dict(os.environ, PADDLE_TRAINERS_NUM="2",
                             PADDLE_TRAINER_ID="1"):
            part = contrib.distributed_batch_reader(numbers(5))
        self.assertEqual(list(part()), [1, 3])
        with mock.patch.dict(os.environ, PADDLE_TRAINER_ID="3"), \
                self.assertRaisesRegex(ValueError, "PADDLE_TRAINER_ID=3"):
            contrib.distributed_batch_reader(numbers(5))

    def test_readers_of_unequal_length_are_told(self):
        with self.assertRaises(rd.ComposeNotAligned):
            list(rd.compose(numbers(2), numbers(3))())

    def test_a_failure_in_a_thread_is_raised_here(self):
        def fails():
            yield 1
            raise KeyError("lost")
        for made in (rd.buffered(fails, 2),
                     rd.xmap_readers(lambda a: a["x"], numbers(1), 1, 1)):
            with self.assertRaises((KeyError, TypeError)):
                list(made())

    def test_processes_read_side_by_side(self):
        got = rd.multiprocess_reader([numbers(3), numbers(3)])()
        self.assertEqual(sorted(got), [0, 0, 1, 1, 2, 2])


class Loaders(NetCase):
    def setUp(self):
        super().setUp()
        self.x = fl.layers.data("x", [2])
        self.out = fl.layers.reduce_sum(self.x)

    @staticmethod
    def samples():
        for i in range(5):
            yield [np.full(2, i, "float32")]

    def test_an_iterable_one_gives_feeds(self):
        loader = fl.DataLoader.from_generator([self.x], capacity=2)
        loader.set_sample_generator(self.samples, 2, drop_last=False)
        exe = fl.Executor()
        sums = [float(exe.run(self.main, feed=f, fetch_list=[self.out])[0][0])
                for f, in loader]
        self.assertEqual(sums, [2.0, 10.0, 8.0])

    def test_one_that_is_not_feeds_the_program_until_the_end(self):
        loader = fl.DataLoader.from_generator([self.x], capacity=2,
                                              iterable=False)
        loader.set_sample_generator(self.samples, 5)
        exe = fl.Executor()
        for _ in range(2):
            loader.start()
            got, = exe.run(self.main, fetch_list=[self.out])
            self.assertEqual(float(got[0]), 20.0)
            with self.assertRaises(EOFException):
                exe.run(self.main, fetch_list=[self.out])

    def test_sequences_are_fed_with_their_lengths(self):
        ids = fl.layers.data("ids", [1], dtype="int64", lod_level=1)
        feed = fl.DataFeeder([ids]).feed([([1, 2],), ([3],)])
        self.assertEqual(feed["ids"].recursive_sequence_lengths(), [[2, 1]])
        self.assertEqual(np.array(feed["ids"]).tolist(), [[1], [2], [3]])


class DataSets(FolderCase):
    def setUp(self):
        super().setUp()
        self.file = self.at("part-0")
        self.write("part-0", *(f"2 {i} {i + 1} 1 {i % 2}\n"
                               for i in range(100)))
        self.main, self.startup = fl.Program(), fl.Program()
        with fl.program_guard(self.main, self.startup), \
                fl.unique_name.guard():
            self.ids = fl.layers.data("ids", [1], dtype="int64", lod_level=1)
            self.y = fl.layers.data("y", [1], dtype="int64")
            e = fl.layers.embedding(self.ids, [101, 4], is_sparse=True)
            self.score = fl.layers.fc(fl.layers.sequence_pool(e, "sum"), 2,
                                      act="softmax")
            self.loss = fl.layers.mean(fl.layers.cross_entropy(self.score,
                                                               self.y))
            fl.optimizer.SGD(0.1).minimize(self.loss)

    def dataset(self, kind):
        d = fl.DatasetFactory().create_dataset(kind)
        d.set_use_var([self.ids, self.y])
        d.set_batch_size(10)
        d.set_filelist([self.file])
        return d

    def test_without_a_list_everything_that_is_fed_is_used(self):
        d = fl.DatasetFactory().create_dataset("QueueDataset")
        with fl.program_guard(self.main):
            d.set_use_var()
        d.set_batch_size(10)
        self.assertEqual(d.desc(), self.dataset("QueueDataset").desc())
        with fl.program_guard(fl.Program()):
            with self.assertRaisesRegex(ValueError, "feeds nothing"):
                d.set_use_var()

    def test_settings_are_given_at_once(self):
        d = fl.DatasetFactory().create_dataset("QueueDataset")
        d.init(batch_size=10, thread_num=2, use_var=[self.ids, self.y])
        self.assertEqual(d.desc(), self.dataset("QueueDataset").desc())
        d.update_settings(batch_size=20)
        self.assertIn("batch_size: 20", d.desc())
        with self.assertRaisesRegex(TypeError, "mean batch_size"):
            d.update_settings(batch_sise=20)
        with self.assertRaisesRegex(NotImplementedError, "input_type"):
            d.init(input_type=1)

    def test_a_pass_trains(self):
        exe = fl.Executor()
        with fl.scope_guard(fl.Scope()):
            exe.run(self.startup)
            d = self.dataset("QueueDataset")
            seen = [exe.train_from_dataset(self.main, d,
                                           fetch_list=[self.loss],
                                           print_period=-1)
                    for _ in range(2)]
        self.assertEqual((seen[0]["samples"], seen[0]["batches"]), (100, 10))

    def test_slots_that_a_program_does_not_feed_are_left_out(self):
        test = self.main.clone(for_test=True)._prune([self.score])
        exe = fl.Executor()
        with fl.scope_guard(fl.Scope()):
            exe.run(self.startup)
            d = self.dataset("QueueDataset")
            with self.assertRaisesRegex(fl.Error, "feed y"):
                exe.infer_from_dataset(test, d)
            found = exe.infer_from_dataset(test, d, skip_unused=True)
        self.assertEqual(found["samples"], 100)

    def dumped(self, **options):
        """The lines of a pass that dumps."""
        made = StrategyFactory.create_sync_strategy()
        made.set_debug_opt({"dump_fields_path": self.at("dump"), **options})
        self.main._debug = {**made.get_debug_opt(), "rank": 3}
        exe = fl.Executor()
        with fl.scope_guard(fl.Scope()):
            exe.run(self.startup)
            found = exe.train_from_dataset(
                self.main, self.dataset("QueueDataset"), debug=True)
        self.assertEqual(found, {"samples": 100, "batches": 10})
        with open(self.at("dump", "part-003-00000"), encoding="utf-8") as f:
            return f.read().splitlines()

    def test_a_pass_writes_down_what_variables_hold(self):
        lines = self.dumped(dump_fields=["ids", "y", self.loss.name,
                                         self.score.name + "@GRAD"],
                            dump_param=["fc_0.b_0"])
        records = [line for line in lines if line.startswith("\t")]
        self.assertEqual(len(records), 100)
        self.assertRegex(records[7], r"^\tids:1:7:8\ty:1:1\t.*@GRAD:2:.+:.+$")
        others = [line for line in lines if line not in records]
        self.assertEqual(len(others), 10)
        self.assertRegex(others[9], r"^\(9,fc_0.b_0\):[-\d.e]+:[-\d.e]+$")

    def test_what_cannot_be_written_down_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "dump_slot is not"):
            self.dumped(dump_slot=True)

    def test_a_worker_without_files_has_a_pass_without_records(self):
        for kind in ("QueueDataset", "InMemoryDataset"):
            dataset = self.dataset(kind)
            dataset.set_filelist([])
            if kind == "InMemoryDataset":
                dataset.load_into_memory()
                self.assertEqual(dataset.get_memory_data_size(), 0)
            exe = fl.Executor()
            with fl.scope_guard(fl.Scope()):
                exe.run(self.startup)
                found = exe.train_from_dataset(self.main, dataset)
            self.assertEqual(found["samples"], 0)

    def test_records_in_memory_are_counted_and_shuffled(self):
        d = self.dataset("InMemoryDataset")
        d.load_into_memory()
        self.assertEqual(d.get_memory_data_size(), 100)
        d.local_shuffle()
        ids = [np.array(f["ids"]).reshape(-1).tolist()
               for f, in fl.DataLoader.from_dataset(d, None)]
        self.assertEqual(len(ids), 10)
        self.assertEqual(sorted(sum(ids, [])),
                         sorted(list(range(100)) + list(range(1, 101))))
        d.release_memory()

    def test_two_parts_have_every_record_once(self):
        sizes = []
        for part in "split=0-80", "split=80-100":
            d = self.dataset("InMemoryDataset")
            d.set_options(part)
            d.load_into_memory()
            sizes.append(d.get_memory_data_size())
        self.assertEqual(sum(sizes), 100)
        self.assertTrue(60 < sizes[0] < 95)

    def test_a_kind_that_there_is_not(self):
        with self.assertRaisesRegex(ValueError, "QueueDataset"):
            fl.DatasetFactory().create_dataset("Nothing")

    def test_what_a_dataset_reads_is_described(self):
        d = self.dataset("QueueDataset")
        self.assertEqual(d.desc(), '''name: "MultiSlotDataFeed"
batch_size: 10
multi_slot_desc {
  slots {
    name: "ids"
    type: "uint64"
    is_used: true
  }
  slots {
    name: "y"
    type: "uint64"
    is_dense: true
    is_used: true
    shape: -1
    shape: 1
  }
}
pipe_command: "cat"
''')
        with open(self.file + ".proto", "w") as f:
            f.write(d.desc().replace("    is_used: true\n", ""))
        desc = DataFeedDesc(self.file + ".proto")
        desc.set_batch_size(128)
        desc.set_use_slots(["ids"])
        self.assertIn('name: "ids"\n    type: "uint64"\n    is_used: true',
                      desc.desc())
        self.assertIn("batch_size: 128", desc.desc())
        with self.assertRaisesRegex(ValueError, "no slot z; there are ids, y"):
            desc.set_dense_slots(["z"])

    def test_ids_and_contents_of_lines_are_cut_off(self):
        with open(self.file, "w") as f:
            f.write("1 a 1 text 2 7 8 1 0\n1 b 1 more 1 9 1 1\n")
        d = self.dataset("InMemoryDataset")
        d.set_parse_ins_id(True)
        d.set_parse_content(True)
        d.load_into_memory()
        feed, = next(iter(fl.DataLoader.from_dataset(d, None,
                                                     drop_last=False)))
        self.assertEqual(np.array(feed["ids"]).ravel().tolist(), [7, 8, 9])

    def records(self, d):
        with fl.scope_guard(fl.Scope()):
            d.load_into_memory()
        return d.get_memory_data_size()

    def of_hdfs(self, *paths):
        """A dataset over files that only a command knows."""
        d = self.dataset("InMemoryDataset")
        d.set_filelist(list(paths))
        return d

    def command(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def test_files_of_hdfs_come_by_the_command_that_is_said(self):
        with open(self.file, encoding="utf-8") as f:
            n = len(f.readlines())
        d = self.of_hdfs("hdfs:/data/part-0", self.file)
        fetch = self.command("fetch", f'[ "$2" = hdfs:/data/part-0 ] && cat '
                                      f'"$1"')
        d.set_download_cmd(f"{fetch} {self.file}")
        self.assertEqual(self.records(d), 2 * n)
        self.command("hadoop", 'test "$1" = fs && test "$3" = '
                     'fs.default.name=hdfs://a && test "$6" = -cat && '
                     f'cat {self.file}')
        d = self.of_hdfs("afs:/data/part-1")
        d.set_hdfs_config("hdfs://a", "me,secret")
        with mock.patch.dict(os.environ, PATH=self.folder + os.pathsep +
                             os.environ["PATH"]):
            self.assertEqual(self.records(d), n)

    def test_a_file_that_does_not_come_is_no_empty_file(self):
        d = self.of_hdfs("hdfs:/data/part-0")
        d.set_download_cmd(self.command("fetch", "exit 3"))
        with self.assertRaisesRegex(fl.Error, "part-0"):
            self.records(d)
        d = self.dataset("InMemoryDataset")
        d.set_pipe_command("false")
        d.set_parse_ins_id(True)
        with self.assertRaisesRegex(fl.Error, "false"):
            self.records(d)

    def test_a_command_gets_what_a_gz_file_holds(self):
        packed = os.path.join(self.folder, "more.gz")
        with open(self.file, "rb") as f, gzip.open(packed, "wb") as to:
            text = f.read()
            to.write(text)
        d = self.dataset("InMemoryDataset")
        d.set_filelist([packed, self.file])
        d.set_pipe_command("sed s/^/1\\ 3\\ /")
        d.set_parse_ins_id(True)
        self.assertEqual(self.records(d), 2 * text.count(b"\n"))

    def test_what_a_dataset_has_not_is_refused_by_name(self):
        d = self.dataset("InMemoryDataset")
        with self.assertRaisesRegex(NotImplementedError,
                                    "set_merge_by_lineid: records"):
            d.set_merge_by_lineid(2)
        with self.assertRaisesRegex(ValueError, "only supports.*FP64"):
            with fl.program_guard(fl.Program()):
                d.set_use_var([fl.layers.data("z", [1], dtype="float64")])

    def test_a_generator_refuses_what_is_no_line(self):
        g = MultiSlotDataGenerator()
        self.assertEqual(g._gen_str(zip(["a", "b"], [[1], (0.5, 2)])),
                         "1 1 2 0.5 2\n")
        for line, why in ((7, "list or tuple"), ("text", "list or tuple"),
                          ([("a", [])], "a is empty"),
                          ([("a", ["x"])], "int or float"),
                          ([("a", [1])], "1 fields after 2"),
                          ([("a", [1]), ("c", [1])], "require<b>, get<c>")):
            with self.assertRaisesRegex(ValueError, why):
                g._gen_str(line)

    def test_a_generator_writes_lines_of_slots(self):
        line = MultiSlotDataGenerator()._gen_str([("ids", [1, 2]), ("y", [0])])
        self.assertEqual(line, "2 1 2 1 0\n")


if __name__ == "__main__":
    unittest.main()
