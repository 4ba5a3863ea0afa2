"""Pictures and the classes of their points (Pascal VOC 2012)."""
import io
import tarfile

import numpy as np

from . import common
from .image import _pillow

VOC_URL = ("http://host.robots.ox.ac.uk/pascal/VOC/voc2012/"
           "VOCtrainval_11-May-2012.tar")
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
_FOLDER = "VOCdevkit/VOC2012"


def reader_creator(filename, sub_name):
    def reader():
        image = _pillow()
        with tarfile.open(filename) as archive:
            def picture(name):
                data = archive.extractfile(f"{_FOLDER}/{name}").read()
                return np.array(image.open(io.BytesIO(data)))

            names = archive.extractfile(
                f"{_FOLDER}/ImageSets/Segmentation/{sub_name}.txt").read()
            for name in names.decode().split():
                yield (picture(f"JPEGImages/{name}.jpg"),
                       picture(f"SegmentationClass/{name}.png"))

    return reader


def train():
    return reader_creator(fetch(), "trainval")


def test():
    return reader_creator(fetch(), "train")


def val():
    return reader_creator(fetch(), "val")


def fetch():
    return common.download(VOC_URL, "voc2012", VOC_MD5)
