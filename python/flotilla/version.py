"""Which version of PaddlePaddle's names this is, for programs that ask."""
import re

full_version = "1.8.5"
major, minor, patch = full_version.split(".")
rc = 0
istaged = True
commit = "flotilla"
with_mkl = "OFF"


def show():
    print("full_version:", full_version)


def mkl():
    return with_mkl


def _numbers(text, name):
    if not isinstance(text, str):
        raise TypeError(f"The type of '{name}' in require_version must be str, "
                        f"but received {type(text)}.")
    if not re.fullmatch(r"\d+(\.\d+){0,3}", text):
        raise ValueError(f"The value of '{name}' in require_version must be "
                         "numbers with points between them, like '1.5.2.0', "
                         f"but received {text}")
    found = [int(n) for n in text.split(".")]
    return found + [0] * (4 - len(found))


def require_version(min_version, max_version=None):
    """Raises unless this version lies between the two."""
    low = _numbers(min_version, "min_version")
    here = _numbers(full_version, "version")
    high = None if max_version is None else _numbers(max_version, "max_version")
    if here < low or (high is not None and here > high):
        wanted = (f"{min_version} or higher" if max_version is None else
                  f"{min_version} to {max_version}")
        raise Exception(f"VersionError: PaddlePaddle version {wanted} is "
                        f"required, and these are the names of {full_version}")
