"""Metrics that a script adds up over batches."""
import numpy as np


def _is_number(x):
    return isinstance(x, (int, float, np.number)) or (
        isinstance(x, np.ndarray) and x.shape == (1,))


class MetricBase:
    def __init__(self, name):
        self._name = str(name) if name is not None else type(self).__name__

    def __str__(self):
        return self._name

    def reset(self):
        """All numbers that were added up begin at zero again."""
        for name, value in self.__dict__.items():
            if name.startswith("_"):
                continue
            if isinstance(value, int):
                setattr(self, name, 0)
            elif isinstance(value, float):
                setattr(self, name, 0.0)
            elif isinstance(value, (np.ndarray, np.generic)):
                setattr(self, name, np.zeros_like(value))
            else:
                setattr(self, name, None)

    def get_config(self):
        return {k: v for k, v in self.__dict__.items()
                if not k.startswith("_")}


class CompositeMetric(MetricBase):
    def __init__(self, name=None):
        super().__init__(name)
        self._metrics = []

    def add_metric(self, metric):
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def update(self, preds, labels):
        for m in self._metrics:
            m.update(preds, labels)

    def eval(self):
        return [m.eval() for m in self._metrics]


class _Counted(MetricBase):
    """tp of all that are positive, by what they are compared with."""

    def __init__(self, name=None):
        super().__init__(name)
        self.tp = 0

    def _share(self, others):
        total = self.tp + others
        return float(self.tp) / total if total else 0.0


class Precision(_Counted):
    def __init__(self, name=None):
        super().__init__(name)
        self.fp = 0

    def update(self, preds, labels):
        said = np.rint(np.asarray(preds)).astype("int32").reshape(-1)
        labels = np.asarray(labels).reshape(-1)
        self.tp += int(((said == 1) & (labels == 1)).sum())
        self.fp += int(((said == 1) & (labels != 1)).sum())

    def eval(self):
        return self._share(self.fp)


class Recall(_Counted):
    def __init__(self, name=None):
        super().__init__(name)
        self.fn = 0

    def update(self, preds, labels):
        said = np.rint(np.asarray(preds)).astype("int32").reshape(-1)
        labels = np.asarray(labels).reshape(-1)
        self.tp += int(((said == 1) & (labels == 1)).sum())
        self.fn += int(((said != 1) & (labels == 1)).sum())

    def eval(self):
        return self._share(self.fn)


class Accuracy(MetricBase):
    def __init__(self, name=None):
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value, weight):
        if not _is_number(value) or not _is_number(weight) or weight < 0:
            raise ValueError("value and weight of Accuracy.update are numbers")
        self.value += float(np.asarray(value).reshape(-1)[0]) * weight
        self.weight += weight

    def eval(self):
        if self.weight == 0:
            raise ValueError("There is no data in Accuracy Metrics. Please "
                             "check layers.accuracy output has added to "
                             "Accuracy.")
        return self.value / self.weight


class Auc(MetricBase):
    def __init__(self, name=None, curve="ROC", num_thresholds=4095):
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._stat_pos = np.zeros(num_thresholds + 1, "int64")
        self._stat_neg = np.zeros(num_thresholds + 1, "int64")

    def update(self, preds, labels):
        preds = np.asarray(preds)[:, 1]
        labels = np.asarray(labels).reshape(-1)
        at = (preds * self._num_thresholds).astype("int64")
        size = self._num_thresholds + 1
        self._stat_pos += np.bincount(at[labels != 0], minlength=size)
        self._stat_neg += np.bincount(at[labels == 0], minlength=size)

    def reset(self):
        self._stat_pos[:] = 0
        self._stat_neg[:] = 0

    def eval(self):
        pos, neg = np.cumsum(self._stat_pos[::-1]), np.cumsum(self._stat_neg[::-1])
        if not pos[-1] or not neg[-1]:
            return 0.0
        pos0, neg0 = np.r_[0, pos[:-1]], np.r_[0, neg[:-1]]
        area = np.sum((neg - neg0) * (pos + pos0) / 2.0)
        return float(area / pos[-1] / neg[-1])
