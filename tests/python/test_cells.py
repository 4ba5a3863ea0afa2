"""Cells and the nets that take them along sequences."""
import unittest

import numpy as np

import flotilla as fl
from flotilla import layers
from flotilla.layers import nest
from flotilla.layers.cells import BasicGRUUnit
from flotilla.layers.stacks import basic_gru, basic_lstm
from kit import NetCase


class Sum(layers.RNNCell):
    """Adds up what it sees, twice."""

    def call(self, inputs, states):
        new = {"one": states["one"] + inputs, "two": states["two"] - inputs}
        return [new["one"], new["two"] * 2.0], new

    @property
    def state_shape(self):
        return {"one": [2], "two": [-1, 2]}


STEPS = np.arange(12, dtype="f4").reshape(2, 3, 2)


class Along(NetCase):
    def data(self):
        x = fl.data("x", [None, 3, 2])
        x.stop_gradient = False
        return x

    def test_a_cell_sees_every_step_and_hands_its_states_on(self):
        (one, two), last = layers.rnn(Sum(), self.data())
        got = self.run_for(one, two, last["one"], last["two"], x=STEPS)
        sums = STEPS.cumsum(1)
        for g, want in zip(got, (sums, -2 * sums, sums[:, -1], -sums[:, -1])):
            np.testing.assert_allclose(g, want)

    def test_a_state_stays_where_its_sequence_is_over(self):
        n = fl.data("n", [None], "int64")
        _, last = layers.rnn(Sum(), self.data(), sequence_length=n)
        got, = self.run_for(last["one"], x=STEPS, n=np.array([1, 3]))
        np.testing.assert_allclose(got, [STEPS[0, 0], STEPS[1].sum(0)])

    def test_backwards_begins_with_the_last_step(self):
        (one, _), _ = layers.rnn(Sum(), self.data(), is_reverse=True)
        got, = self.run_for(one, x=STEPS)
        np.testing.assert_allclose(got, STEPS[:, ::-1].cumsum(1)[:, ::-1])

    def test_time_may_come_first(self):
        x = fl.data("x", [3, None, 2])
        (one, _), _ = layers.rnn(Sum(), x, time_major=True)
        got, = self.run_for(one, x=STEPS.transpose(1, 0, 2))
        np.testing.assert_allclose(got, STEPS.transpose(1, 0, 2).cumsum(0))

    def test_gradients_go_through_all_steps(self):
        (one, _), _ = layers.rnn(Sum(), self.data())
        fl.append_backward(layers.reduce_sum(one))
        got, = self.run_for("x@GRAD", x=STEPS)
        np.testing.assert_allclose(got[0, :, 0], [3, 2, 1])

    def test_an_lstm_cell_is_what_lstm_unit_computes(self):
        x, h, c = (fl.data(n, [None, k]) for n, k in (("x", 4), ("h", 3),
                                                      ("c", 3)))
        w = fl.ParamAttr(initializer=fl.initializer.Constant(.1))
        a, states = layers.LSTMCell(3, w, forget_bias=.5)(x, [h, c])
        b, cell = layers.lstm_unit(x, h, c, .5, param_attr=w)
        feed = {n: np.random.RandomState(i).rand(5, k).astype("f4")
                for i, (n, k) in enumerate((("x", 4), ("h", 3), ("c", 3)))}
        got = self.run_for(a, b, states[1], cell, **feed)
        np.testing.assert_allclose(got[0], got[1], rtol=1e-5)
        np.testing.assert_allclose(got[2], got[3], rtol=1e-5)

    def test_a_cell_without_a_step_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "call"):
            layers.rnn(layers.RNNCell(), self.data(), [self.data()])
        with self.assertRaisesRegex(NotImplementedError, "state_shape"):
            layers.rnn(layers.RNNCell(), self.data())

    def test_states_of_another_form_are_refused(self):
        class Other(Sum):
            def call(self, inputs, states):
                return inputs, {"one": inputs, "three": inputs}

        with self.assertRaisesRegex(ValueError, "keys"):
            layers.rnn(Other(), self.data())


class Stacks(NetCase):
    def shapes(self, found, **feed):
        return [v.shape for v in self.run_for(*found, **feed)]

    def test_layers_both_ways_give_outputs_and_last_states(self):
        x = fl.data("x", [None, 3, 2])
        n = fl.data("n", [None], "int64")
        feed = {"x": STEPS, "n": np.array([2, 3])}
        found = basic_lstm(x, None, None, 4, num_layers=2, sequence_length=n,
                           bidirectional=True, dropout_prob=.5)
        self.assertEqual(self.shapes(found, **feed),
                         [(2, 3, 8), (4, 2, 4), (4, 2, 4)])
        found = basic_gru(x, None, 4, num_layers=2, sequence_length=n)
        self.assertEqual(self.shapes(found, **feed), [(2, 3, 4), (2, 2, 4)])

    def test_a_stack_begins_with_the_states_that_it_is_given(self):
        x, h = fl.data("x", [3, None, 2]), fl.data("h", [1, None, 4])
        zero = fl.ParamAttr(initializer=fl.initializer.Constant(0.))
        out, last = basic_gru(x, h, 4, batch_first=False, param_attr=zero)
        feed = {"x": STEPS.transpose(1, 0, 2), "h": np.ones((1, 2, 4), "f4")}
        got, end = self.run_for(out, last, **feed)
        # Gates are half open and candidates 0: a half stays in each step.
        np.testing.assert_allclose(got[:, 0, 0], [.5, .25, .125])
        np.testing.assert_allclose(end, got[-1:])

    def test_parameters_are_named_after_layers_and_ways(self):
        x = fl.data("x", [None, 3, 2])
        basic_gru(x, None, 4, bidirectional=True, param_attr=fl.ParamAttr("w"))
        names = {p.name for p in self.main.all_parameters()}
        self.assertLess({"w_fw_w_0_gate", "w_fw_w_0_candidate",
                         "w_bw_w_0_gate", "w_bw_w_0_candidate",
                         "basic_gru_layers_0/BasicGRUUnit_0.b_0"}, names)

    def test_a_unit_keeps_its_parameters(self):
        unit = BasicGRUUnit("mine", 3)
        x, h = fl.data("x", [None, 4]), fl.data("h", [None, 3])
        unit(x, unit(x, h))
        self.assertEqual(unit.full_name(), "mine/BasicGRUUnit_0")
        self.assertEqual(len(self.main.all_parameters()), 4)


class Structures(unittest.TestCase):
    def test_leaves_are_packed_as_they_were_flattened(self):
        found = {"b": (1, [2]), "a": 3}
        self.assertEqual(nest.flatten(found), [3, 1, 2])
        self.assertEqual(nest.pack(found, [30, 10, 20]),
                         {"b": (10, [20]), "a": 30})

    def test_types_and_keys_are_compared(self):
        nest.check_alike({"a": [1]}, {"a": [2]})
        nest.check_alike([1], (1,), check_types=False)
        for a, b, wrong in (([1], (1,), TypeError), ([1], [1, 2], ValueError),
                            ({"a": 1}, {"b": 1}, ValueError),
                            ([[1]], [1], ValueError)):
            with self.assertRaises(wrong):
                nest.check_alike(a, b)


if __name__ == "__main__":
    unittest.main()
