"""Small files in the form of well-known data sets, for test_paddle_sets.py."""
import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np


def _file(folder, *path):
    name = os.path.join(folder, *path)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    return name


def _tar(name, members):
    with tarfile.open(name, "w:gz") as archive:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _zip(name, members):
    with zipfile.ZipFile(name, "w") as archive:
        for member, data in members:
            archive.writestr(member, data)


def write_uci_housing(folder):
    rows = np.random.RandomState(1).rand(50, 14) * 10
    np.savetxt(_file(folder, "uci_housing", "housing.data"), rows)


def write_mnist(folder):
    rng = np.random.RandomState(2)
    for part in ("train", "t10k"):
        images = rng.randint(0, 256, (200, 28, 28)).astype("uint8")
        with gzip.open(_file(folder, "mnist", part +
                             "-images-idx3-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">IIII", 2051, 200, 28, 28) + images.tobytes())
        with gzip.open(_file(folder, "mnist", part +
                             "-labels-idx1-ubyte.gz"), "wb") as f:
            f.write(struct.pack(">II", 2049, 200) +
                    rng.randint(0, 10, 200).astype("uint8").tobytes())


def write_imdb(folder):
    _tar(_file(folder, "imdb", "aclImdb_v1.tar.gz"), [
        ("aclImdb/%s/%s/%d.txt" % (part, kind, i),
         ("%s film, it was! %s\n" % (kind, "so " * i)).encode())
        for part in ("train", "test") for kind in ("pos", "neg")
        for i in range(3)])


def write_imikolov(folder):
    lines = b" the cat sat on the mat \n a <unk> dog sat \n"
    _tar(_file(folder, "imikolov", "simple-examples.tgz"), [
        ("./simple-examples/data/ptb.%s.txt" % part, lines * n)
        for part, n in (("train", 40), ("valid", 20))])


def write_movielens(folder):
    _zip(_file(folder, "movielens", "ml-1m.zip"), [
        ("ml-1m/movies.dat", "1::Toy Story (1995)::Animation|Comedy\n"
         "2::Heat (1995)::Action\n"),
        ("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n"),
        ("ml-1m/ratings.dat", "1::1::5::978300760\n2::2::3::978302109\n" * 20)
    ])


def write_cifar(folder):
    rng = np.random.RandomState(3)

    def batch(key):
        return pickle.dumps({b"data": rng.randint(0, 256, (4, 3072)).astype(
            "uint8"), key: [1, 2, 3, 4]}, protocol=2)

    _tar(_file(folder, "cifar", "cifar-10-python.tar.gz"), [
        ("cifar-10-batches-py/data_batch_1", batch(b"labels")),
        ("cifar-10-batches-py/test_batch", batch(b"labels"))])
    _tar(_file(folder, "cifar", "cifar-100-python.tar.gz"), [
        ("cifar-100-python/train", batch(b"fine_labels")),
        ("cifar-100-python/test", batch(b"fine_labels"))])


def write_wmt14(folder):
    words = b"<s>\n<e>\n<unk>\nle\nchat\nthe\ncat\n"
    pairs = b"le chat\tthe cat\nbroken\nle chien\tthe dog\n"
    _tar(_file(folder, "wmt14", "wmt14.tgz"), [
        ("wmt14/src.dict", words), ("wmt14/trg.dict", words),
        ("wmt14/train/train", pairs), ("wmt14/test/test", pairs * 2),
        ("wmt14/gen/gen", pairs)])


def write_wmt16(folder):
    pairs = b"a cat\teine Katze\na dog a\tein Hund\nbroken\n"
    _tar(_file(folder, "wmt16", "wmt16.tar.gz"), [
        ("wmt16/" + part, pairs) for part in ("train", "test", "val")])


def write_conll05(folder):
    def path(name):
        return _file(folder, "conll05st", name)

    for name, lines in (("wordDict.txt", "UNK\nthe\ncat\nsat\nbos\neos\n"),
                        ("verbDict.txt", "UNK\nsit\n"),
                        ("targetDict.txt", "B-A0\nI-A0\nB-V\nI-V\nO\n")):
        with open(path(name), "w") as f:
            f.write(lines)
    words = b"The\ncat\nsat\n.\n\nsat\n\n"
    marks = b"- (A0*\n- *)\nsit (V*)\n- *\n\nsit (V*)\n\n"
    release = "conll05st-release/test.wsj/%s/test.wsj.%s.gz"
    _tar(path("conll05st-tests.tar.gz"), [
        (release % ("words", "words"), gzip.compress(words)),
        (release % ("props", "props"), gzip.compress(marks))])


def write_sentiment(folder):
    _zip(_file(folder, "corpora", "movie_reviews.zip"), [
        ("movie_reviews/%s/cv%03d.txt" % (kind, i),
         "it was a %s film , really . %s" % (kind, "very " * i))
        for kind in ("neg", "pos") for i in range(3)])


def write_mq2007(folder):
    def line(score, query):
        numbers = " ".join("%d:%f" % (i + 1, i / 10.0) for i in range(46))
        return "%d qid:%d %s #docid = 1\n" % (score, query, numbers)

    for part in ("train", "test"):
        with open(_file(folder, "MQ2007", "MQ2007", "Fold1", part + ".txt"),
                  "w") as f:
            f.write(line(0, 1) + line(2, 1) + line(1, 1) + line(0, 2))


def write_all(folder):
    for name, write in sorted(globals().items()):
        if name.startswith("write_") and name != "write_all":
            write(folder)
