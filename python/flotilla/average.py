"""Means that a script adds up over batches."""
import numpy as np


def _is_number(x):
    return isinstance(x, (int, float)) or (isinstance(x, np.ndarray) and
                                           x.shape == (1,))


class WeightedAverage:
    """A mean of numbers, each with a weight."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Forgets what was added."""
        self.numerator = None
        self.denominator = None

    def add(self, value, weight):
        """Adds a number with its weight."""
        if not _is_number(value) and not isinstance(value, np.ndarray):
            raise ValueError("a value of WeightedAverage.add is a number or an "
                             f"array, not {type(value)}")
        if not _is_number(weight):
            raise ValueError("a weight of WeightedAverage.add is a number, not "
                             f"{type(weight)}")
        first = self.numerator is None
        self.numerator = value * weight + (0 if first else self.numerator)
        self.denominator = weight + (0 if first else self.denominator)

    def eval(self):
        """The mean of what was added."""
        if self.numerator is None or self.denominator is None:
            raise ValueError("nothing was added to this WeightedAverage")
        return self.numerator / self.denominator
