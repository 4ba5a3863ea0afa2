"""Models with the data that they are for. Building one appends it to the
default programs."""
import os

from .. import initializer, layers
from ..attr import ParamAttr
from ..data.dataset import DatasetFactory
from ..data.loader import DataLoader
from ..fleet import fleet
from ..fleet.util import part_of
from ..fluid import data
from ..tensor import CPUPlace


class MultiSlotCTR:
    """Clicks from 26 categories and 13 numbers of a line, as in Criteo's
    logs: rows of one table, side by side with the numbers, through three
    layers."""

    WIDTH, HIDDEN, LAYERS = 10, 400, 3

    def __init__(self, sparse_feature_dim=1000001):
        self.sparse_feature_dim = sparse_feature_dim
        dense = data("dense_input", [None, 13], "float32")
        slots = [data(f"C{i}", [None, 1], "int64") for i in range(1, 27)]
        label = data("label", [None, 1], "int64")
        self.inputs = [dense] + slots + [label]
        self.prediction = self._net(dense, slots)
        self.loss = layers.mean(layers.cross_entropy(self.prediction, label))
        self.auc, _, self.auc_states = layers.auc(self.prediction, label)
        self.target = {"auc": self.auc}

    def _net(self, dense, slots):
        size = [self.sparse_feature_dim, self.WIDTH]
        table = ParamAttr("SparseFeatFactors",
                          initializer=initializer.Uniform(-0.01, 0.01))
        rows = [layers.embedding(s, size, is_sparse=True, param_attr=table)
                for s in slots]
        h = layers.concat(rows + [dense], axis=1)
        for _ in range(self.LAYERS):
            h = layers.fc(h, self.HIDDEN, act="relu", param_attr=ParamAttr(
                initializer=initializer.Normal(0.0, 1 / h.shape[1] ** 0.5)))
        return layers.fc(h, 2, act="softmax", param_attr=ParamAttr(
            initializer=initializer.Normal(0.0, 1 / h.shape[1] ** 0.5)))

    def load_criteo_from_file(self, train_files_path, batch_size=1000,
                              shuffle=True):
        """Batches of this worker's files in a folder. With fewer files than
        workers, all of them read all files."""
        files = sorted(os.path.join(train_files_path, name)
                       for name in os.listdir(train_files_path))
        if not files:
            raise ValueError(f"{train_files_path} has no files in it; lines of "
                             "Criteo's logs are wanted, 40 columns each")
        if fleet._is_initialized and fleet.is_worker() and \
                len(files) >= fleet.worker_num():
            files = part_of(files, fleet.worker_index(), fleet.worker_num())
        loader = DatasetFactory().create_dataset("InMemoryDataset")
        loader.set_format(f"criteo:hash_size={self.sparse_feature_dim}")
        loader.set_use_var(self.inputs)
        loader.set_batch_size(batch_size)
        loader.set_filelist(files)
        return Loader(loader, shuffle)


class Loader:
    """Batches of a data set, read when they are asked for first."""

    def __init__(self, dataset, shuffle):
        self.dataset, self._shuffle = dataset, shuffle
        self._is_read = False

    def __call__(self):
        if not self._is_read:
            self.dataset.load_into_memory()
            self._is_read = True
        if self._shuffle:
            self.dataset.local_shuffle()
        return iter(DataLoader.from_dataset(self.dataset, CPUPlace(), False))

    __iter__ = __call__
