"""Variables in lists, tuples and dicts."""


def _parts(found):
    """The entries of a list, tuple or dict, in order; None for a leaf."""
    if isinstance(found, dict):
        return [found[k] for k in sorted(found)]
    if isinstance(found, (list, tuple)):
        return list(found)
    return None


def flatten(found):
    parts = _parts(found)
    if parts is None:
        return [found]
    return [leaf for part in parts for leaf in flatten(part)]


def apply(fn, *structures):
    """fn of the leaves at the same places, in the form of the first."""
    first = structures[0]
    parts = [_parts(s) for s in structures]
    if parts[0] is None:
        return fn(*structures)
    made = [apply(fn, *each) for each in zip(*parts)]
    if isinstance(first, dict):
        return type(first)(zip(sorted(first), made))
    if hasattr(first, "_fields"):
        return type(first)(*made)
    return type(first)(made)


def pack(structure, leaves):
    """The leaves, in the form of a structure."""
    left = iter(leaves)
    return apply(lambda _: next(left), structure)


def is_structure(found):
    """A list, tuple or dict?"""
    return _parts(found) is not None


def copy(found):
    """The same leaves in lists and dicts of their own."""
    return apply(lambda leaf: leaf, found)


def check_same(a, b, what):
    """Raises unless both have leaves at the same places."""
    parts_a, parts_b = _parts(a), _parts(b)
    if (parts_a is None) != (parts_b is None):
        raise ValueError(f"{what}one of {a} and {b} is a structure")
    if parts_a is None:
        return
    if len(parts_a) != len(parts_b):
        raise ValueError(f"{what}the first has {len(parts_a)} entries, the "
                         f"second {len(parts_b)}")
    for x, y in zip(parts_a, parts_b):
        check_same(x, y, what)


def check_alike(a, b, check_types=True):
    """Raises unless both have leaves at the same places, in structures of the
    same type and with the same keys."""
    check_same(a, b, "The two structures are not the same: ")
    if not check_types or not is_structure(a):
        return
    if type(a) is not type(b):
        raise TypeError(f"The two structures have types {type(a)} and "
                        f"{type(b)}")
    if isinstance(a, dict) and set(a) != set(b):
        raise ValueError(f"The two structures have the keys {sorted(a)} and "
                         f"{sorted(b)}")
    for x, y in zip(_parts(a), _parts(b)):
        check_alike(x, y)
