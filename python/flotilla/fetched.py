"""What runs give as arrays. From numpy 2.4 on, float() and int() take no array
of one number that has a dimension; scripts that say float(loss) are older."""
import warnings

import numpy as np

from .tensor import LoDTensor, LoDTensorArray
from .types import to_numpy


class array(np.ndarray):
    """An array of one number, which float() and int() take."""

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())


def _is_refused():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            float(np.ones(1))
    except TypeError:
        return True
    return False


def _one_number(value):
    if isinstance(value, list):
        return [_one_number(v) for v in value]
    return value.view(array) if value.size == 1 and value.ndim else value


if _is_refused():
    def values(found):
        return [_one_number(v) for v in found]
else:
    def values(found):
        return found


def as_numpy(value):
    """An array of a tensor without sequences; lists of lists of tensors."""
    if isinstance(value, (list, LoDTensorArray)):
        return [as_numpy(v) for v in value]
    if isinstance(value, LoDTensor) and value.lod():
        raise RuntimeError(
            "Some of your fetched tensors hold LoD information, which an array"
            " has no place for; fetch with return_numpy=False")
    return np.array(value)


def as_tensor(data, place, dtype=None):
    """A tensor of an array or of one number, whose type is said."""
    if isinstance(data, list):
        raise RuntimeError("Some of your feed data hold LoD information; make "
                           "a LoDTensor of a list before it is fed")
    if np.isscalar(data):
        if dtype is None:
            raise AssertionError("dtype should be given when casting python "
                                 "scalar to tensor")
        data = np.array([data]).astype(to_numpy(dtype))
    found = LoDTensor()
    found.set(data, place)
    return found
