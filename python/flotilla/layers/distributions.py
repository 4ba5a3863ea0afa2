"""Distributions: draws, entropies, logarithms of densities and distances."""
import math

import numpy as np

from .. import ir
from ..check import check_type, check_variable_and_dtype
from .generated import (elementwise_add, elementwise_mul, exp, less_than, log,
                        reduce_max, reduce_prod, reduce_sum)
from .nn import (gaussian_random, gaussian_random_batch_size_like, reshape,
                 uniform_random, uniform_random_batch_size_like)
from .places import eye
from .tensor import assign, cast, zeros_like

_NUMBERS = (list, np.ndarray, ir.Variable)


def _variables(*given):
    """The parameters as variables of one shape; those that are given as
    variables stay as they are."""
    are = {isinstance(v, ir.Variable) for v in given}
    if len(are) > 1:
        raise ValueError("if one argument is Variable, all arguments should "
                         "be Variable")
    if True in are:
        return given
    arrays = [np.asarray(v, "float32").reshape(np.shape(v) or (1,))
              for v in given]
    return tuple(assign(np.ascontiguousarray(a))
                 for a in np.broadcast_arrays(*arrays))


def _noise(shape, like, seed, known, batch_like):
    """Random numbers: `shape` of them for each number of `like`, whose first
    dimension may be open."""
    check_type(shape, "shape", list, "sample")
    check_type(seed, "seed", int, "sample")
    whole = shape + list(like.shape)
    if -1 not in like.shape:
        return known(whole, seed)
    return batch_like(like, whole, seed, len(shape))


class Distribution:
    """What all distributions have."""

    def sample(self):
        """Draws from it."""
        raise NotImplementedError

    def entropy(self):
        """How much a draw tells, in nats."""
        raise NotImplementedError

    def kl_divergence(self, other):
        """How far another distribution of this kind is, in nats."""
        raise NotImplementedError

    def log_prob(self, value):
        """The logarithm of the density at value."""
        raise NotImplementedError


class _OfTwo(Distribution):
    """One with two numbers, or two tensors of numbers."""

    def __init__(self, names, given):
        for name, v in zip(names, given):
            check_type(v, name, (float,) + _NUMBERS, type(self).__name__)
        self._is_one = all(isinstance(v, float) for v in given)
        for name, v in zip(names, _variables(*given)):
            setattr(self, name, v)

    def _sample(self, noise, shape, width, start):
        out = elementwise_add(elementwise_mul(noise, width), start)
        return reshape(out, shape) if self._is_one else out


class Uniform(_OfTwo):
    """Every number between low and high as likely as any other."""

    def __init__(self, low, high):
        super().__init__(("low", "high"), (low, high))

    def sample(self, shape, seed=0):
        """Draws of this shape for each number of the parameters."""
        noise = _noise(
            shape, self.low + self.high, seed,
            lambda whole, seed: uniform_random(whole, min=0.0, max=1.0,
                                               seed=seed),
            lambda like, whole, seed, at: uniform_random_batch_size_like(
                like, whole, output_dim_idx=at, min=0.0, max=1.0, seed=seed))
        return self._sample(noise, shape, self.high - self.low, self.low)

    def log_prob(self, value):
        """The logarithm of the density at value."""
        check_variable_and_dtype(value, "value", ["float32", "float64"],
                                 "log_prob")
        above = cast(less_than(self.low, value), value.dtype)
        below = cast(less_than(value, self.high), value.dtype)
        return log(above * below) - log(self.high - self.low)

    def entropy(self):
        """The logarithm of high - low."""
        return log(self.high - self.low)


class Normal(_OfTwo):
    """Numbers around loc, of deviation scale."""

    def __init__(self, loc, scale):
        super().__init__(("loc", "scale"), (loc, scale))

    def sample(self, shape, seed=0):
        """Draws of this shape for each number of the parameters."""
        noise = _noise(
            shape, self.loc + self.scale, seed,
            lambda whole, seed: gaussian_random(whole, seed=seed),
            lambda like, whole, seed, at: gaussian_random_batch_size_like(
                like, whole, output_dim_idx=at, seed=seed))
        return self._sample(noise, shape, self.scale, self.loc)

    def entropy(self):
        """0.5 + 0.5 log(2 pi) + log(scale)."""
        scale = zeros_like(self.loc + self.scale) + self.scale
        return log(scale) + (0.5 + 0.5 * math.log(2 * math.pi))

    def log_prob(self, value):
        """The logarithm of the density at value."""
        check_variable_and_dtype(value, "value", ["float32", "float64"],
                                 "log_prob")
        away = (value - self.loc) / self.scale
        return (away * away * -0.5 - log(self.scale) -
                math.log(math.sqrt(2 * math.pi)))

    def kl_divergence(self, other):
        """How far another normal distribution is, in nats."""
        check_type(other, "other", Normal, "kl_divergence")
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        away = (self.loc - other.loc) / other.scale
        return (ratio + away * away - 1.0 - log(ratio)) * 0.5


class Categorical(Distribution):
    """One of several, as likely as softmax of logits says."""

    def __init__(self, logits):
        check_type(logits, "logits", _NUMBERS, "Categorical")
        self.logits, = _variables(logits)

    def _logs(self):
        """Logarithms of the probabilities."""
        above = self.logits - reduce_max(self.logits, dim=-1, keep_dim=True)
        return above - log(reduce_sum(exp(above), dim=-1, keep_dim=True))

    def kl_divergence(self, other):
        """How far another such distribution is, in nats."""
        check_type(other, "other", Categorical, "kl_divergence")
        mine = self._logs()
        return reduce_sum(exp(mine) * (mine - other._logs()), dim=-1,
                          keep_dim=True)

    def entropy(self):
        """How much a draw tells, in nats."""
        logs = self._logs()
        return reduce_sum(exp(logs) * logs, dim=-1, keep_dim=True) * -1.0


class MultivariateNormalDiag(Distribution):
    """Vectors around loc; scale is the matrix of their variances, which has
    numbers on its diagonal alone."""

    def __init__(self, loc, scale):
        check_type(loc, "loc", _NUMBERS, "MultivariateNormalDiag")
        check_type(scale, "scale", _NUMBERS, "MultivariateNormalDiag")
        if isinstance(loc, ir.Variable) != isinstance(scale, ir.Variable):
            raise ValueError("if one argument is Variable, all arguments "
                             "should be Variable")
        self.loc, = _variables(loc)
        self.scale, = _variables(scale)

    def _variances(self):
        n = self.scale.shape[0]
        return reduce_sum(self.scale * eye(n, n, dtype=self.scale.dtype),
                          dim=0)

    def entropy(self):
        """How much a draw tells, in nats."""
        size = self.scale.shape[0] * (1.0 + math.log(2 * math.pi))
        return (log(reduce_prod(self._variances())) + size) * 0.5

    def kl_divergence(self, other):
        """How far another such distribution is, in nats."""
        check_type(other, "other", MultivariateNormalDiag, "kl_divergence")
        mine, theirs = self._variances(), other._variances()
        away = other.loc - self.loc
        shares = reduce_sum((mine + away * away) / theirs)
        sizes = log(reduce_prod(theirs)) - log(reduce_prod(mine))
        return (shares + sizes - float(self.scale.shape[0])) * 0.5
