"""Rows of tables as a PyTorch module."""
import importlib
import importlib.util
import unittest

import numpy as np

import flotilla as fl

HAS_TORCH = importlib.util.find_spec("torch") is not None


@unittest.skipIf(HAS_TORCH, "torch is installed")
class Without(unittest.TestCase):
    def test_it_says_what_it_wants(self):
        with self.assertRaisesRegex(ImportError, "pip install torch"):
            importlib.import_module("flotilla.torch")


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Rows(unittest.TestCase):
    def setUp(self):
        import torch

        import flotilla.torch
        self.torch = torch
        torch.manual_seed(0)
        self.table = fl.Table(f"torch_{self.id()}", dim=4, optimizer="sgd",
                              init="uniform(-0.1,0.1)")
        self.rows = flotilla.torch.Embedding(self.table, lr=0.5)

    def test_backward_updates_the_rows_of_the_batch(self):
        ids = self.torch.tensor([[3, 5], [5, 9]])
        before = self.table.pull([3, 5, 9])
        out = self.rows(ids)
        self.assertEqual(tuple(out.shape), (2, 2, 4))
        np.testing.assert_array_equal(out.detach().numpy()[0, 0], before[0])
        out.sum().backward()
        after = self.table.pull([3, 5, 9])
        np.testing.assert_allclose(
            before - after, 0.5 * np.array([[1], [2], [1]]) * np.ones(4),
            rtol=1e-5)

    def test_a_net_learns(self):
        net = self.torch.nn.Sequential(self.rows, self.torch.nn.Flatten(),
                                       self.torch.nn.Linear(8, 1))
        rest = self.torch.optim.SGD(net[2].parameters(), lr=0.1)
        rng, losses = np.random.RandomState(1), []
        for _ in range(200):
            ids = self.torch.from_numpy(rng.randint(0, 20, (32, 2)))
            want = (ids[:, :1] % 2).float()
            loss = self.torch.nn.functional.binary_cross_entropy_with_logits(
                net(ids), want)
            rest.zero_grad()
            loss.backward()
            rest.step()
            losses.append(float(loss))
        self.assertLess(np.mean(losses[-20:]), 0.5 * losses[0])
        self.assertEqual(len(self.table), 20)

    def test_evaluation_makes_no_rows_and_moves_none(self):
        self.rows.eval()
        out = self.rows(self.torch.tensor([7]))
        out.sum().backward()
        self.assertEqual(len(self.table), 0)
        again = self.rows(self.torch.tensor([7]))
        self.assertEqual(out.tolist(), again.tolist())

    def test_ids_are_whole_numbers(self):
        with self.assertRaisesRegex(TypeError, "int64 or int32"):
            self.rows(self.torch.tensor([1.0]))
        self.assertIn("lr=0.5", repr(self.rows))


if __name__ == "__main__":
    unittest.main()
