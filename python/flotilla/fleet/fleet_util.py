"""fleet_util.FleetUtil: what worker 0 says, metrics of all workers, models of
days and passes."""
import logging
import sys

import numpy as np

from .. import tensor
from . import metrics
from .base import Fleet

_log = logging.getLogger("flotilla")


class FleetUtil:
    """What scripts of jobs do again and again: prints, models by day and pass,
    AUC of all workers."""

    def __init__(self, mode="pslib"):
        if mode not in ("pslib", "transpiler"):
            raise ValueError(f"FleetUtil: mode is pslib or transpiler, not "
                             f"{mode!r}")

    @staticmethod
    def _is_first():
        fleet = Fleet._last
        return fleet is None or fleet.is_first_worker()

    def rank0_print(self, s):
        """Prints, by worker 0."""
        if self._is_first():
            print(s)
            sys.stdout.flush()

    def rank0_info(self, s):
        """A line in the log, by worker 0."""
        if self._is_first():
            _log.info(s)

    def rank0_error(self, s):
        """An error in the log, by worker 0."""
        if self._is_first():
            _log.error(s)

    def set_zero(self, var_name, scope=None, place=None, param_type="int64"):
        """A variable of the scope, all zero: statistics begin anew."""
        param = (scope or tensor.global_scope()).var(var_name).get_tensor()
        param.set(np.zeros(param.shape(), param_type), place)

    def get_global_auc(self, scope=None, stat_pos="_generated_var_2",
                       stat_neg="_generated_var_3"):
        """The AUC of the histograms of all workers."""
        scope = scope or tensor.global_scope()
        if scope.find_var(stat_pos) is None or \
                scope.find_var(stat_neg) is None:
            self.rank0_print("not found auc bucket")
            return None
        return metrics.auc(stat_pos, stat_neg, scope)

    def print_global_auc(self, scope=None, stat_pos="_generated_var_2",
                         stat_neg="_generated_var_3", print_prefix=""):
        """Prints the AUC of all workers."""
        value = self.get_global_auc(scope, stat_pos, stat_neg)
        self.rank0_print(f"{print_prefix} global auc = {value}")

    @staticmethod
    def _fleet():
        if Fleet._last is None:
            raise RuntimeError("FleetUtil: call fleet.init() first")
        return Fleet._last

    def save_fleet_model(self, path, mode=0):
        """All that the job has; mode 1: what changed since the last time."""
        self._fleet()._save(path, mode)

    def load_fleet_model(self, path, mode=0):
        """Brings a saved model to the servers."""
        self._fleet().load_model(path)

    def save_model(self, output_path, day, pass_id):
        """Saves the model of a day and a pass."""
        self.save_fleet_model(_of(output_path, day, pass_id))

    def save_batch_model(self, output_path, day):
        """Saves the model of a day."""
        self.save_fleet_model(_of(output_path, day, 0))

    def save_delta_model(self, output_path, day, pass_id):
        """Saves what changed, of a day and a pass."""
        self.save_fleet_model(_of(output_path, day, f"delta-{pass_id}"), 1)

    def load_model(self, output_path, day, pass_id):
        """Brings the model of a day and a pass to the servers."""
        self.load_fleet_model(_of(output_path, day, pass_id))

    def get_online_pass_interval(self, days, hours, split_interval,
                                 split_per_pass, is_data_hourly_placed):
        """The names of the parts of a day's data, pass by pass."""
        hours = _hours(hours)
        split_interval, split_per_pass = int(split_interval), \
            int(split_per_pass)
        per_day = 24 * 60 // split_interval
        parts = []
        for i in range(per_day):
            hour, minute = divmod(i * split_interval, 60)
            if hours[0] <= hour <= hours[-1]:
                parts.append(f"{hour:02d}" if is_data_hourly_placed
                             else f"{hour:02d}{minute:02d}")
        n = per_day // split_per_pass
        found = [parts[i * split_per_pass:(i + 1) * split_per_pass]
                 for i in range(n)]
        return [p for p in found if p]


def _hours(words):
    """"{0..23}" or "0 1 2" as numbers."""
    text = words.strip("{} ")
    if ".." in text:
        first, last = (int(h) for h in text.split(".."))
        return list(range(first, last + 1))
    return [int(h) for h in text.split()]


def _of(root, day, pass_id):
    return f"{str(root).rstrip('/')}/{day}/{pass_id}/"


def check_all_trainers_ready(ready_path, epoch):
    """Waits for all workers, where the job itself is the meeting place."""
    if Fleet._last is not None and Fleet._last._main is not None:
        Fleet._last.barrier_worker()
