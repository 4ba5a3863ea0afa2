"""Texts from cells: beams, greedy words, words that are drawn, and training."""
import unittest

import numpy as np

import flotilla as fl
from kit import NetCase

L = fl.layers
WORDS, END = 4, 3


class Chain(L.RNNCell):
    """Word k is followed by k + 1, as likely as `sure` says, or by the end."""

    def __init__(self, sure=2.0):
        row = np.zeros([WORDS, WORDS], "float32")
        for k in range(WORDS):
            row[k, min(k + 1, END)] = sure
            row[k, END] = max(row[k, END], 1.0)
        self._logits = row

    def call(self, inputs, states):
        """(logits, how many steps there were)."""
        return L.matmul(inputs, L.assign(self._logits)), states + 1.0

    @property
    def state_shape(self):
        """[1]."""
        return [1]


def embedded(ids):
    return fl.layers.nn.one_hot_v2(ids, WORDS)


class Decode(NetCase):
    def start(self, rows=2):
        x = L.data("x", [1])
        return x, np.zeros([rows, 1], "float32")

    def test_the_likeliest_texts_come_first(self):
        x, a = self.start()
        decoder = L.BeamSearchDecoder(Chain(), 0, END, 2, embedded)
        ids, states, lengths = L.dynamic_decode(
            decoder, x, max_step_num=5, is_test=True, return_length=True)
        found, n, steps = self.run_for(ids, lengths, states.cell_states, x=a)
        self.assertEqual(found[0, :, 0].tolist(), [1, 2, 3])
        self.assertEqual(found[0, 0, 1], END)
        np.testing.assert_array_equal(found[0], found[1])
        self.assertEqual(n[0].tolist(), [3, 1])
        self.assertEqual(steps[0, 0, 0], 3)

    def test_inits_stay_as_they_are(self):
        x, a = self.start()
        first = x + 7.0
        L.dynamic_decode(L.BeamSearchDecoder(Chain(), 0, END, 2, embedded),
                         first, max_step_num=3, is_test=True)
        np.testing.assert_array_equal(self.run_for(first, x=a)[0], a + 7)

    def greedy(self, helper, **options):
        x, a = self.start()
        start = L.fill_constant_batch_size_like(x, [-1], "int64", 0)
        decoder = L.BasicDecoder(Chain(), helper(embedded, start, END))
        outputs, states, lengths = L.dynamic_decode(
            decoder, x, return_length=True, **options)
        return self.run_for(outputs.sample_ids, lengths, states, x=a)

    def test_the_likeliest_words_one_by_one(self):
        ids, lengths, _ = self.greedy(L.GreedyEmbeddingHelper)
        self.assertEqual(ids.tolist(), [[1, 2, 3]] * 2)
        self.assertEqual(lengths.tolist(), [3, 3])

    def test_a_limit_of_steps(self):
        ids, _, steps = self.greedy(L.GreedyEmbeddingHelper, max_step_num=1)
        self.assertEqual(ids.tolist(), [[1, 2]] * 2)
        self.assertEqual(steps.tolist(), [[2.0], [2.0]])

    def test_words_that_are_drawn_end_too(self):
        ids, lengths, _ = self.greedy(
            lambda *given: L.SampleEmbeddingHelper(*given, seed=3),
            max_step_num=40)
        for row, n in zip(ids, lengths):
            self.assertTrue(n == ids.shape[1] or row[n - 1] == END)

    def test_states_of_what_is_finished_can_stay(self):
        x = L.data("x", [1])
        n = L.data("n", [], dtype="int64")
        words = L.data("words", [3, WORDS])
        decoder = L.BasicDecoder(Chain(), L.TrainingHelper(words, n))
        _, states = L.dynamic_decode(decoder, x, impute_finished=True)
        found, = self.run_for(states, x=np.zeros([2, 1], "float32"),
                              n=np.array([1, 3]),
                              words=np.ones([2, 3, WORDS], "float32"))
        self.assertEqual(found.tolist(), [[1.0], [3.0]])

    def test_gradients_go_back_through_all_steps(self):
        x = L.data("x", [1])
        x.stop_gradient = False
        words = L.data("words", [3, WORDS])
        n = L.data("n", [], dtype="int64")
        _, states = L.dynamic_decode(
            L.BasicDecoder(Chain(), L.TrainingHelper(words, n)), x)
        g, = fl.gradients(L.reduce_sum(states), x)
        found, = self.run_for(g, x=np.zeros([2, 1], "float32"),
                              n=np.array([3, 2]),
                              words=np.ones([2, 3, WORDS], "float32"))
        self.assertEqual(found.tolist(), [[1.0], [1.0]])

    def test_beams_beside_each_other_of_an_open_length(self):
        x = fl.fluid.data("x", [None, None, 2])
        out = L.BeamSearchDecoder.tile_beam_merge_with_batch(x, 3)
        a = np.arange(8, dtype="float32").reshape(2, 2, 2)
        np.testing.assert_array_equal(self.run_for(out, x=a)[0],
                                      np.repeat(a, 3, axis=0))

    def test_steps_of_a_search_become_texts(self):
        """One source, two beams; the second text ends in the second step."""
        ids, scores = L.create_array("int64"), L.create_array("float32")
        steps = [([5, 6], [0.5, 0.4], [[0, 1], [0, 2]]),
                 ([7, END], [0.3, 0.2], [[0, 2], [0, 1, 2]]),
                 ([8, END], [0.1, 0.2], [[0, 2], [0, 1, 2]])]
        feed = {}
        for k, (words, likely, lod) in enumerate(steps):
            at = L.fill_constant([1], "int64", k)
            for name, dtype, values, array in (
                    ("w", "int64", words, ids),
                    ("s", "float32", likely, scores)):
                v = L.data(f"{name}{k}", [1], dtype=dtype, lod_level=2)
                fed = fl.LoDTensor()
                fed.set(np.array(values, dtype).reshape(-1, 1), fl.CPUPlace())
                fed.set_lod(lod)
                feed[v.name] = fed
                L.array_write(v, at, array)
        out = L.beam_search_decode(ids, scores, beam_size=2, end_id=END)
        words, likely = fl.Executor().run(self.main, feed=feed,
                                          fetch_list=list(out),
                                          return_numpy=False)
        self.assertEqual(np.array(words).tolist(), [6, END, 5, 7, 8])
        self.assertEqual(words.lod(), [[0, 2], [0, 2, 5]])
        np.testing.assert_allclose(np.array(likely),
                                   [0.4, 0.2, 0.5, 0.3, 0.1])

    def test_one_operator_reads_an_array_of_the_scope(self):
        scope = fl.Scope()
        for name, dtype in (("ids", "int64"), ("scores", "float32")):
            step = fl.LoDTensor()
            step.set(np.array([2, 1], dtype), fl.CPUPlace())
            step.set_lod([[0, 1], [0, 2]])
            scope.var(name).get_lod_tensor_array().append(step)
        fl.fluid.OneOperator(
            "beam_search_decode", Ids="ids", Scores="scores",
            SentenceIds="a", SentenceScores="b", beam_size=2,
            end_id=END).run(scope, fl.CPUPlace())
        self.assertEqual(
            np.array(scope.find_var("a").get_tensor()).tolist(), [2, 1])

    def test_repetitions_and_blanks_are_left_out(self):
        x = L.data("x", [3])
        out = L.ctc_greedy_decoder(x, blank=0)
        classes = np.eye(3, dtype="float32")[[0, 1, 1, 2, 2, 0, 2]]
        fed = fl.create_lod_tensor(classes, [[3, 4]], fl.CPUPlace())
        found, = fl.Executor().run(self.main, feed={"x": fed},
                                   fetch_list=[out], return_numpy=False)
        self.assertEqual(np.array(found).ravel().tolist(), [1, 2, 2])
        self.assertEqual(found.recursive_sequence_lengths(), [[1, 2]])


if __name__ == "__main__":
    unittest.main()
