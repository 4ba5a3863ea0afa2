"""Readers of a program: operators read, loaders, what ends them."""
import os
import tempfile
import unittest

import numpy as np

import flotilla as fl
from flotilla.data import batches
from flotilla.data import reader as rd
from flotilla.data.batches import EOFException
from flotilla.data.samples import BatchSampler, Dataset
from kit import NetCase


def counting(n, rows=2):
    """Batches of one array whose numbers are that of the batch."""
    def generate():
        for i in range(n):
            yield [np.full((rows, 2), i, "float32")]

    return generate


class Case(NetCase):
    def setUp(self):
        super().setUp()
        self.enter(fl.scope_guard(fl.Scope()))
        self.exe = fl.Executor()

    def all_of(self, program, out):
        """What runs give until the end of data."""
        found = []
        try:
            while True:
                found.append(self.exe.run(program, fetch_list=[out])[0])
        except EOFException:
            return found


class Programs(Case):
    def test_py_reader_has_the_operators_of_the_original(self):
        reader = fl.layers.py_reader(4, [[-1, 2], [-1, 1]],
                                     ["float32", "int64"], name="train")
        x, y = fl.layers.read_file(reader)
        self.assertEqual([op.type for op in
                          self.startup.global_block().ops],
                         ["create_py_reader"])
        ops = self.main.global_block().ops
        self.assertEqual([op.type for op in ops],
                         ["create_double_buffer_reader", "read"])
        self.assertEqual(ops[1].input("Reader"), ["train_double_buffer"])
        self.assertEqual(ops[1].output("Out"), [x.name, y.name])
        self.assertEqual((x.shape, y.dtype), ((-1, 2), fl.VarType.INT64))
        self.assertEqual(reader.type, fl.VarType.READER)
        op, = self.startup.global_block().ops
        self.assertEqual(op.attr("shape_concat"), [-1, 2, -1, 1])
        self.assertEqual(op.attr("ranks"), [2, 2])

    def test_a_loader_may_be_made_behind_the_layers(self):
        x = fl.layers.data("x", [2])
        loss = fl.layers.mean(fl.layers.fc(x, 1))
        loader = fl.DataLoader.from_generator([x], 2, iterable=False)
        fl.optimizer.SGD(0.1).minimize(loss)
        kinds = [op.type for op in self.main.global_block().ops]
        self.assertLess(kinds.index("read"), kinds.index("mul"))
        loader.set_batch_generator(
            lambda: iter([(np.ones((3, 2), "float32"),)] * 3))
        self.exe.run(self.startup)
        loader.start()
        found = self.all_of(self.main, loss)
        self.assertTrue(found[0] > found[1] > found[2])

    def test_a_loader_has_them_in_the_main_program(self):
        x = fl.layers.data("x", [2])
        fl.DataLoader.from_generator([x], 2, use_double_buffer=False,
                                     iterable=False)
        self.assertEqual([op.type for op in self.main.global_block().ops],
                         ["create_py_reader", "read"])
        self.assertEqual(self.main.global_block().ops[1].output("Out"), ["x"])

    def test_a_program_with_readers_is_text_and_back(self):
        fl.layers.read_file(fl.layers.py_reader(4, [[-1, 2]], ["float32"]))
        again = fl.Program.from_text(str(self.main))
        self.assertEqual(str(again), str(self.main))

    def test_a_model_for_prediction_has_no_reader(self):
        x = fl.layers.data("x", [2])
        fl.DataLoader.from_generator([x], 2, iterable=False)
        out = fl.layers.fc(x, 1)
        self.exe.run(self.startup)
        with tempfile.TemporaryDirectory() as folder:
            fl.io.save_inference_model(folder, ["x"], [out], self.exe)
            program, feeds, _ = fl.io.load_inference_model(folder, self.exe)
        self.assertEqual(feeds, ["x"])
        self.assertNotIn("read", [op.type for op in
                                  program.global_block().ops])


class Runs(Case):
    def reader(self, **options):
        reader = fl.layers.py_reader(2, [[-1, 2]], ["float32"], **options)
        return reader, fl.layers.reduce_sum(fl.layers.read_file(reader))

    def test_passes_begin_and_end(self):
        reader, total = self.reader()
        reader.decorate_tensor_provider(counting(3))
        for _ in range(2):
            reader.start()
            self.assertEqual([float(v[0]) for v in
                              self.all_of(self.main, total)], [0, 4, 8])
            reader.reset()

    def test_a_clone_reads_from_the_same_reader(self):
        reader, total = self.reader()
        reader.decorate_tensor_provider(counting(3))
        test = self.main.clone(for_test=True)
        reader.start()
        got = [self.exe.run(p, fetch_list=[total.name])[0][0]
               for p in (self.main, test, self.main)]
        self.assertEqual(got, [0, 4, 8])

    def test_a_pass_may_end_early(self):
        reader, total = self.reader()

        def endless():
            while True:
                yield [np.ones((1, 2), "float32")]

        reader.decorate_batch_generator(endless)
        for _ in range(3):
            reader.start()
            self.exe.run(self.main, fetch_list=[total])
            reader.reset()
        self.assertIsNone(reader.thread)

    def test_rows_become_tensors_with_their_sequences(self):
        reader = fl.layers.py_reader(2, [[-1, 1]], ["int64"], lod_levels=[1])
        ids = fl.layers.read_file(reader)
        out = fl.layers.sequence_pool(fl.layers.cast(ids, "float32"), "sum")
        reader.decorate_paddle_reader(lambda: iter([[([1, 2],), ([3],)]]))
        reader.start()
        got, = self.exe.run(self.main, fetch_list=[out])
        self.assertEqual(got.tolist(), [[3], [3]])

    def test_a_thread_of_the_caller_may_push(self):
        reader, total = self.reader()
        reader.queue.push([np.ones((2, 2), "float32")])
        reader.queue.close()
        self.assertEqual(len(self.all_of(self.main, total)), 1)

    def test_what_nobody_fills_is_told(self):
        reader, total = self.reader(name="train")
        old, batches._UNFILLED_SECONDS = batches._UNFILLED_SECONDS, 0.0
        self.addCleanup(setattr, batches, "_UNFILLED_SECONDS", old)
        with self.assertRaisesRegex(fl.Error, r"train_reader: no batch.*start"):
            self.exe.run(self.main, fetch_list=[total])
        with self.assertRaisesRegex(AssertionError, "has no data"):
            reader.start()

    def test_a_generator_that_raises_ends_the_run_with_its_exception(self):
        reader, total = self.reader()

        def fails():
            yield [np.ones((2, 2), "float32")]
            raise KeyError("lost")

        reader.decorate_tensor_provider(fails)
        reader.start()
        self.exe.run(self.main, fetch_list=[total])
        for kind in (KeyError, fl.Error):
            with self.assertRaisesRegex(kind, "lost"):
                self.exe.run(self.main, fetch_list=[total])

    def test_each_replica_takes_a_batch(self):
        x = fl.layers.data("x", [2])
        out = fl.layers.scale(x, 1.0)
        for drop_last, want in ((True, [[0, 0, 1, 1], [2, 2, 3, 3]]),
                                (False, [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]])):
            program = self.main.clone()
            with fl.program_guard(program):
                loader = fl.DataLoader.from_generator(
                    [program.global_block().var("x")], 4, iterable=False,
                    drop_last=drop_last)
            loader.set_batch_generator(counting(5))
            both = fl.CompiledProgram(program).with_data_parallel(
                places=[fl.CPUPlace()] * 2)
            loader.start()
            got = [v[:, 0].tolist() for v in self.all_of(both, out.name)]
            self.assertEqual(got, want)


class Loops(Case):
    def setUp(self):
        super().setUp()
        self.x = fl.layers.data("x", [2])

    def loader(self, generate, places=1, **options):
        loader = fl.DataLoader.from_generator([self.x], 2, **options)
        return loader.set_batch_generator(generate,
                                          [fl.CPUPlace()] * places)

    def numbers(self, found):
        return [[float(np.array(f["x"])[0, 0]) for f in feeds]
                for feeds in found]

    def test_a_feed_for_each_place(self):
        self.assertEqual(self.numbers(self.loader(counting(5), 2)),
                         [[0, 1], [2, 3]])
        self.assertEqual(self.numbers(self.loader(counting(5), 2,
                                                  drop_last=False)),
                         [[0, 1], [2, 3], [4]])

    def test_a_loop_may_be_left_and_begun_again(self):
        loader = self.loader(counting(5))
        for _ in range(3):
            for feeds in loader():
                break
            self.assertEqual(self.numbers([feeds]), [[0]])
        self.assertEqual(len(list(loader)), 5)

    def test_lists_instead_of_names(self):
        (tensor,), = next(iter(self.loader(counting(1), return_list=True)))
        self.assertEqual(tensor.shape(), [2, 2])

    def test_a_generator_in_a_process_of_its_own(self):
        loader = self.loader(counting(3), use_multiprocess=True)
        self.assertEqual(self.numbers(loader), [[0], [1], [2]])

    def test_a_process_that_dies_is_told(self):
        def dies():
            yield [np.zeros((1, 2), "float32")]
            os._exit(3)

        loader = self.loader(dies, use_multiprocess=True)
        with self.assertRaisesRegex(fl.Error, "ended with 3"):
            list(loader)
        with self.assertRaisesRegex(ValueError, "ended with 3"):
            list(rd.multiprocess_reader([dies], use_pipe=False)())

    def test_what_is_no_batch_is_refused(self):
        for batch, why in (([[1, 2], [3]], "2 values for the 1"),
                           ([np.array([[1], [2, 3]], object)], "LoDTensor")):
            with self.assertRaisesRegex((TypeError, ValueError), why):
                list(self.loader(lambda: iter([batch])))

    def test_a_loader_without_variables_or_room_is_refused(self):
        with self.assertRaisesRegex(ValueError, "capacity"):
            fl.DataLoader.from_generator([self.x])
        with self.assertRaisesRegex(ValueError, "Feed list"):
            fl.DataLoader.from_generator([], 2)
        with self.assertRaisesRegex(AssertionError, "not set"):
            iter(fl.DataLoader.from_generator([self.x], 2))
        with self.assertRaisesRegex(AssertionError, "iterable"):
            self.loader(counting(1)).start()


class Squares(Dataset):
    def __init__(self, n=7):
        self.n = n

    def __getitem__(self, i):
        if i == 99:
            raise KeyError("sample 99")
        return np.full(2, i, "float32"), np.array([i * i])

    def __len__(self):
        return self.n


class Numbered(Case):
    def setUp(self):
        super().setUp()
        self.vars = [fl.layers.data("x", [2]),
                     fl.layers.data("y", [1], dtype="int64")]

    def loader(self, dataset=None, **options):
        return fl.DataLoader(dataset or Squares(), feed_list=self.vars,
                             places=[fl.CPUPlace()], **options)

    def test_batches_come_in_order_whoever_reads_them(self):
        for workers in (0, 1, 3):
            loader = self.loader(batch_size=2, num_workers=workers)
            for _ in range(2):
                found = [np.array(feed["y"]).ravel().tolist()
                         for feed, in loader()]
                self.assertEqual(found, [[0, 1], [4, 9], [16, 25], [36]])
            self.assertEqual(len(loader), 4)

    def test_a_feed_for_each_place(self):
        loader = fl.DataLoader(Squares(), self.vars, [fl.CPUPlace()] * 2,
                               batch_size=2, drop_last=True)
        self.assertEqual([len(feeds) for feeds in loader], [2, 1])
        values = next(iter(fl.DataLoader(Squares(), return_list=True)))
        self.assertEqual([v.shape() for v in values[0]], [[1, 2], [1, 1]])

    def test_a_sampler_chooses(self):
        sampler = BatchSampler(indices=[5, 3, 1], batch_size=2)
        found = [np.array(feed["x"])[:, 0].tolist()
                 for feed, in self.loader(batch_sampler=sampler)]
        self.assertEqual(found, [[5, 3], [1]])
        shuffled = BatchSampler(Squares(), shuffle=True, batch_size=7)
        self.assertEqual(sorted(next(iter(shuffled))), list(range(7)))

    def test_a_sample_that_fails_ends_the_loop(self):
        for workers, kind in ((0, KeyError), (2, ValueError)):
            with self.assertRaisesRegex(kind, "sample 99"):
                list(self.loader(Squares(100), num_workers=workers,
                                 batch_size=10))

    def test_what_does_not_fit_together_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "paddle.io.Dataset"):
            self.loader([1, 2])
        with self.assertRaisesRegex(AssertionError, "feed_list"):
            fl.DataLoader(Squares())
        with self.assertRaisesRegex(AssertionError, "batch_sampler is given"):
            self.loader(batch_sampler=BatchSampler(indices=[1]), shuffle=True)
        with self.assertRaisesRegex(AssertionError, "positive integer"):
            BatchSampler(indices=[1], batch_size=0)
        with self.assertRaisesRegex(NotImplementedError, "__getitem__"):
            Dataset()[0]


class Queues(unittest.TestCase):
    def test_a_generator_that_does_not_end_is_told(self):
        blocked = rd.BatchQueue(1, "the other")

        def waits():
            yield blocked.pop()

        queue = batches.BatchQueue(1, "the reader")
        queue.fill(waits)
        old, batches._END_SECONDS = batches._END_SECONDS, 0.0
        self.addCleanup(setattr, batches, "_END_SECONDS", old)
        with self.assertRaisesRegex(fl.Error, "the reader: its generator"):
            queue.reset()
        blocked.close()

    def test_one_that_is_too_slow_is_told(self):
        blocked = rd.BatchQueue(1, "the other")
        queue = batches.BatchQueue(1, "the reader", 0.0)
        queue.fill(lambda: iter(blocked))
        with self.assertRaisesRegex(fl.Error, "the reader: no batch.*slow"):
            queue.pop()
        blocked.close()

    def test_a_killed_queue_gives_nothing_more(self):
        queue = batches.BatchQueue(2)
        queue.push([1])
        queue.kill()
        self.assertFalse(queue.push([2]))
        with self.assertRaisesRegex(fl.Error, "killed"):
            queue.pop()


if __name__ == "__main__":
    unittest.main()
