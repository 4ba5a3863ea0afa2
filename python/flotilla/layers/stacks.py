"""Cells on top of each other along a sequence, in one direction or both."""
import copy

from .cells import (BasicGRUUnit, BasicLSTMUnit, _backwards, _kept_where_over,
                    _mask)
from .nn import dropout, reshape, transpose
from .recurrent import StaticRNN
from .tensor import concat


def _of_layer(attr, ending):
    """An attribute for one layer: a name that is given is a beginning."""
    if attr is None or attr.name is None:
        return attr
    attr = copy.deepcopy(attr)
    attr.name += ending
    return attr


class _Stack:
    """What both kinds of nets share; `drop` is applied between layers."""

    def __init__(self, unit, name, num_layers, hidden_size, dropout_prob,
                 **drop):
        self._unit, self._name = unit, name
        self._n, self._size = num_layers, hidden_size
        self._prob, self._drop = dropout_prob, drop

    def _units(self, way, param_attr, bias_attr):
        scope = "_layers_" if way == "fw" else "_reverse_layers_"
        return [self._unit(f"{self._name}{scope}{i}",
                           param_attr=_of_layer(param_attr, f"_{way}_w_{i}"),
                           bias_attr=_of_layer(bias_attr, f"_{way}_b_{i}"))
                for i in range(self._n)]

    def _state(self, net, whole, first):
        """A state that begins as it is given, or with zeros."""
        if first is None:
            return net.memory(shape=[-1, self._size], batch_ref=whole)
        return net.memory(init=first)

    def _one_way(self, whole, units, mask, first, way):
        """What the last layer gives, and the last states of all."""
        begin = [[None if f is None else f[i, way] for f in first]
                 for i in range(self._n)]
        net = StaticRNN()
        with net.step():
            x = net.step_input(whole)
            step_mask = None if mask is None else net.step_input(mask)
            for i, unit in enumerate(units):
                old = [self._state(net, whole, f) for f in begin[i]]
                new = unit(x, *old)
                new = [new] if len(old) == 1 else list(new)
                if step_mask is not None:
                    new = [_kept_where_over(o, n, step_mask)
                           for o, n in zip(old, new)]
                for o, n in zip(old, new):
                    net.update_memory(o, n)
                net.output(*new)
                x = new[0]
                if self._prob:
                    x = dropout(x, dropout_prob=self._prob, **self._drop)
            net.step_output(x)
        found = net()
        last = [concat([v[-1] for v in found[k:-1:len(first)]], axis=0)
                for k in range(len(first))]
        return found[-1], [reshape(v, [self._n, -1, self._size]) for v in last]

    def _both_ways(self, x, fw, bw, mask, first):
        out, last = self._one_way(x, fw, mask, first, 0)
        other, ends = self._one_way(
            _backwards(x), bw, None if mask is None else _backwards(mask),
            first, 1)
        out = concat([out, _backwards(other)], axis=2)
        return out, [reshape(concat([a, b], axis=1),
                             [2 * self._n, -1, self._size])
                     for a, b in zip(last, ends)]

    def __call__(self, x, first, sequence_length, bidirectional, batch_first,
                 attrs):
        """The outputs, then the last states of each kind."""
        fw = self._units("fw", *attrs)
        bw = self._units("bw", *attrs) if bidirectional else None
        if batch_first:
            x = transpose(x, [1, 0, 2])
        mask = (None if sequence_length is None else
                _mask(x, "float32", sequence_length))
        if first[0] is not None:
            first = [reshape(f, [self._n, 2 if bw else 1, -1, self._size])
                     for f in first]
        if bw:
            out, last = self._both_ways(x, fw, bw, mask, first)
        else:
            out, last = self._one_way(x, fw, mask, first, 0)
        if batch_first:
            out = transpose(out, [1, 0, 2])
        return [out] + last


def basic_gru(input, init_hidden, hidden_size, num_layers=1,
              sequence_length=None, dropout_prob=0.0, bidirectional=False,
              batch_first=True, param_attr=None, bias_attr=None,
              gate_activation=None, activation=None, dtype="float32",
              name="basic_gru"):
    """Layers of gated recurrent units: (outputs, last hidden)."""
    def unit(scope, param_attr, bias_attr):
        return BasicGRUUnit(scope, hidden_size, param_attr, bias_attr,
                            gate_activation, activation, dtype)

    net = _Stack(unit, name, num_layers, hidden_size, dropout_prob)
    return tuple(net(input, [init_hidden], sequence_length, bidirectional,
                     batch_first, (param_attr, bias_attr)))


def basic_lstm(input, init_hidden, init_cell, hidden_size, num_layers=1,
               sequence_length=None, dropout_prob=0.0, bidirectional=False,
               batch_first=True, param_attr=None, bias_attr=None,
               gate_activation=None, activation=None, forget_bias=1.0,
               dtype="float32", name="basic_lstm"):
    """Layers of long short-term memories: (outputs, last hidden, last
    cell)."""
    def unit(scope, param_attr, bias_attr):
        return BasicLSTMUnit(scope, hidden_size, param_attr, bias_attr,
                             gate_activation, activation, forget_bias, dtype)

    net = _Stack(unit, name, num_layers, hidden_size, dropout_prob,
                 dropout_implementation="upscale_in_train")
    return tuple(net(input, [init_hidden, init_cell], sequence_length,
                     bidirectional, batch_first, (param_attr, bias_attr)))
