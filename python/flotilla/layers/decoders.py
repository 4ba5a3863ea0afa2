"""Texts step by step: decoders over cells, and the loop that runs them."""
import collections

import numpy as np

from ..check import check_type
from ..helper import LayerHelper
from ..ir import Variable
from . import nest
from .arrays import (_new_array, array_read, array_write,
                     tensor_array_to_tensor)
from .control import While
from .decode import gather_tree
from .draws import sampling_id
from .generated import (elementwise_add, elementwise_floordiv, elementwise_mod,
                        elementwise_mul, equal, less_equal, logical_and,
                        logical_not, logical_or, reduce_all)
from .maths import log_softmax
from .nn import (expand, gather_nd, reshape, shape as shape_of, slice, softmax,
                 squeeze, stack, topk, transpose, unsqueeze)
from .places import pad
from .tensor import (argmax, assign, cast, fill_constant,
                     fill_constant_batch_size_like, increment,
                     range as range_of)

# The logarithm of what never happens.
_NEVER = -1e9


class Decoder:
    """What dynamic_decode asks of a decoder."""

    def initialize(self, inits):
        """(inputs, states, whether each is finished) of the first step."""
        raise NotImplementedError

    def step(self, time, inputs, states, **kwargs):
        """(outputs, states, inputs, whether each is finished) of a step."""
        raise NotImplementedError

    def finalize(self, outputs, final_states, sequence_lengths):
        """(outputs, states) from those of all steps, by time."""
        raise NotImplementedError


# --- beams -------------------------------------------------------------------------

def _beside(x, beam_size):
    """[batch, ...] as [batch, beam, ...], the same in every beam."""
    x = unsqueeze(x, [1])
    return expand(x, [1, beam_size] + [1] * (len(x.shape) - 2))


def _known_dims(x, first):
    """The dimensions of x from `first` on; open ones when it runs."""
    dims = list(x.shape)[first:]
    if -1 not in dims:
        return dims
    now = shape_of(x)
    return [now[first + i] if n == -1 else n for i, n in enumerate(dims)]


class BeamSearchDecoder(Decoder):
    """Of all texts that a cell may write, the beam_size likeliest, kept in
    every step; cells see the beams of a batch as rows."""

    OutputWrapper = collections.namedtuple(
        "OutputWrapper", ("scores", "predicted_ids", "parent_ids"))
    StateWrapper = collections.namedtuple(
        "StateWrapper", ("cell_states", "log_probs", "finished", "lengths"))

    def __init__(self, cell, start_token, end_token, beam_size,
                 embedding_fn=None, output_fn=None):
        self.cell = cell
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size

    @staticmethod
    def tile_beam_merge_with_batch(x, beam_size):
        """[batch, ...] as [batch * beam, ...], each row beam_size times."""
        check_type(x, "x", Variable,
                   "BeamSearchDecoder.tile_beam_merge_with_batch")
        return reshape(_beside(x, beam_size), [-1] + _known_dims(x, 1))

    def _rows(self, x):
        """[batch, beam, ...] as [batch * beam, ...]."""
        return reshape(x, [-1] + _known_dims(x, 2))

    def _beams(self, x):
        """[batch * beam, ...] as [batch, beam, ...]."""
        return reshape(x, [-1, self.beam_size] + _known_dims(x, 1))

    def _picked(self, x, beams):
        """Of each row of the batch the beams that are listed."""
        batch = cast(shape_of(beams)[0], beams.dtype)
        row = unsqueeze(range_of(0, batch, 1, beams.dtype), [1])
        places = stack([expand(row, [1, self.beam_size]), beams], axis=2)
        places.stop_gradient = True
        return gather_nd(x, places)

    def _embedded(self, ids):
        return self.embedding_fn(ids) if self.embedding_fn else ids

    def initialize(self, initial_cell_states):
        """The first step: all beams of a row are alike, so only one counts."""
        like = nest.flatten(initial_cell_states)[0]

        def filled(value, dtype):
            return fill_constant_batch_size_like(
                like, [-1, self.beam_size], dtype, value)

        one_counts = np.full([self.beam_size], _NEVER, "float32")
        one_counts[0] = 0.0
        finished = filled(False, "bool")
        states = self.StateWrapper(
            nest.apply(lambda x: _beside(x, self.beam_size),
                       initial_cell_states),
            elementwise_add(filled(0.0, "float32"), assign(one_counts)),
            finished, filled(0, "int64"))
        return (self._embedded(filled(self.start_token, "int64")), states,
                finished)

    def _going_on(self, logits, states):
        """How likely texts are that go on with each word; those that are
        finished go on with the end."""
        only_end = np.full([logits.shape[-1]], _NEVER, "float32")
        only_end[self.end_token] = 0.0
        over = cast(states.finished, "float32")
        logs = elementwise_add(
            elementwise_mul(log_softmax(logits), 1.0 - over, axis=0),
            elementwise_mul(unsqueeze(over, [2]), assign(only_end)))
        return elementwise_add(logs, states.log_probs, axis=0)

    def _search(self, logits, cell_states, states):
        n_words = logits.shape[-1]
        flat = reshape(self._going_on(logits, states),
                       [-1, self.beam_size * n_words])
        scores, places = topk(flat, k=self.beam_size)
        n = fill_constant([1], places.dtype, n_words)
        beams, words = (elementwise_floordiv(places, n),
                        elementwise_mod(places, n))
        finished = self._picked(states.finished, beams)
        lengths = elementwise_add(self._picked(states.lengths, beams),
                                  cast(logical_not(finished), "int64"))
        end = fill_constant([1], words.dtype, self.end_token)
        return (self.OutputWrapper(scores, words, beams),
                self.StateWrapper(
                    nest.apply(lambda x: self._picked(x, beams), cell_states),
                    scores, logical_or(finished, equal(words, end)), lengths))

    def step(self, time, inputs, states, **kwargs):
        """The likeliest words behind each text, and what they lead to."""
        cell_outputs, cell_states = self.cell(
            nest.apply(self._rows, inputs),
            nest.apply(self._rows, states.cell_states), **kwargs)
        logits = nest.apply(self._beams, cell_outputs)
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        outputs, states = self._search(
            logits, nest.apply(self._beams, cell_states), states)
        outputs.predicted_ids.stop_gradient = True
        return (outputs, states, self._embedded(outputs.predicted_ids),
                states.finished)

    def finalize(self, outputs, final_states, sequence_lengths):
        """Whole texts, [time, batch, beam]."""
        return (gather_tree(outputs.predicted_ids, outputs.parent_ids),
                final_states)


# --- one text ----------------------------------------------------------------------

class DecodeHelper:
    """What a BasicDecoder asks: first inputs, words, and inputs after them."""

    def initialize(self):
        """(inputs, whether each is finished) of the first step."""

    def sample(self, time, outputs, states):
        """The words of a step."""

    def next_inputs(self, time, outputs, states, sample_ids):
        """(whether each is finished, inputs, states) of the next step."""


class TrainingHelper(DecodeHelper):
    """Inputs are those of the right text, whatever the words are."""

    def __init__(self, inputs, sequence_length, time_major=False):
        self.inputs = inputs
        self.sequence_length = sequence_length
        self.time_major = time_major
        # A step behind the last one, which nobody looks at.
        self.inputs_ = nest.apply(self._padded, inputs)

    def _padded(self, x):
        sides = [0, 0] * len(x.shape)
        sides[1 if self.time_major else 3] = 1
        return pad(x, sides)

    def _at(self, x, time):
        axes = [0 if self.time_major else 1]
        return squeeze(slice(x, axes=axes, starts=[time], ends=[time + 1]),
                       axes=axes)

    def initialize(self):
        """The first inputs; empty texts are finished."""
        none = fill_constant([1], self.sequence_length.dtype, 0)
        return (nest.apply(lambda x: self._at(x, 0), self.inputs),
                equal(self.sequence_length, none))

    def sample(self, time, outputs, states):
        """The likeliest words."""
        return argmax(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The next inputs of the right text."""
        following = cast(time, "int32") + 1
        finished = less_equal(cast(self.sequence_length, "int32"), following)
        return (finished,
                nest.apply(lambda x: self._at(x, following), self.inputs_),
                states)


class GreedyEmbeddingHelper(DecodeHelper):
    """Inputs are the likeliest words of the step before."""

    def __init__(self, embedding_fn, start_tokens, end_token):
        self.embedding_fn = embedding_fn
        self.start_tokens = start_tokens
        self.end_token = fill_constant([1], "int64", end_token)

    def initialize(self):
        """The start tokens; nothing is finished."""
        finished = fill_constant_batch_size_like(self.start_tokens, [-1],
                                                 "bool", False)
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time, outputs, states):
        """The likeliest words."""
        return argmax(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The words as inputs; those that are the end are finished."""
        return (equal(sample_ids, self.end_token),
                self.embedding_fn(sample_ids), states)


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Inputs are words that are drawn, as likely as the step before says."""

    def __init__(self, embedding_fn, start_tokens, end_token,
                 softmax_temperature=None, seed=None):
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = softmax_temperature
        self.seed = seed

    def sample(self, time, outputs, states):
        """Words that are drawn."""
        if self.softmax_temperature is not None:
            outputs = outputs / float(self.softmax_temperature)
        likely = softmax(outputs)
        likely.stop_gradient = True
        return sampling_id(likely, seed=self.seed or 0,
                           dtype=self.start_tokens.dtype)


class BasicDecoder(Decoder):
    """One text for each row: what a cell says, and what a helper makes of
    it."""

    OutputWrapper = collections.namedtuple("OutputWrapper",
                                           ("cell_outputs", "sample_ids"))

    def __init__(self, cell, helper, output_fn=None):
        self.cell = cell
        self.helper = helper
        self.output_fn = output_fn

    def initialize(self, initial_cell_states):
        """The first step, as the helper has it."""
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time, inputs, states, **kwargs):
        """The outputs of the cell, words, and what comes next."""
        outputs, states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        words = self.helper.sample(time=time, outputs=outputs, states=states)
        words.stop_gradient = True
        finished, inputs, states = self.helper.next_inputs(
            time=time, outputs=outputs, states=states, sample_ids=words)
        return self.OutputWrapper(outputs, words), states, inputs, finished


# --- the loop ----------------------------------------------------------------------

class _InArrays:
    """Values that go from step to step in arrays: gradients find them."""

    def __init__(self, first, step):
        self._arrays = nest.apply(lambda x: array_write(x, step), first)

    def at(self, step):
        return nest.apply(lambda a: array_read(a, step), self._arrays)

    def put(self, values, step):
        nest.apply(lambda x, a: array_write(x, step, a), values, self._arrays)


class _InPlace:
    """Values that go from step to step in one variable each."""

    def __init__(self, first, step):
        self._values = nest.apply(assign, first)

    def at(self, step):
        return self._values

    def put(self, values, step):
        nest.apply(assign, values, self._values)


def _before_loop(x):
    """An array for values like x beside the loop whose block is written."""
    helper = LayerHelper("array")
    program = helper.main_program
    outside = program.block(program.current_block().parent_idx)
    return _new_array(helper, f"{helper.name}.out", x.dtype, outside)


def _kept_where_over(old, new, over):
    """The old value of what was finished before; truth counts as a number."""
    dtype = old.dtype
    if dtype == over.dtype:
        old, new = cast(old, "float32"), cast(new, "float32")
    over = cast(over, old.dtype)
    out = elementwise_add(elementwise_mul(old, over, axis=0),
                          elementwise_mul(new, 1 - over, axis=0))
    return out if out.dtype == dtype else cast(out, dtype)


def _steps(decoder, inits, max_step_num, impute_finished, is_test, kwargs):
    """All steps: outputs in arrays, the last states, and lengths."""
    inputs, states, first_finished = decoder.initialize(inits)
    finished = assign(first_finished)
    finished.stop_gradient = True
    step = fill_constant([1], "int64", 0)
    carried = (_InPlace if is_test else _InArrays)((inputs, states), step)
    lengths = cast(finished, "int64") * 0
    lengths.stop_gradient = True
    goes_on = logical_not(reduce_all(finished))
    limit = (None if max_step_num is None else
             fill_constant([1], "int64", max_step_num))
    loop = While(goes_on, is_test=is_test)
    with loop.block():
        inputs, states = carried.at(step)
        outputs, new, inputs, now = decoder.step(step, inputs, states,
                                                 **kwargs)
        if impute_finished:
            new = nest.apply(lambda a, b: _kept_where_over(a, b, finished),
                             states, new)
        arrays = nest.apply(_before_loop, outputs)
        nest.apply(lambda x, a: array_write(x, step, a), outputs, arrays)
        increment(step, value=1.0, in_place=True)
        carried.put((inputs, new), step)
        now = logical_or(now, finished)
        assign(lengths + cast(logical_not(finished), "int64"), lengths)
        assign(now, finished)
        left = logical_not(reduce_all(now))
        assign(left if limit is None else
               logical_and(left, less_equal(step, limit)), goes_on)
    return arrays, carried.at(step)[1], lengths


def _by_batch(x):
    return transpose(x, [1, 0] + list(range(2, len(x.shape))))


def dynamic_decode(decoder, inits=None, max_step_num=None,
                   output_time_major=False, impute_finished=False,
                   is_test=False, return_length=False, **kwargs):
    """Runs a decoder until all is finished, or for max_step_num steps behind
    the first: its outputs and its last states, and lengths if wanted."""
    arrays, states, lengths = _steps(decoder, inits, max_step_num,
                                     impute_finished, is_test, kwargs)
    outputs = nest.apply(
        lambda a: tensor_array_to_tensor(a, axis=0, use_stack=True)[0], arrays)
    try:
        outputs, states = decoder.finalize(outputs, states, lengths)
    except NotImplementedError:
        pass  # a decoder need not have it
    if not output_time_major:
        outputs = nest.apply(_by_batch, outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)
