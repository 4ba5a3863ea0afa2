"""Texts and bytes, as paddle.compat has them."""
import math


def _map(value, one):
    if isinstance(value, list):
        return [_map(v, one) for v in value]
    if isinstance(value, set):
        return {_map(v, one) for v in value}
    return one(value)


def to_text(obj, encoding="utf-8", inplace=False):
    def one(v):
        return v.decode(encoding) if isinstance(v, bytes) else v
    return None if obj is None else _map(obj, one)


def to_bytes(obj, encoding="utf-8", inplace=False):
    def one(v):
        return v.encode(encoding) if isinstance(v, str) else v
    return None if obj is None else _map(obj, one)


def round(x, d=0):
    """Halves away from zero."""
    p = 10**d
    return float(math.floor(abs(x) * p + 0.5)) / p * (1 if x >= 0 else -1)


def floor_division(x, y):
    return x // y


def get_exception_message(exc):
    return str(exc)


long_type = int
