"""Reviews of films: numbers of words, and 0 for a good one or 1 for a bad."""
import collections
import re
import string
import tarfile

from . import common, words

URL = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"


def tokenize(pattern):
    """The words of each file whose name matches."""
    marks = string.punctuation.encode()
    with tarfile.open(common.download(URL, "imdb", MD5)) as archive:
        for member in archive:
            if pattern.match(member.name):
                text = archive.extractfile(member).read().rstrip(b"\n\r")
                yield text.translate(None, marks).lower().split()


def build_dict(pattern, cutoff):
    counts = collections.Counter(w for doc in tokenize(pattern) for w in doc)
    return words.numbered(counts, cutoff)


def reader_creator(pos_pattern, neg_pattern, word_idx):
    unknown = word_idx["<unk>"]
    samples = [([word_idx.get(w, unknown) for w in doc], label)
               for label, pattern in enumerate((pos_pattern, neg_pattern))
               for doc in tokenize(pattern)]

    def reader():
        return iter(samples)

    return reader


def _part(name, word_idx):
    return reader_creator(re.compile(rf"aclImdb/{name}/pos/.*\.txt$"),
                          re.compile(rf"aclImdb/{name}/neg/.*\.txt$"),
                          word_idx)


def train(word_idx):
    return _part("train", word_idx)


def test(word_idx):
    return _part("test", word_idx)


def word_dict():
    return build_dict(
        re.compile(r"aclImdb/((train)|(test))/((pos)|(neg))/.*\.txt$"), 150)


def fetch():
    return common.download(URL, "imdb", MD5)
