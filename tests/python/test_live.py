"""Rows of servers while they train: as a PyTorch module, and for predictions.

    test_live.py FLEETRUN
"""
import importlib.util
import os
import sys
import unittest

from kit import FolderCase

FLEETRUN = os.path.abspath(sys.argv.pop(1))
HAS_TORCH = importlib.util.find_spec("torch") is not None

TORCH = """
import os
import numpy as np
import torch
import flotilla as fl
import flotilla.torch

servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
if os.environ["TRAINING_ROLE"] == "PSERVER":
    fl.serve(servers, 2, int(os.environ["PADDLE_PSERVER_ID"]))
    raise SystemExit

def learn(rows, job):
    '''Both workers find out which ids are odd, on the same rows.'''
    torch.manual_seed(0)
    net = torch.nn.Sequential(rows, torch.nn.Flatten(), torch.nn.Linear(4, 1))
    rest = torch.optim.SGD(net[2].parameters(), lr=0.1)
    rng, losses = np.random.RandomState(1), []
    for _ in range(150):
        ids = torch.from_numpy(rng.randint(100, 120, (32, 1)))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            net(ids), (ids % 2).float())
        rest.zero_grad()
        loss.backward()
        rest.step()
        losses.append(float(loss))
    return losses

rank = int(os.environ["PADDLE_TRAINER_ID"])
with fl.Job(servers, 2, rank) as job:
    users = job.table("users", dim=4, init="constant(1)", optimizer="sgd")
    job.start()
    rows = flotilla.torch.Embedding(users, lr=0.5)
    rows(torch.tensor([[3, 5], [5, 9]])).sum().backward()
    job.barrier()
    got = rows(torch.tensor([3, 5, 9])).detach().numpy()
    assert got[:, 0].tolist() == [0.0, -1.0, 0.0], got
    rows.eval()
    rows(torch.tensor([3])).sum().backward()
    assert users.pull([3]).tolist() == [[0.0] * 4]
    rows.train()
    losses = learn(rows, job)
    assert np.mean(losses[-20:]) < 0.5 * losses[0], losses
    job.barrier()
print("trainer", rank, "has learned")
"""

# What the model on disk has is not what the servers have by then.
PREDICT = """
import os
import numpy as np
import flotilla as fl
from flotilla.fleet import fleet

ids = fl.layers.data("ids", [1], dtype="int64")
rows = fl.layers.embedding(
    ids, [100, 3], is_sparse=True, is_distributed=True,
    param_attr=fl.ParamAttr(name="emb",
                            initializer=fl.initializer.Constant(1.0)))
score = fl.layers.reduce_sum(rows, dim=1, keep_dim=True)
loss = fl.layers.mean(score)
fleet.init()
fleet.distributed_optimizer(fl.optimizer.SGD(3.0)).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    raise SystemExit
exe = fl.Executor()
exe.run(fl.default_startup_program())
feed = {"ids": np.array([[5], [6]])}
exe.run(feed=feed, fetch_list=[loss])
fleet.util.barrier()
if fleet.is_first_worker():
    fleet.save_inference_model(exe, "model", ["ids"], [score])
    address = fleet.server_endpoints()[0]
    still, live = fl.Predictor("model"), fl.Predictor("model",
                                                      servers=address)
    before = still.run(feed)[0]
    np.testing.assert_allclose(live.run(feed)[0], before)
    fl.Job.of(fleet).table("emb").push([6], np.ones((1, 3)), lr=10.0)
    after = live.run(feed)[0]
    assert after[0] == before[0] and after[1] == before[1] - 30, (before, after)
    np.testing.assert_allclose(still.run(feed)[0], before)
    assert live.clone().run(feed)[0].tolist() == after.tolist()
    print("predicted", flush=True)
fleet.util.barrier()
fleet.stop_worker()
"""


class Live(FolderCase):
    def check(self, script, said):
        out = self.run_script(script, FLEETRUN, "--server_num=2",
                              "--worker_num=2")
        self.assertIn(said, out)

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_torch_learns_rows_of_servers(self):
        self.check(TORCH, "trainer 0 has learned")

    def test_a_predictor_takes_rows_as_they_are(self):
        self.check(PREDICT, "predicted")


if __name__ == "__main__":
    unittest.main()
