"""Where the files of public data sets lie. Nothing is fetched: a file that is
not there is named, with the place where it is looked for."""
import hashlib
import os

DATA_HOME = os.path.expanduser(os.path.join("~", ".cache", "paddle",
                                            "dataset"))


def must_mkdirs(path):
    os.makedirs(path, exist_ok=True)


def md5file(fname):
    digest = hashlib.md5()
    with open(fname, "rb") as f:
        for part in iter(lambda: f.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def download(url, module_name, md5sum, save_name=None):
    """The path of a file that was brought here; another one of its name is
    refused."""
    path = os.path.join(DATA_HOME, module_name,
                        save_name or url.split("/")[-1])
    if not os.path.exists(path):
        raise RuntimeError(f"there is no {path}; bring the file of {url} there")
    if md5sum and md5file(path) != md5sum:
        raise RuntimeError(f"{path} is another file than that of {url}: its "
                           f"MD5 is {md5file(path)}, not {md5sum}")
    return path
