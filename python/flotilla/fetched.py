"""What runs give as arrays. From numpy 2.4 on, float() and int() take no array
of one number that has a dimension; scripts that say float(loss) are older."""
import warnings

import numpy as np


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


if _is_refused():
    def values(found):
        return [v.view(array) if v.size == 1 and v.ndim else v for v in found]
else:
    def values(found):
        return found
