"""Prices of houses in Boston: 13 numbers, scaled, and the price."""
import numpy as np

from . import common

URL = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
feature_names = ["CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS",
                 "RAD", "TAX", "PTRATIO", "B", "LSTAT"]

_kept = {}


def load_data(filename, feature_num=14, ratio=0.8):
    """The first part for training, and the rest."""
    rows = np.fromfile(filename, sep=" ").reshape(-1, feature_num)
    values = rows[:, :-1]
    values -= values.mean(axis=0)
    values /= values.max(axis=0) - values.min(axis=0)
    at = int(len(rows) * ratio)
    return rows[:at], rows[at:]


def _parts():
    path = common.download(URL, "uci_housing", MD5)
    if path not in _kept:
        _kept[path] = load_data(path)
    return _kept[path]


def _reader(rows):
    def reader():
        for row in rows:
            yield row[:-1], row[-1:]

    return reader


def train():
    return _reader(_parts()[0])


def test():
    return _reader(_parts()[1])


def predict_reader():
    """The numbers of the first row that is not for training."""
    return (_parts()[1][0][:-1],)


def fetch():
    return common.download(URL, "uci_housing", MD5)
