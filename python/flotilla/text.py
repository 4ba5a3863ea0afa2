"""Texts and bytes, as paddle.compat has them."""
import math


def _map(value, one, inplace):
    """Lists, sets and dicts of texts are changed themselves with inplace."""
    if not isinstance(value, (list, set, dict)):
        return one(value)
    if isinstance(value, dict):
        new = {one(k): _map(v, one, False) for k, v in value.items()}
    else:
        new = type(value)(_map(v, one, False) for v in value)
    if not inplace:
        return new
    value.clear()
    (value.extend if isinstance(value, list) else value.update)(new)
    return value


def to_text(obj, encoding="utf-8", inplace=False):
    def one(v):
        return v.decode(encoding) if isinstance(v, bytes) else v
    return None if obj is None else _map(obj, one, inplace)


def to_bytes(obj, encoding="utf-8", inplace=False):
    def one(v):
        return v.encode(encoding) if isinstance(v, str) else v
    return None if obj is None else _map(obj, one, inplace)


def round(x, d=0):
    """Halves away from zero."""
    p = 10**d
    return float(math.floor(abs(x) * p + 0.5)) / p * (1 if x >= 0 else -1)


def floor_division(x, y):
    return x // y


def get_exception_message(exc):
    assert exc is not None, "there is no exception"
    return str(exc)


int_type = long_type = int
