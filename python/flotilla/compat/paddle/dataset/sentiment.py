"""Reviews of films, NLTK's movie_reviews: numbers of words, and 0 for a bad one
or 1 for a good."""
import collections
import functools
import re
import zipfile

from . import common

URL = "https://corpora.bj.bcebos.com/movie_reviews%2Fmovie_reviews.zip"
MD5 = "155de2b77c6834dd8eea7cbe88e93acb"
NUM_TRAINING_INSTANCES = 1600
NUM_TOTAL_INSTANCES = 2000

_WORD = re.compile(r"\w+|[^\w\s]+")


@functools.lru_cache(maxsize=1)
def _reviews(path):
    """[(name, words), ...] of each kind, in the order of names."""
    found = {"neg": [], "pos": []}
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            kind = name.split("/")[-2] if "/" in name else ""
            if kind in found and name.endswith(".txt"):
                text = archive.read(name).decode("latin-1")
                found[kind].append((name, _WORD.findall(text)))
    return found


def get_word_dict():
    """[(word, number), ...], the most frequent first."""
    counts = collections.Counter()
    for reviews in _reviews(fetch()).values():
        for _, words in reviews:
            counts.update(words)
    most = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    return [(word, i) for i, (word, _) in enumerate(most)]


def sort_files():
    """Names of files, a bad review and a good one in turn."""
    reviews = _reviews(fetch())
    return [name for pair in zip(reviews["neg"], reviews["pos"])
            for name, _ in pair]


def load_sentiment_data():
    numbers, reviews = dict(get_word_dict()), _reviews(fetch())
    return [([numbers[w.lower()] for w in words], label)
            for pair in zip(reviews["neg"], reviews["pos"])
            for label, (_, words) in enumerate(pair)]


def reader_creator(data):
    yield from data


def train():
    """The samples themselves, as the original gives them here."""
    return reader_creator(load_sentiment_data()[:NUM_TRAINING_INSTANCES])


def test():
    return reader_creator(load_sentiment_data()[NUM_TRAINING_INSTANCES:])


def fetch():
    return common.download(URL, "corpora", MD5, "movie_reviews.zip")
