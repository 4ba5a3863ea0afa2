"""Metrics that a script adds up over batches."""
import numpy as np


def _is_number(x):
    return isinstance(x, (int, float, np.number)) or (
        isinstance(x, np.ndarray) and x.shape == (1,))


class MetricBase:
    """What every metric has: update with a batch, eval, reset."""

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
        """Its states, by name."""
        return {k: v for k, v in self.__dict__.items()
                if not k.startswith("_")}


class CompositeMetric(MetricBase):
    """Several metrics over the same batches."""

    def __init__(self, name=None):
        super().__init__(name)
        self._metrics = []

    def add_metric(self, metric):
        """Adds a metric."""
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def update(self, preds, labels):
        """Adds a batch to each metric."""
        for m in self._metrics:
            m.update(preds, labels)

    def eval(self):
        """What each metric says."""
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
        """Adds scores and labels of a batch."""
        said = np.rint(np.asarray(preds)).astype("int32").reshape(-1)
        labels = np.asarray(labels).reshape(-1)
        self.tp += int(((said == 1) & (labels == 1)).sum())
        self.fp += int(((said == 1) & (labels != 1)).sum())

    def eval(self):
        """The precision so far."""
        return self._share(self.fp)


class Recall(_Counted):
    def __init__(self, name=None):
        super().__init__(name)
        self.fn = 0

    def update(self, preds, labels):
        """Adds scores and labels of a batch."""
        said = np.rint(np.asarray(preds)).astype("int32").reshape(-1)
        labels = np.asarray(labels).reshape(-1)
        self.tp += int(((said == 1) & (labels == 1)).sum())
        self.fn += int(((said != 1) & (labels == 1)).sum())

    def eval(self):
        """The recall so far."""
        return self._share(self.fn)


class Accuracy(MetricBase):
    """The mean of accuracies, each with its weight."""

    def __init__(self, name=None):
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value, weight):
        """Adds that of a batch."""
        if not _is_number(value) or not _is_number(weight) or weight < 0:
            raise ValueError("value and weight of Accuracy.update are numbers")
        self.value += float(np.asarray(value).reshape(-1)[0]) * weight
        self.weight += weight

    def eval(self):
        """The accuracy so far."""
        if self.weight == 0:
            raise ValueError("There is no data in Accuracy Metrics. Please "
                             "check layers.accuracy output has added to "
                             "Accuracy.")
        return self.value / self.weight


class Auc(MetricBase):
    """The area under a curve, over buckets of what was predicted."""

    def __init__(self, name, curve="ROC", num_thresholds=4095):
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self.reset()

    def reset(self):
        self._stat_pos = [0] * (self._num_thresholds + 1)
        self._stat_neg = [0] * (self._num_thresholds + 1)

    def update(self, preds, labels):
        """Adds scores and labels of a batch."""
        for what, array in (("labels", labels), ("preds", preds)):
            if not isinstance(array, np.ndarray):
                raise ValueError(f"{what} of Auc.update are an array, not "
                                 f"{type(array)}")
        at = (preds[:, 1] * self._num_thresholds).astype("int64")
        labels = labels.reshape(-1)
        size = self._num_thresholds + 1
        self._stat_pos = self._added(self._stat_pos, at[labels != 0], size)
        self._stat_neg = self._added(self._stat_neg, at[labels == 0], size)

    @staticmethod
    def _added(counts, buckets, size):
        return (np.array(counts) + np.bincount(buckets, minlength=size)).tolist()

    def eval(self):
        """The area under the curve so far."""
        pos = np.cumsum(self._stat_pos[::-1])
        neg = np.cumsum(self._stat_neg[::-1])
        if not pos[-1] or not neg[-1]:
            return 0.0
        pos0, neg0 = np.r_[0, pos[:-1]], np.r_[0, neg[:-1]]
        area = np.sum((neg - neg0) * (pos + pos0) / 2.0)
        return float(area / pos[-1] / neg[-1])


class EditDistance(MetricBase):
    """The mean distance of texts, and the part of them that are wrong."""

    def __init__(self, name):
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances, seq_num):
        """Adds the distances of a batch."""
        if not isinstance(distances, np.ndarray):
            raise ValueError("distances of EditDistance.update are an array, "
                             f"not {type(distances)}")
        if not _is_number(seq_num):
            raise ValueError("seq_num of EditDistance.update is a number, not "
                             f"{type(seq_num)}")
        right = int(np.sum(distances == 0))
        self.seq_num += seq_num
        self.instance_error += seq_num - right
        self.total_distance += np.sum(distances)

    def eval(self):
        """The mean distance, and the share of records with one."""
        if self.seq_num == 0:
            raise ValueError("nothing was added to this EditDistance")
        return (self.total_distance / self.seq_num,
                self.instance_error / float(self.seq_num))


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks."""

    def __init__(self, name=None):
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(self, num_infer_chunks, num_label_chunks, num_correct_chunks):
        """Adds the counts of a batch."""
        given = (num_infer_chunks, num_label_chunks, num_correct_chunks)
        if not all(_is_number(n) or isinstance(n, np.ndarray) for n in given):
            raise ValueError("counts of ChunkEvaluator.update are numbers or "
                             "arrays")
        infer, label, correct = (int(np.asarray(n).reshape(-1)[0])
                                 for n in given)
        self.num_infer_chunks += infer
        self.num_label_chunks += label
        self.num_correct_chunks += correct

    def eval(self):
        """Precision, recall and F1 so far."""
        def share(n):
            return float(self.num_correct_chunks) / n if n else 0

        precision = share(self.num_infer_chunks)
        recall = share(self.num_label_chunks)
        f1 = (2 * precision * recall / (precision + recall)
              if self.num_correct_chunks else 0)
        return precision, recall, f1
