"""paddle.dataset over files of their form; the numbers are those that the
original gives for the same files."""
import os
import re
import tempfile
import unittest

import numpy as np

import paddle
import paddle_files


class Sets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sets = paddle.dataset
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(setattr, cls.sets.common, "DATA_HOME",
                            cls.sets.common.DATA_HOME)
        cls.sets.common.DATA_HOME = folder.name
        paddle_files.write_all(folder.name)

    def test_a_file_that_is_missing_is_named_with_its_place(self):
        with self.assertRaisesRegex(FileNotFoundError,
                                    "voc2012.*VOCtrainval_11-May-2012.tar is "
                                    "not there.*DATA_HOME"):
            self.sets.voc2012.train()

    def test_uci_housing(self):
        rows = list(self.sets.uci_housing.train()())
        self.assertEqual((len(rows), len(list(self.sets.uci_housing.test()()))
                          ), (40, 10))
        whole = np.array([r[0] for r in rows] +
                         [r[0] for r in self.sets.uci_housing.test()()])
        np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.ptp(whole, axis=0), 1)

    def test_mnist(self):
        samples = list(self.sets.mnist.train()())
        self.assertEqual(len(samples), 200)
        image, label = samples[0]
        self.assertEqual((image.shape, image.dtype), ((784,), np.float32))
        self.assertEqual((min(i.min() for i, _ in samples),
                          max(i.max() for i, _ in samples)), (-1, 1))
        self.assertIn(label, range(10))

    def test_imdb(self):
        words = self.sets.imdb.build_dict(re.compile("aclImdb/train/.*"), 2)
        self.assertEqual(words, {b"film": 0, b"it": 1, b"so": 2, b"was": 3,
                                 b"neg": 4, b"pos": 5, "<unk>": 6})
        self.assertEqual(list(self.sets.imdb.test(words)())[::3],
                         [([5, 0, 1, 3], 0), ([4, 0, 1, 3], 1)])

    def test_imikolov(self):
        imikolov = self.sets.imikolov
        words = imikolov.build_dict(10)
        self.assertEqual(len(words), 10)
        n = {w: words[w] for w in words}
        grams = list(imikolov.train(words, 3)())
        self.assertEqual(grams[0], (n["<s>"], n[b"the"], n[b"cat"]))
        self.assertEqual(grams[7], (n[b"a"], n["<unk>"], n[b"dog"]))
        one = next(imikolov.test(words, 6, imikolov.DataType.SEQ)())
        self.assertEqual(one, ([n["<s>"], n[b"a"], n["<unk>"], n[b"dog"],
                                n[b"sat"]], [n[b"a"], n["<unk>"], n[b"dog"],
                                             n[b"sat"], n["<e>"]]))

    def test_movielens(self):
        movielens = self.sets.movielens
        self.assertEqual((len(list(movielens.train()())),
                          len(list(movielens.test()()))), (36, 4))
        self.assertEqual((movielens.max_user_id(), movielens.max_movie_id(),
                          movielens.max_job_id()), (2, 2, 16))
        sample = next(movielens.train()())
        self.assertEqual(sample[:4] + sample[-1], [1, 1, 0, 10, 5.0])
        self.assertEqual(len(movielens.movie_categories()), 3)
        self.assertIn("Toy Story", repr(movielens.movie_info()[1]))

    def test_cifar(self):
        for name in ("train10", "test10", "train100", "test100"):
            samples = list(getattr(self.sets.cifar, name)()())
            self.assertEqual([label for _, label in samples], [1, 2, 3, 4])
            self.assertEqual(samples[0][0].shape, (3072,))

    def test_wmt14(self):
        self.assertEqual(list(self.sets.wmt14.train(7)()),
                         [([0, 3, 4, 1], [0, 5, 6], [5, 6, 1]),
                          ([0, 3, 2, 1], [0, 5, 2], [5, 2, 1])])
        self.assertEqual(len(list(self.sets.wmt14.test(6)())), 4)
        self.assertEqual(self.sets.wmt14.get_dict(4)[0],
                         {0: "<s>", 1: "<e>", 2: "<unk>", 3: "le"})

    def test_wmt16(self):
        self.assertEqual(list(self.sets.wmt16.train(6, 7)()),
                         [([0, 3, 4, 1], [0, 3, 4], [3, 4, 1]),
                          ([0, 3, 5, 3, 1], [0, 5, 6], [5, 6, 1])])
        self.assertEqual(list(self.sets.wmt16.test(5, 5, "de")())[1],
                         ([0, 2, 2, 1], [0, 3, 2, 3], [3, 2, 3, 1]))
        with self.assertRaisesRegex(ValueError, "'fr' is no language"):
            self.sets.wmt16.validation(6, 7, "fr")

    def test_sentiment(self):
        self.assertEqual([len(words) for words, _ in
                          self.sets.sentiment.train()], [8, 8, 9, 9, 10, 10])
        self.assertEqual([label for _, label in self.sets.sentiment.train()],
                         [0, 1] * 3)

    def test_conll05(self):
        first, second = self.sets.conll05.test()()
        self.assertEqual(list(first[:-1]),
                         [[0, 2, 3, 0], [0] * 4, [2] * 4, [3] * 4, [0] * 4,
                          [5] * 4, [1] * 4, [1] * 4])
        self.assertEqual(first[-1], [0, 1, 2, 4])
        self.assertEqual(second[1:6], ([4], [4], [3], [5], [5]))

    def test_mq2007(self):
        pairs = list(self.sets.mq2007.train(format="pairwise"))
        self.assertEqual((len(pairs), pairs[0][1].shape), (3, (46,)))
        self.assertEqual([s for s, _ in self.sets.mq2007.test(
            format="pointwise")], [2, 1, 0])

    def test_samples_in_files_are_dealt(self):
        common = self.sets.common
        with tempfile.TemporaryDirectory() as folder:
            common.split(lambda: iter(range(5)), 2,
                         os.path.join(folder, "%05d.pickle"))
            parts = [list(common.cluster_files_reader(
                os.path.join(folder, "*.pickle"), 2, i)()) for i in range(2)]
        self.assertEqual(parts, [[0, 1, 4], [2, 3]])


if __name__ == "__main__":
    unittest.main()
