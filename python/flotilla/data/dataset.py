"""Data sets: files that the library reads, in threads of its own."""
from .. import _core, ir, tensor

_LOAD, _PRELOAD, _WAIT, _SHUFFLE, _GLOBAL_SHUFFLE, _RELEASE = range(6)


class DatasetFactory:
    def create_dataset(self, datafeed_class="QueueDataset"):
        kinds = {c.__name__: c for c in (QueueDataset, InMemoryDataset)}
        if datafeed_class not in kinds:
            raise ValueError(f"datafeed class {datafeed_class} does not exist; "
                             f"there are {', '.join(kinds)}")
        return kinds[datafeed_class]()


class DatasetBase:
    def __init__(self):
        self._handle = _core.dataset_new(ir.ctx, type(self).__name__)
        self.thread_num = 1
        self.filelist = []
        self._names = []
        self._batch_size = 32

    def set_pipe_command(self, pipe_command):
        _core.dataset_text(self._handle, "pipe_command", pipe_command)

    def set_batch_size(self, batch_size):
        self._batch_size = batch_size
        _core.dataset_number(self._handle, "batch_size", batch_size)

    def set_thread(self, thread_num):
        self.thread_num = thread_num
        _core.dataset_number(self._handle, "thread", thread_num)

    def set_filelist(self, filelist):
        self.filelist = list(filelist)
        _core.dataset_files(self._handle, self.filelist)

    def set_use_var(self, var_list):
        self._names = [v.name for v in var_list]
        _core.dataset_vars(self._handle, var_list[0].block.program._handle,
                           self._names)

    def set_format(self, spec):
        """How lines are read; multislot unless said."""
        _core.dataset_text(self._handle, "format", spec)

    def set_hdfs_config(self, fs_name, fs_ugi):
        raise NotImplementedError(
            "set_hdfs_config: files of HDFS come through set_pipe_command or "
            "the setting fs_get")

    def _batches(self):
        """Every batch of a pass, as feeds."""
        _core.dataset_begin(self._handle)
        try:
            while True:
                found = _core.dataset_next(self._handle)
                if found is None:
                    return
                yield found
        finally:
            _core.dataset_end(self._handle)

    def _feeds(self, n, drop_last):
        """Lists of n feeds; with drop_last of whole batches alone. Batches
        that are too few for a list are left."""
        found = []
        for rows, feeds in self._batches():
            if drop_last and rows < self._batch_size:
                continue
            found.append({name: tensor.as_value(t)
                          for name, t in feeds.items()})
            if len(found) == n:
                yield found
                found = []


class QueueDataset(DatasetBase):
    """Files stream through."""

    def local_shuffle(self):
        raise NotImplementedError("QueueDataset does not support local "
                                  "shuffle, please use InMemoryDataset for "
                                  "local_shuffle")

    def global_shuffle(self, fleet=None, thread_num=1):
        raise NotImplementedError("QueueDataset does not support global "
                                  "shuffle, please use InMemoryDataset for "
                                  "global_shuffle")


class InMemoryDataset(DatasetBase):
    def load_into_memory(self):
        _core.dataset_do(self._handle, _LOAD, 0)

    def preload_into_memory(self, thread_num=None):
        _core.dataset_do(self._handle, _PRELOAD, thread_num or self.thread_num)

    def wait_preload_done(self):
        _core.dataset_do(self._handle, _WAIT, 0)

    def local_shuffle(self):
        _core.dataset_do(self._handle, _SHUFFLE, 0)

    def global_shuffle(self, fleet=None, thread_num=12):
        _core.dataset_do(self._handle, _GLOBAL_SHUFFLE, thread_num)

    def slots_shuffle(self, slots):
        _core.dataset_slots_shuffle(self._handle, list(slots))

    def release_memory(self):
        _core.dataset_do(self._handle, _RELEASE, 0)

    def get_memory_data_size(self, fleet=None):
        return _core.dataset_sizes(self._handle)[0]

    def get_shuffle_data_size(self, fleet=None):
        return _core.dataset_sizes(self._handle)[1]
