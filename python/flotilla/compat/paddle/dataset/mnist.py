"""Handwritten digits: 784 numbers from -1 to 1, and the digit."""
import gzip
import struct

import numpy as np

from . import common

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
_FILES = {"t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
          "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
          "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
          "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432"}


def _path(name):
    return common.download(URL_PREFIX + name, "mnist", _FILES[name])


def _numbers(path, n_dims):
    """Bytes in the shape that the file says."""
    with gzip.open(path, "rb") as f:
        data = f.read()
    dims = struct.unpack_from(f">{n_dims}I", data, 4)
    return np.frombuffer(data, "uint8", offset=4 + 4 * n_dims).reshape(dims)


def reader_creator(image_filename, label_filename, buffer_size):
    """Samples; buffer_size of them are made at a time."""
    def reader():
        images = _numbers(image_filename, 3)
        labels = _numbers(label_filename, 1)
        for at in range(0, len(labels), buffer_size):
            part = images[at:at + buffer_size].astype("float32")
            part = part.reshape(len(part), -1) / 255.0 * 2.0 - 1.0
            yield from zip(part, map(int, labels[at:at + buffer_size]))

    return reader


def train():
    return reader_creator(_path("train-images-idx3-ubyte.gz"),
                          _path("train-labels-idx1-ubyte.gz"), 100)


def test():
    return reader_creator(_path("t10k-images-idx3-ubyte.gz"),
                          _path("t10k-labels-idx1-ubyte.gz"), 100)


def fetch():
    return [_path(name) for name in _FILES]
