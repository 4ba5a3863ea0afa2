"""Metrics over all workers, out of what each of them has: a number, an array, or
the name or variable of one in a scope."""
import builtins

import numpy as np

from .. import ir, tensor
from .base import Fleet


def _numbers(x, scope):
    if isinstance(x, ir.Variable):
        x = x.name
    if isinstance(x, str):
        found = (scope or tensor.global_scope()).find_var(x)
        if found is None:
            raise ValueError(f"there is no variable {x} in the scope; run the "
                             "program first")
        x = np.asarray(found.get_tensor())
    return np.asarray(x, dtype="float64")


def _over_workers(x, mode, scope, util):
    array = _numbers(x, scope)
    if util is None:
        if Fleet._last is None:
            return array
        util = Fleet._last.util
    return util.all_reduce(array, mode)


def sum(input, scope=None, util=None):
    """The sum over all workers."""
    return _over_workers(input, "sum", scope, util)


def max(input, scope=None, util=None):
    """The largest value of all workers."""
    return _over_workers(input, "max", scope, util)


def min(input, scope=None, util=None):
    """The smallest value of all workers."""
    return _over_workers(input, "min", scope, util)


def _ratio(x, total, scope, util):
    x, total = (builtins.sum(sum(v, scope, util).reshape(-1).tolist())
                for v in (x, total))
    return x / total if total else 0.0


def acc(correct, total, scope=None, util=None):
    """The accuracy over all workers."""
    return _ratio(correct, total, scope, util)


def mae(abserr, total_ins_num, scope=None, util=None):
    """The mean of absolute errors over all workers."""
    return _ratio(abserr, total_ins_num, scope, util)


def mse(sqrerr, total_ins_num, scope=None, util=None):
    """The mean of squared errors over all workers."""
    return _ratio(sqrerr, total_ins_num, scope, util)


def rmse(sqrerr, total_ins_num, scope=None, util=None):
    """The root of the mean of squared errors over all workers."""
    return mse(sqrerr, total_ins_num, scope, util) ** 0.5


def auc(stat_pos, stat_neg, scope=None, util=None):
    """From the histograms that the layer auc keeps; 0.5 when a class is
    empty."""
    pos, neg = (sum(s, scope, util).reshape(-1) for s in (stat_pos, stat_neg))
    above_pos, above_neg = np.cumsum(pos[::-1]), np.cumsum(neg[::-1])
    if not above_pos[-1] or not above_neg[-1]:
        return 0.5
    x = np.concatenate([[0.0], above_neg])
    y = np.concatenate([[0.0], above_pos])
    area = float(np.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2))
    return area / (above_pos[-1] * above_neg[-1])
