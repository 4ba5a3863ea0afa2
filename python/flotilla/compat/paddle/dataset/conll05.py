"""Roles of words in sentences (CoNLL 2005, its test part): of each word its
number, those of the five words around the verb, of the verb, whether it is one
of these, and its label."""
import gzip
import tarfile

from . import common

_PREFIX = "http://paddlemodels.bj.bcebos.com/conll05st"
DATA_URL = f"{_PREFIX}/conll05st-tests.tar.gz"
DATA_MD5 = "387719152ae52d60422c016e92a742fc"
WORDDICT_URL = f"{_PREFIX}%2FwordDict.txt"
WORDDICT_MD5 = "ea7fb7d4c75cc6254716f0177a506baa"
VERBDICT_URL = f"{_PREFIX}%2FverbDict.txt"
VERBDICT_MD5 = "0d2977293bbb6cbefab5b0f97db1e77c"
TRGDICT_URL = f"{_PREFIX}%2FtargetDict.txt"
TRGDICT_MD5 = "d8c7f03ceb5fc2e5a0fa7503a4353751"
EMB_URL = f"{_PREFIX}%2Femb"
EMB_MD5 = "bf436eb0faa1f6f9103017f8be57cdb7"
UNK_IDX = 0
_AROUND = (-2, -1, 0, 1, 2)


def load_dict(filename):
    with open(filename, encoding="utf-8") as f:
        return {line.strip(): i for i, line in enumerate(f)}


def load_label_dict(filename):
    """Numbers of labels: B- and I- of each kind, and O."""
    with open(filename, encoding="utf-8") as f:
        kinds = sorted({line.strip()[2:] for line in f
                        if line[:2] in ("B-", "I-")})
    labels = [mark + kind for kind in kinds for mark in ("B-", "I-")] + ["O"]
    return {label: i for i, label in enumerate(labels)}


def _labels(column):
    """(A0*, *, *) and so on as B-, I- and O."""
    kind, is_open, found = "O", False, []
    for mark in column:
        if "(" in mark:
            kind, is_open = mark[1:mark.index("*")], ")" not in mark
            found.append("B-" + kind)
        elif mark in ("*", "*)"):
            found.append("I-" + kind if is_open else "O")
            is_open = is_open and mark == "*"
        else:
            raise RuntimeError(f"Unexpected label: {mark}")
    return found


def _sentences(words_file, props_file):
    """(words, rows of marks) of each."""
    words, rows = [], []
    for word, marks in zip(words_file, props_file):
        marks = marks.decode().split()
        if marks:
            words.append(word.decode().strip())
            rows.append(marks)
        elif rows:
            yield words, rows
            words, rows = [], []


def corpus_reader(data_path, words_name, props_name):
    """(words, verb, labels) for each verb of each sentence."""
    def reader():
        with tarfile.open(data_path) as archive, \
                gzip.open(archive.extractfile(words_name)) as words_file, \
                gzip.open(archive.extractfile(props_name)) as props_file:
            for words, rows in _sentences(words_file, props_file):
                columns = list(zip(*rows))
                verbs = [v for v in columns[0] if v != "-"]
                for verb, column in zip(verbs, columns[1:]):
                    yield words, verb, _labels(column)

    return reader


def _around(words, at):
    """The words around a verb, and marks of those that are there."""
    marks, found = [0] * len(words), []
    for step in _AROUND:
        i = at + step
        if 0 <= i < len(words):
            marks[i] = 1
            found.append(words[i])
        else:
            found.append("bos" if i < 0 else "eos")
    return found, marks


def reader_creator(corpus, word_dict=None, predicate_dict=None,
                   label_dict=None):
    def number(word):
        return word_dict.get(word, UNK_IDX)

    def reader():
        for words, verb, labels in corpus():
            around, marks = _around(words, labels.index("B-V"))
            n = len(words)
            yield ([number(w) for w in words],
                   *([number(w)] * n for w in around),
                   [predicate_dict.get(verb)] * n, marks,
                   [label_dict.get(w) for w in labels])

    return reader


def get_dict():
    """Numbers of words, of verbs and of labels."""
    def path(url, md5):
        return common.download(url, "conll05st", md5)

    return (load_dict(path(WORDDICT_URL, WORDDICT_MD5)),
            load_dict(path(VERBDICT_URL, VERBDICT_MD5)),
            load_label_dict(path(TRGDICT_URL, TRGDICT_MD5)))


def get_embedding():
    """The path of a file of rows for the words."""
    return common.download(EMB_URL, "conll05st", EMB_MD5)


def test():
    corpus = corpus_reader(
        common.download(DATA_URL, "conll05st", DATA_MD5),
        "conll05st-release/test.wsj/words/test.wsj.words.gz",
        "conll05st-release/test.wsj/props/test.wsj.props.gz")
    return reader_creator(corpus, *get_dict())


def fetch():
    get_dict()
    get_embedding()
    return common.download(DATA_URL, "conll05st", DATA_MD5)
