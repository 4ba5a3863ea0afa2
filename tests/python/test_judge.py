"""Measures by name against straight numpy."""
import unittest

import numpy as np

import flotilla as fl


class JudgeTest(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(7)
        self.scores = np.round(rng.random(500), 2)
        self.labels = (rng.random(500) < self.scores).astype(np.int64)
        self.users = rng.integers(0, 20, 500)

    def judged(self, metrics, **keys):
        judge = fl.Judge(metrics)
        for rows in np.split(np.arange(500), 5):
            judge.update(self.scores[rows], self.labels[rows],
                         **{k: v[rows] for k, v in keys.items()})
        return judge.eval()

    def test_figures_of_all_samples(self):
        found = self.judged("auc,rmse,precision@0.5,recall@0.5")
        p, y = self.scores.astype(np.float32), self.labels
        wins = p[y == 1][:, None] - p[y == 0][None, :]
        self.assertAlmostEqual(found["auc"],
                               np.mean((wins > 0) + 0.5 * (wins == 0)))
        self.assertAlmostEqual(found["rmse"], np.sqrt(np.mean((p - y) ** 2)),
                               5)
        taken = p >= 0.5
        self.assertAlmostEqual(found["precision@0.5"], y[taken].mean())
        self.assertAlmostEqual(found["recall@0.5"], taken[y == 1].mean())

    def test_the_best_of_each_user(self):
        self.scores = np.random.default_rng(8).permutation(500) / 500
        found = self.judged("recall@5:user", user=self.users)
        shares = []
        for u in range(20):
            order = np.argsort(-self.scores[self.users == u])
            labels = self.labels[self.users == u][order]
            shares.append(labels[:5].sum() / labels.sum())
        self.assertAlmostEqual(found["recall@5:user"], np.mean(shares))

    def test_it_begins_anew_and_takes_ratings(self):
        judge = fl.Judge("rmse,mae")
        for wrong in 1, 3:
            judge.update([[0, 4.0], [0, 2.0]], [4 + wrong, 2 - wrong])
            self.assertEqual(judge.eval(), {"rmse": wrong, "mae": wrong})

    def test_what_does_not_fit_is_refused(self):
        with self.assertRaisesRegex(LookupError, "did you mean auc"):
            fl.Judge("aux")
        judge = fl.Judge("gauc:user")
        with self.assertRaisesRegex(ValueError, "needs the keys user, not none"):
            judge.update([0.5], [1])
        with self.assertRaisesRegex(ValueError, "2 samples, but a column of 1"):
            judge.update([0.5, 0.5], [1, 0], user=[3])
        with self.assertRaisesRegex(ValueError, "there are no samples"):
            judge.eval()


if __name__ == "__main__":
    unittest.main()
