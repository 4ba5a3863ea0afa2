"""Names that nobody gave: fc_0, fc_0.w_0. They are counted per process, as in
Fluid, until a guard counts anew."""
import collections
import contextlib


class UniqueNameGenerator:
    """Counts names for each key."""

    def __init__(self, prefix=""):
        self.counts = collections.Counter()
        self.prefix = prefix

    def __call__(self, key):
        number = self.counts[key]
        self.counts[key] += 1
        return f"{self.prefix}{key}_{number}"


_current = UniqueNameGenerator()


def generate(key):
    """The next name for a key."""
    return _current(key)


def switch(new_generator=None):
    """Counts with another generator from now on; gives the one before."""
    global _current
    old, _current = _current, new_generator or UniqueNameGenerator()
    return old


@contextlib.contextmanager
def guard(new_generator=None):
    """Names are counted from 0 inside, and begin with the text if one is
    given."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(old)
