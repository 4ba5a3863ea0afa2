"""Documents for queries, with how relevant they are (LETOR, MQ2007): 46 numbers
each, by point, by pair or by list."""
import functools
import itertools

import numpy as np

from . import common

URL = ("http://www.bigdatalab.ac.cn/benchmark/upload/download_source/"
       "7b6dbbe2-842c-11e4-a536-bcaec51b9163_MQ2007.rar")
MD5 = "7be1640ae95c6408dab0ae7207bdc706"
_N_PARTS = 48  # of a line: relevance, query, numbers


class Query:
    """A document of a query."""

    def __init__(self, query_id=-1, relevance_score=-1, feature_vector=None,
                 description=""):
        self.query_id = query_id
        self.relevance_score = relevance_score
        self.feature_vector = feature_vector or []
        self.description = description

    @classmethod
    def parse(cls, text):
        line, _, description = text.partition("#")
        parts = line.split()
        if len(parts) != _N_PARTS:
            raise ValueError(f"a document has {len(parts)} parts, not "
                             f"{_N_PARTS}: {text.strip()!r}")
        return cls(int(parts[1].split(":")[1]), int(parts[0]),
                   [float(p.split(":")[1]) for p in parts[2:]],
                   description.strip())

    def __str__(self):
        numbers = " ".join(map(str, self.feature_vector))
        return f"{self.relevance_score} {self.query_id} {numbers}"


def load_from_text(filepath, shuffle=False):
    """Lists of the documents of each query, the most relevant first."""
    with open(filepath, encoding="utf-8") as f:
        found = [Query.parse(line) for line in f]
    lists = [sorted(group, key=lambda q: -q.relevance_score)
             for _, group in itertools.groupby(found, lambda q: q.query_id)]
    if shuffle:
        np.random.shuffle(lists)
    return lists


def gen_plain_txt(querylist):
    for q in querylist:
        yield q.query_id, q.relevance_score, np.array(q.feature_vector)


def gen_point(querylist):
    for q in querylist:
        yield q.relevance_score, np.array(q.feature_vector)


def gen_pair(querylist, partial_order="full"):
    """Two documents of which the first is more relevant."""
    for a, b in itertools.combinations(querylist, 2):
        if a.relevance_score > b.relevance_score:
            yield (np.array([1]), np.array(a.feature_vector),
                   np.array(b.feature_vector))


def gen_list(querylist):
    yield (np.array([[q.relevance_score] for q in querylist]),
           np.array([q.feature_vector for q in querylist]))


_FORMATS = {"plain_txt": gen_plain_txt, "pointwise": gen_point,
            "pairwise": gen_pair, "listwise": gen_list}


def query_filter(querylists):
    """Those that have a relevant document."""
    return [qs for qs in querylists if any(q.relevance_score for q in qs)]


def _reader(part, format="pairwise", shuffle=False):
    if format not in _FORMATS:
        raise ValueError(f"format {format!r} is none of "
                         f"{', '.join(_FORMATS)}")
    path = common.download(URL, "MQ2007/MQ2007/Fold1", MD5, f"{part}.txt")
    for querylist in query_filter(load_from_text(path, shuffle)):
        yield from _FORMATS[format](querylist)


train = functools.partial(_reader, "train")
test = functools.partial(_reader, "test")


def fetch():
    return common.download(URL, "MQ2007/MQ2007/Fold1", MD5, "train.txt")
