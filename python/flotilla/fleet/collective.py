"""incubate.fleet.collective: workers alone, and checkpoints of theirs."""
import json
import os

from .. import io
from .base import DistributedOptimizer, Fleet, Mode
from .fs import LocalFS
from .strategy import CollectiveStrategy

DistributedStrategy = CollectiveStrategy
_PREFIX = "__paddle_fleet_checkpoint__"
_STATUS = "fleet_train_status"


class LambConfig:
    """A name of 1.8 that holds nothing, there as here."""


class DistFCConfig:
    """A name of 1.8 that holds nothing; use_dist_fc refuses."""


class TrainStatus:
    """How many epochs are through."""

    def __init__(self, epoch_no=-1):
        self._epoch_no = epoch_no

    def next(self):
        """The number of the next pass."""
        return self._epoch_no + 1

    def __eq__(self, other):
        return self._epoch_no == other._epoch_no

    def __hash__(self):
        return hash(self._epoch_no)


def _numbers(root, fs):
    """Of the checkpoints that are there."""
    found = []
    for name in fs.list_dirs(root):
        prefix, _, number = name.partition(".")
        if prefix == _PREFIX and number.isdigit():
            found.append(int(number))
    return sorted(found)


class Collective(Fleet):
    def __init__(self):
        super().__init__(Mode.COLLECTIVE)

    def init(self, role_maker=None, is_collective=True, strategy=None):
        super().init(role_maker, is_collective, strategy)

    def distributed_optimizer(self, optimizer, strategy=None):
        """The optimizer of a job of workers alone."""
        self._ready()
        return CollectiveOptimizer(optimizer, strategy, self)

    @property
    def _transpiled_program(self):
        return self.main_program

    # --- checkpoints ---

    def _get_last_checkpoint_no(self, root_path, fs):
        return max(_numbers(root_path, fs), default=-1)

    def clean_redundant_check_points(self, root_path, fs=LocalFS(),
                                     checkpoint_num=1):
        """Removes checkpoints but for the newest."""
        for n in _numbers(root_path, fs)[:-max(checkpoint_num, 1)]:
            fs.rmr(f"{root_path}/{_PREFIX}.{n}")

    def save_check_point(self, executor, path, train_status, main_program=None,
                         fs=LocalFS(), local_cache_path=".cache",
                         remain_all_checkpoint=True):
        """Parameters, states and the number of epochs, under the next
        number."""
        if not fs.stat(path):
            fs.mkdir(path)
        number = self._get_last_checkpoint_no(path, fs) + 1
        real = f"{path}/{_PREFIX}.{number}"
        made = real + ".tmp"
        folder = made
        if fs.need_upload_download():
            folder = f"{local_cache_path}/{_PREFIX}.{number}.saved_cache"
        io.save_persistables(executor, folder, main_program or
                             self.main_program)
        with open(os.path.join(folder, _STATUS), "w", encoding="utf-8") as f:
            json.dump({"epoch_no": train_status._epoch_no}, f)
        if folder is not made:
            fs.delete(made)
            fs.upload(folder, made)
        fs.mv(made, real)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path, fs)

    def load_check_point(self, executor, path, trainer_id, main_program=None,
                         fs=LocalFS(), local_cache_path=".cache",
                         ignore_empty=True):
        """The newest one; None when there is none yet."""
        number = self._get_last_checkpoint_no(path, fs)
        if number < 0:
            if not ignore_empty:
                raise AssertionError(f"there is no checkpoint in {path}")
            return None
        folder = f"{path}/{_PREFIX}.{number}"
        if fs.need_upload_download():
            cache = (f"{local_cache_path}/{_PREFIX}.{number}.load_cache."
                     f"{trainer_id}")
            LocalFS().delete(cache)
            fs.download(folder, cache)
            folder = cache
        io.load_persistables(executor, folder, main_program or
                             self.main_program)
        with open(os.path.join(folder, _STATUS), encoding="utf-8") as f:
            return TrainStatus(json.load(f)["epoch_no"])


class CollectiveOptimizer(DistributedOptimizer):
    def __init__(self, optimizer, strategy=None, owner=None):
        strategy = CollectiveStrategy() if strategy is None else strategy
        super().__init__(owner or fleet, optimizer, strategy)
        if not isinstance(getattr(strategy, "recompute_checkpoints", []),
                          list):
            raise ValueError("DistributedStrategy.recompute_checkpoints should"
                             " be a list")


fleet = Collective()
