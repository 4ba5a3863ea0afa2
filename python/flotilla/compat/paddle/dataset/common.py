"""Where files of data sets are, and readers over files of samples."""
import glob
import hashlib
import os
import pickle

DATA_HOME = os.path.expanduser(os.path.join("~", ".cache", "paddle",
                                            "dataset"))


def must_mkdirs(path):
    os.makedirs(path, exist_ok=True)


def md5file(fname):
    total = hashlib.md5()
    with open(fname, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            total.update(piece)
    return total.hexdigest()


def download(url, module_name, md5sum, save_name=None):
    """The path of a file, which must be there already."""
    name = save_name or url.replace("%2F", "/").split("/")[-1]
    path = os.path.join(DATA_HOME, module_name, name)
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"paddle.dataset.{module_name}: {path} is not there, and nothing "
            f"is downloaded; put the file of {url} (MD5 {md5sum}) there, or "
            "set paddle.dataset.common.DATA_HOME to the folder that has "
            f"{module_name}/{name}")
    return path


def split(reader, line_count, suffix="%05d.pickle", dumper=pickle.dump):
    """Writes samples to files of line_count each."""
    if not callable(dumper):
        raise TypeError("dumper should be callable.")
    waiting, number = [], 0

    def write():
        with open(suffix % number, "wb") as f:
            dumper(waiting, f)

    for sample in reader():
        waiting.append(sample)
        if len(waiting) == line_count:
            write()
            waiting, number = [], number + 1
    if waiting:
        write()


def cluster_files_reader(files_pattern, trainer_count, trainer_id,
                         loader=pickle.load):
    """Samples of every trainer_count-th file, from number trainer_id on."""
    if not callable(loader):
        raise TypeError("loader should be callable.")

    def reader():
        mine = sorted(glob.glob(files_pattern))[trainer_id::trainer_count]
        for path in mine:
            with open(path, "rb") as f:
                yield from loader(f)

    return reader
