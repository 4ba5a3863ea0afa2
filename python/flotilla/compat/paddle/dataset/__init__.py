"""Well-known data sets, read from files that are there.

Each module has readers: functions that give samples. A file is wanted where
PaddlePaddle keeps it, ~/.cache/paddle/dataset/NAME/ (common.DATA_HOME); one that
is missing is named. Nothing is downloaded.
"""
from . import (cifar, common, conll05, flowers, image, imdb, imikolov, mnist,
               movielens, mq2007, sentiment, uci_housing, voc2012, wmt14,
               wmt16)

__all__ = ["mnist", "imikolov", "imdb", "cifar", "movielens", "conll05",
           "sentiment", "uci_housing", "wmt14", "wmt16", "mq2007", "flowers",
           "voc2012", "image"]
