"""Sentences of the Penn Treebank: n-grams, or a sentence and the same one word
later. Words are bytes, marks are texts."""
import collections
import tarfile

from . import common, words

URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
MD5 = "30177ea32e27c525793142b6bf2c8e2d"


class DataType:
    NGRAM = 1
    SEQ = 2


def _lines(part):
    with tarfile.open(fetch()) as archive:
        name = f"./simple-examples/data/ptb.{part}.txt"
        for line in archive.extractfile(name):
            yield line.strip().split()


def build_dict(min_word_freq=50):
    counts = collections.Counter()
    for part in ("train", "valid"):
        for line in _lines(part):
            counts.update(line + ["<s>", "<e>"])
    counts.pop(b"<unk>", None)
    return words.numbered(counts, min_word_freq)


def _ngrams(line, n, number):
    if n < 0:
        raise AssertionError("Invalid gram length")
    ids = [number(w) for w in ["<s>"] + line + ["<e>"]]
    for end in range(n, len(ids) + 1):
        yield tuple(ids[end - n:end])


def _sequences(line, n, number):
    ids = [number(w) for w in line]
    if n <= 0 or len(ids) < n:
        yield [number("<s>")] + ids, ids + [number("<e>")]


_MAKERS = {DataType.NGRAM: _ngrams, DataType.SEQ: _sequences}


def reader_creator(part, word_idx, n, data_type):
    if data_type not in _MAKERS:
        raise AssertionError(f"Unknown data type {data_type}")
    unknown = word_idx["<unk>"]

    def reader():
        for line in _lines(part):
            yield from _MAKERS[data_type](line, n,
                                          lambda w: word_idx.get(w, unknown))

    return reader


def train(word_idx, n, data_type=DataType.NGRAM):
    return reader_creator("train", word_idx, n, data_type)


def test(word_idx, n, data_type=DataType.NGRAM):
    return reader_creator("valid", word_idx, n, data_type)


def fetch():
    return common.download(URL, "imikolov", MD5)
