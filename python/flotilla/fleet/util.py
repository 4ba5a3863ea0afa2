"""What workers find out together."""
import numpy as np

from .. import _core

_KINDS = {"sum": 0, "min": 1, "max": 2}


def part_of(files, i, n):
    """Part i of n of a list: in one piece, sizes differ by at most one."""
    at = i * (len(files) // n) + min(i, len(files) % n)
    return files[at:at + len(files) // n + (1 if i < len(files) % n else 0)]


class Util:
    """fleet.util: every worker calls the same, with as many numbers."""

    def __init__(self, owner):
        self._fleet = owner

    def barrier(self, comm_world="worker"):
        self._fleet.barrier_worker()

    def all_reduce(self, input, mode="sum", comm_world="worker"):
        if mode not in _KINDS:
            raise ValueError(f"all_reduce: there is no mode {mode!r}; there "
                             f"are {', '.join(_KINDS)}")
        array = np.asarray(input, dtype="float64")
        found = _core.fleet_reduce(self._fleet._ready(), _KINDS[mode],
                                   array.reshape(-1).tolist())
        return np.asarray(found).reshape(array.shape)

    def all_gather(self, input, comm_world="worker"):
        return _core.fleet_gather(self._fleet._ready(), float(input))

    def get_file_shard(self, files):
        return self._fleet.split_files(files)

    def print_on_rank(self, message, rank_id):
        if self._fleet.worker_index() == rank_id:
            print(message, flush=True)
