"""Sentences in English and German: numbers of words, of their translation with
a beginning, and of it with an end."""
import collections
import tarfile

from . import common

DATA_URL = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz"
DATA_MD5 = "0c38be43600334966403524a40dcd81e"
TOTAL_EN_WORDS = 11250
TOTAL_DE_WORDS = 19220
START_MARK, END_MARK, UNK_MARK = "<s>", "<e>", "<unk>"
_LANGUAGES = ("en", "de")  # by column


def _pairs(name):
    with tarfile.open(fetch()) as archive:
        for line in archive.extractfile(f"wmt16/{name}"):
            pair = line.decode().strip().split("\t")
            if len(pair) == 2:
                yield pair


def _size(lang, wanted):
    return min(wanted, TOTAL_EN_WORDS if lang == "en" else TOTAL_DE_WORDS)


def _column(lang):
    if lang not in _LANGUAGES:
        raise ValueError(f"{lang!r} is no language of this set: there are en "
                         "(English) and de (German)")
    return _LANGUAGES.index(lang)


def get_dict(lang, dict_size, reverse=False):
    """Numbers of words, or words of numbers: marks, then the most frequent
    words of the training sentences."""
    column, size = _column(lang), _size(lang, dict_size)
    counts = collections.Counter(w for pair in _pairs("train")
                                 for w in pair[column].split())
    most = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    found = [START_MARK, END_MARK, UNK_MARK] + [w for w, _ in most]
    numbered = enumerate(found[:size])
    return dict(numbered) if reverse else {w: i for i, w in numbered}


def reader_creator(file_name, src_dict_size, trg_dict_size, src_lang):
    column = _column(src_lang)

    def reader():
        source = get_dict(src_lang, src_dict_size)
        target = get_dict(_LANGUAGES[1 - column], trg_dict_size)
        start, end, unknown = (source[m] for m in (START_MARK, END_MARK,
                                                   UNK_MARK))
        for pair in _pairs(file_name):
            ids = [target.get(w, unknown) for w in pair[1 - column].split()]
            yield ([start] + [source.get(w, unknown)
                              for w in pair[column].split()] + [end],
                   [start] + ids, ids + [end])

    return reader


def train(src_dict_size, trg_dict_size, src_lang="en"):
    return reader_creator("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size, trg_dict_size, src_lang="en"):
    return reader_creator("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size, trg_dict_size, src_lang="en"):
    return reader_creator("val", src_dict_size, trg_dict_size, src_lang)


def fetch():
    return common.download(DATA_URL, "wmt16", DATA_MD5, "wmt16.tar.gz")
