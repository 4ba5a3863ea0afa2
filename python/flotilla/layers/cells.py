"""Cells: one step of a recurrent net made of small layers, and the net that
takes a cell along a sequence."""
import copy
import functools

from .. import names
from ..attr import ParamAttr
from ..check import check_dtype, check_type, check_variable_and_dtype
from ..helper import LayerHelper
from ..ir import Variable
from . import nest
from .generated import layers as _generated
from .nn import matmul, shape as shape_of, split, transpose
from .places import reverse
from .recurrent import StaticRNN
from .sequence import sequence_mask
from .tensor import concat, fill_constant, fill_constant_batch_size_like

_FLOATS = ["float32", "float64"]
_add = _generated["elementwise_add"]
_mul = _generated["elementwise_mul"]
_sigmoid = _generated["sigmoid"]
_tanh = _generated["tanh"]


# --- what a step computes --------------------------------------------------------

def _named(attr, ending):
    """Of several parameters that one attribute names, the one with that
    ending."""
    if attr is None or attr.name is None:
        return attr
    attr = copy.deepcopy(attr)
    attr.name += ending
    return attr


class _Unit:
    """A step whose parameters are made when it sees its first input."""

    def __init__(self, name_scope, hidden_size, param_attr, bias_attr, dtype):
        name = names.generate(f"{name_scope}/{type(self).__name__}")
        self._helper = LayerHelper(type(self).__name__, name=name)
        self._hidden_size = hidden_size
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._dtype = dtype
        self._is_built = False

    def full_name(self):
        """What the names of its parameters begin with."""
        return self._helper.name

    def _parameter(self, attr, shape, is_bias=False):
        return self._helper.create_parameter(ParamAttr._to_attr(attr), shape,
                                             self._dtype, is_bias)

    def __call__(self, input, *states):
        if not self._is_built:
            self._build(input.shape[-1] + self._hidden_size)
            self._is_built = True
        return self.forward(input, *states)


class BasicGRUUnit(_Unit):
    """One step of a gated recurrent unit: u h + (1 - u) c, where c sees h
    through the gate r."""

    def __init__(self, name_scope, hidden_size, param_attr=None,
                 bias_attr=None, gate_activation=None, activation=None,
                 dtype="float32"):
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or _sigmoid
        self._activation = activation or _tanh

    def _build(self, width):
        param, bias = self._param_attr, self._bias_attr
        size = self._hidden_size
        self._gate_weight = self._parameter(_named(param, "_gate"),
                                            [width, 2 * size])
        self._candidate_weight = self._parameter(_named(param, "_candidate"),
                                                 [width, size])
        self._gate_bias = self._parameter(_named(bias, "_gate"), [2 * size],
                                          True)
        self._candidate_bias = self._parameter(_named(bias, "_candidate"),
                                               [size], True)

    def forward(self, input, pre_hidden):
        """The new state."""
        gates = self._gate_activation(_add(
            matmul(concat([input, pre_hidden], 1), self._gate_weight),
            self._gate_bias))
        r, u = split(gates, num_or_sections=2, dim=1)
        candidate = self._activation(_add(
            matmul(concat([input, r * pre_hidden], 1), self._candidate_weight),
            self._candidate_bias))
        return u * pre_hidden + (1 - u) * candidate


class BasicLSTMUnit(_Unit):
    """One step of a long short-term memory, as (hidden, cell)."""

    def __init__(self, name_scope, hidden_size, param_attr=None,
                 bias_attr=None, gate_activation=None, activation=None,
                 forget_bias=1.0, dtype="float32"):
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or _sigmoid
        self._activation = activation or _tanh
        self._forget_bias = fill_constant([1], dtype, forget_bias)
        self._forget_bias.stop_gradient = False

    def _build(self, width):
        size = 4 * self._hidden_size
        self._weight = self._parameter(self._param_attr, [width, size])
        self._bias = self._parameter(self._bias_attr, [size], True)

    def forward(self, input, pre_hidden, pre_cell):
        """The new state and the new cell."""
        z = _add(matmul(concat([input, pre_hidden], 1), self._weight),
                 self._bias)
        i, j, f, o = split(z, num_or_sections=4, dim=-1)
        gate, act = self._gate_activation, self._activation
        kept = _mul(pre_cell, gate(_add(f, self._forget_bias)))
        new_cell = _add(kept, _mul(gate(i), act(j)))
        return act(new_cell) * gate(o), new_cell


# --- cells ---------------------------------------------------------------------

class _Shape:
    """A shape as one leaf of a structure, with -1 for the batch."""

    def __init__(self, dims):
        self.dims = dims if dims[0] == -1 else [-1] + list(dims)


def _shapes(found):
    """Shapes in lists, tuples and dicts: a list of integers is a leaf."""
    if isinstance(found, int):
        return _Shape([found])
    if isinstance(found, dict):
        return {k: _shapes(v) for k, v in found.items()}
    if all(isinstance(d, int) for d in found):
        return _Shape(found)
    return type(found)(_shapes(v) for v in found)


class RNNCell:
    """What takes an input and states to an output and new states: `call` is
    written by those who derive from it."""

    def call(self, inputs, states, **kwargs):
        """(outputs, new states)."""
        raise NotImplementedError("RNNCell must implent the call function.")

    def __call__(self, inputs, states, **kwargs):
        return self.call(inputs, states, **kwargs)

    def get_initial_states(self, batch_ref, shape=None, dtype="float32",
                           init_value=0, batch_dim_idx=0):
        """States for the batch of batch_ref, filled with one number."""
        check_variable_and_dtype(batch_ref, "batch_ref",
                                 _FLOATS + ["int32", "int64"], "RNNCell")
        check_type(shape, "shape", (list, tuple, type(None), int), "RNNCell")
        check_dtype(dtype, "dtype", _FLOATS, "RNNCell")
        shapes = _shapes(self.state_shape if shape is None else shape)
        return nest.apply(
            lambda s: fill_constant_batch_size_like(
                nest.flatten(batch_ref)[0], s.dims, dtype, init_value,
                batch_dim_idx), shapes)

    @property
    def state_shape(self):
        """The shapes of the states, without the batch."""
        raise NotImplementedError("Please add implementaion for `state_shape` "
                                  "in the used cell.")

    @property
    def state_dtype(self):
        """The types of the states."""
        raise NotImplementedError("Please add implementaion for `state_dtype` "
                                  "in the used cell.")


class GRUCell(RNNCell):
    """A gated recurrent unit as a cell."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None,
                 gate_activation=None, activation=None, dtype="float32",
                 name="GRUCell"):
        check_type(hidden_size, "hidden_size", int, "GRUCell")
        check_dtype(dtype, "dtype", _FLOATS, "GRUCell")
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(name, hidden_size, param_attr, bias_attr,
                                     gate_activation, activation, dtype)

    def call(self, inputs, states):
        """(hidden, hidden)."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "GRUCell")
        check_variable_and_dtype(states, "states", _FLOATS, "GRUCell")
        hidden = self.gru_unit(inputs, states)
        return hidden, hidden

    @property
    def state_shape(self):
        """[hidden_size]."""
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """A long short-term memory as a cell; its states are hidden and cell."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None,
                 gate_activation=None, activation=None, forget_bias=1.0,
                 dtype="float32", name="LSTMCell"):
        check_type(hidden_size, "hidden_size", int, "LSTMCell")
        check_dtype(dtype, "dtype", _FLOATS, "LSTMCell")
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(name, hidden_size, param_attr,
                                       bias_attr, gate_activation, activation,
                                       forget_bias, dtype)

    def call(self, inputs, states):
        """(hidden, [hidden, cell])."""
        check_variable_and_dtype(inputs, "inputs", _FLOATS, "LSTMCell")
        check_type(states, "states", list, "LSTMCell")
        for i, state in enumerate(states):
            check_variable_and_dtype(state, f"state[{i}]", _FLOATS, "LSTMCell")
        hidden, cell = self.lstm_unit(inputs, *states)
        return hidden, [hidden, cell]

    @property
    def state_shape(self):
        """[[hidden_size], [hidden_size]]."""
        return [[self.hidden_size], [self.hidden_size]]


# --- along a sequence --------------------------------------------------------------

def _swapped(x):
    """Batch and time in each other's place."""
    return transpose(x, [1, 0] + list(range(2, len(x.shape))))


def _backwards(x):
    return reverse(x, axis=[0])


def _kept_where_over(state, new, mask):
    """The old state where a sequence is over."""
    return _mul(new, mask, axis=0) - _mul(state, mask - 1, axis=0)


def _with_gradient(x):
    x.stop_gradient = False
    return x


def _check_rnn(inputs, initial_states, sequence_length):
    check_type(inputs, "inputs", (Variable, list, tuple), "rnn")
    if not isinstance(inputs, Variable):
        for i, x in enumerate(inputs):
            check_variable_and_dtype(x, f"inputs[{i}]", _FLOATS, "rnn")
    check_type(initial_states, "initial_states",
               (Variable, list, tuple, type(None)), "rnn")
    if isinstance(initial_states, (list, tuple)):
        for i, state in enumerate(nest.flatten(initial_states)):
            check_variable_and_dtype(state, f"states[{i}]", _FLOATS, "rnn")
    check_type(sequence_length, "sequence_length", (Variable, type(None)),
               "rnn")


def _mask(by_time, dtype, sequence_length):
    """1 where a sequence has a step, by time."""
    longest = shape_of(by_time)[0]
    return transpose(sequence_mask(sequence_length, longest, dtype), [1, 0])


def _walk(cell, inputs, initial_states, mask, kwargs):
    """The steps: what a cell gives in each, by time, and its last states."""
    net = StaticRNN()
    with net.step():
        step = nest.apply(net.step_input, inputs)
        states = nest.apply(net.memory, initial_states)
        outputs, new = cell.call(step, nest.copy(states), **kwargs)
        nest.check_alike(states, new)
        if mask is not None:
            new = nest.apply(functools.partial(_kept_where_over,
                                               mask=net.step_input(mask)),
                             states, new)
        nest.apply(net.update_memory, states, new)
        nest.apply(net.step_output, outputs)
        nest.apply(net.step_output, new)
    found, n = net(), len(nest.flatten(outputs))
    return (nest.pack(outputs, found[:n]),
            nest.pack(new, [v[-1] for v in found[n:]]))


def rnn(cell, inputs, initial_states=None, sequence_length=None,
        time_major=False, is_reverse=False, **kwargs):
    """A cell along inputs [batch, time, ...], or [time, batch, ...] with
    time_major: its outputs and its last states. Behind sequence_length a state
    stays as it is."""
    _check_rnn(inputs, initial_states, sequence_length)
    if initial_states is None:
        initial_states = cell.get_initial_states(
            inputs, batch_dim_idx=1 if time_major else 0)
    initial_states = nest.apply(_with_gradient, initial_states)
    if not time_major:
        inputs = nest.apply(_swapped, inputs)
    mask = (None if sequence_length is None else
            _mask(nest.flatten(inputs)[0], nest.flatten(initial_states)[0].dtype,
                  sequence_length))
    if is_reverse:
        inputs = nest.apply(_backwards, inputs)
        mask = None if mask is None else _backwards(mask)
    outputs, states = _walk(cell, inputs, initial_states, mask, kwargs)
    if is_reverse:
        outputs = nest.apply(_backwards, outputs)
    if not time_major:
        outputs = nest.apply(_swapped, outputs)
    return outputs, states
