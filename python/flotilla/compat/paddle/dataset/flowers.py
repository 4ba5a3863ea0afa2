"""Pictures of flowers of 102 kinds: numbers of a cut picture, and the kind."""
import functools
import os
import pickle

from flotilla.data.reader import map_readers, xmap_readers

from . import common
from .image import batch_images_from_tar, load_image_bytes, simple_transform

_PREFIX = "http://paddlemodels.bj.bcebos.com/flowers/"
_FILES = {"102flowers.tgz": "52808999861908f626f3c1f4e79d11fa",
          "imagelabels.mat": "e0620be6f572b9609742df49c70aed4d",
          "setid.mat": "a5357ecc9cb78c4bef273ce3793fc85c"}
TRAIN_FLAG, TEST_FLAG, VALID_FLAG = "tstid", "trnid", "valid"


def default_mapper(is_train, sample):
    picture, label = sample
    picture = simple_transform(load_image_bytes(picture), 256, 224, is_train,
                               mean=[103.94, 116.78, 123.68])
    return picture.flatten().astype("float32"), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def _mat(path):
    try:
        from scipy.io import loadmat
    except ImportError:
        raise ImportError("paddle.dataset.flowers needs scipy, for "
                          f"{path}: pip install scipy") from None
    return loadmat(path)


def reader_creator(files, dataset_name, mapper, how):
    """Files are those of fetch(); `how` is (buffered_size, use_xmap, cycle)."""
    data_file, label_file, setid_file = files
    buffered_size, use_xmap, cycle = how
    labels = _mat(label_file)["labels"][0]
    wanted = {f"jpg/image_{i:05d}.jpg": labels[i - 1]
              for i in _mat(setid_file)[dataset_name][0]}
    listing = batch_images_from_tar(data_file, dataset_name, wanted)

    def reader():
        while True:
            with open(listing, encoding="utf-8") as f:
                for path in f:
                    with open(path.strip(), "rb") as batch:
                        found = pickle.load(batch)
                    for sample, label in zip(found["data"], found["label"]):
                        yield sample, int(label) - 1
            if not cycle:
                return

    if use_xmap:
        return xmap_readers(mapper, reader, min(4, os.cpu_count() or 1),
                            buffered_size)
    return map_readers(mapper, reader)


def train(mapper=train_mapper, buffered_size=1024, use_xmap=True, cycle=False):
    return reader_creator(fetch(), TRAIN_FLAG, mapper,
                          (buffered_size, use_xmap, cycle))


def test(mapper=test_mapper, buffered_size=1024, use_xmap=True, cycle=False):
    return reader_creator(fetch(), TEST_FLAG, mapper,
                          (buffered_size, use_xmap, cycle))


def valid(mapper=test_mapper, buffered_size=1024, use_xmap=True):
    return reader_creator(fetch(), VALID_FLAG, mapper,
                          (buffered_size, use_xmap, False))


def fetch():
    return [common.download(_PREFIX + name, "flowers", md5)
            for name, md5 in _FILES.items()]
