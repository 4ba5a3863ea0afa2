"""Sentences in French and English: numbers of words, of their translation with a
beginning, and of it with an end."""
import tarfile

from . import common

URL_TRAIN = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz"
MD5_TRAIN = "0791583d57d5beb693b9414c5b36798c"
START, END, UNK = "<s>", "<e>", "<unk>"
UNK_IDX = 2
_LONGEST = 80


def _lines(archive, ending):
    for member in archive:
        if member.name.endswith(ending):
            for line in archive.extractfile(member):
                yield line.decode().strip()


def _dict(tar_file, ending, size):
    with tarfile.open(tar_file) as archive:
        return {word: i for i, word in zip(range(size),
                                           _lines(archive, ending))}


def reader_creator(tar_file, file_name, dict_size):
    def reader():
        source = _dict(tar_file, "src.dict", dict_size)
        target = _dict(tar_file, "trg.dict", dict_size)
        with tarfile.open(tar_file) as archive:
            for line in _lines(archive, file_name):
                parts = line.split("\t")
                if len(parts) != 2:
                    continue
                from_ids = [source.get(w, UNK_IDX)
                            for w in [START] + parts[0].split() + [END]]
                ids = [target.get(w, UNK_IDX) for w in parts[1].split()]
                if max(len(from_ids), len(ids)) <= _LONGEST:
                    yield (from_ids, [target[START]] + ids,
                           ids + [target[END]])

    return reader


def train(dict_size):
    return reader_creator(fetch(), "train/train", dict_size)


def test(dict_size):
    return reader_creator(fetch(), "test/test", dict_size)


def gen(dict_size):
    return reader_creator(fetch(), "gen/gen", dict_size)


def get_dict(dict_size, reverse=True):
    """The words of both languages by their numbers, or, not reversed, their
    numbers by words."""
    both = [_dict(fetch(), ending, dict_size)
            for ending in ("src.dict", "trg.dict")]
    if reverse:
        both = [{i: w for w, i in d.items()} for d in both]
    return tuple(both)


def fetch():
    return common.download(URL_TRAIN, "wmt14", MD5_TRAIN)
