"""Small pictures: 3072 numbers from 0 to 1, and the number of a class."""
import pickle
import tarfile

import numpy as np

from . import common

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
_MD5 = {10: "c58f30108f718f92721af3b95e74349a",
        100: "eb9058c3a382ffc7106e4002c42a8d85"}


def _path(n_classes):
    return common.download(f"{URL_PREFIX}cifar-{n_classes}-python.tar.gz",
                           "cifar", _MD5[n_classes])


def _samples(batch):
    labels = batch.get(b"labels", batch.get(b"fine_labels"))
    for sample, label in zip(batch[b"data"], labels):
        yield (sample / 255.0).astype(np.float32), int(label)


def reader_creator(filename, sub_name, cycle=False):
    """Samples of the files whose names have sub_name in them; with cycle over
    and over."""
    def reader():
        while True:
            with tarfile.open(filename) as archive:
                for member in archive:
                    if sub_name in member.name:
                        yield from _samples(pickle.load(
                            archive.extractfile(member), encoding="bytes"))
            if not cycle:
                return

    return reader


def train100():
    return reader_creator(_path(100), "train")


def test100():
    return reader_creator(_path(100), "test")


def train10(cycle=False):
    return reader_creator(_path(10), "data_batch", cycle)


def test10(cycle=False):
    return reader_creator(_path(10), "test_batch", cycle)


def fetch():
    return [_path(n) for n in _MD5]
