"""How good predictions are, exact and over all workers.

    judge = flotilla.Judge("auc,logloss,recall@20:user")
    judge.update(scores, labels, user=users)      # batch after batch
    judge.eval()                                  # {"auc": 0.81, ...}
"""
import numpy as np

from . import _core


def _column(values, dtype):
    return np.ascontiguousarray(values, dtype).reshape(-1)


class Judge:
    """Measures by name, as `flotilla help eval` lists them."""

    def __init__(self, metrics):
        self.metrics = metrics
        self.reset()

    def reset(self):
        """Forgets what was added."""
        self._handle = _core.judge_new(self.metrics)
        self.keys = _core.judge_keys(self._handle)

    def update(self, preds, labels, **keys):
        """Adds samples: of predictions with two classes the second counts; for
        each key of a measure, the ids that samples are grouped by."""
        if sorted(keys) != sorted(self.keys):
            raise ValueError(f"{self.metrics} needs the keys "
                             f"{', '.join(self.keys) or 'of nothing'}, not "
                             f"{', '.join(keys) or 'none'}")
        preds = np.asarray(preds)
        if preds.ndim == 2:
            preds = preds[:, -1]
        _core.judge_add(self._handle, _column(preds, np.float32),
                        _column(labels, np.float32),
                        [_column(keys[k], np.int64) for k in self.keys])

    def eval(self, fleet=None):
        """The values by name, of all workers of the fleet, each of which calls
        it; of this process without one. Then it begins anew."""
        found = _core.judge_finish(self._handle, fleet and fleet._ready())
        self.reset()
        return found
