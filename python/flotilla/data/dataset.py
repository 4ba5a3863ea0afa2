"""Data sets: files that the library reads, in threads of its own."""
import inspect

from .. import _core, ir, near, refuse, tensor
from ..types import VarType
from . import pipe
from .feed_desc import to_text

_LOAD, _PRELOAD, _WAIT, _SHUFFLE, _GLOBAL_SHUFFLE, _RELEASE = range(6)


class DatasetFactory:
    """Makes data sets by their names."""

    def create_dataset(self, datafeed_class="QueueDataset"):
        """QueueDataset or InMemoryDataset."""
        kinds = {c.__name__: c for c in (QueueDataset, InMemoryDataset,
                                         FileInstantDataset)}
        if datafeed_class not in kinds:
            raise ValueError(f"datafeed class {datafeed_class} does not exist; "
                             f"there are {', '.join(kinds)}")
        return kinds[datafeed_class]()


# Fluid's words for what slots hold.
_SLOT_TYPES = {VarType.FP32: "float", VarType.INT64: "uint64"}


def _slot(var):
    """How a variable's slot is described."""
    if var.dtype not in _SLOT_TYPES:
        raise ValueError("Currently, fluid.dataset only supports dtype=float32"
                         f" and dtype=int64; {var.name} is {var.dtype.name}")
    found = [("name", f'"{var.name}"'),
             ("type", f'"{_SLOT_TYPES[var.dtype]}"')]
    if not var.lod_level:
        found.append(("is_dense", "true"))
    found.append(("is_used", "true"))
    if not var.lod_level:
        found += [("shape", str(n)) for n in var.shape]
    return found


class DatasetBase:
    """Files of records, and how they are read."""

    _kind = "QueueDataset"
    _feed = "MultiSlotDataFeed"

    def __init__(self):
        self._handle = _core.dataset_new(ir.ctx, self._kind)
        self.thread_num = 1
        self.filelist = []
        self._slots = []
        self._batch_size = 32
        self._pipe_command = "cat"
        self._fetch = None  # what gives a file of another system
        self.parse_ins_id = self.parse_content = False

    def init(self, batch_size=1, thread_num=1, use_var=(), pipe_command="cat",
             input_type=0, fs_name="", fs_ugi="", download_cmd="cat"):
        """All settings at once, as 2.x has them."""
        self.update_settings(batch_size=batch_size, thread_num=thread_num,
                             use_var=use_var, pipe_command=pipe_command,
                             input_type=input_type, fs_name=fs_name,
                             fs_ugi=fs_ugi, download_cmd=download_cmd)

    def update_settings(self, **settings):
        """Some of the settings of init()."""
        known = inspect.signature(self.init).parameters
        for name in settings:
            if name not in known:
                raise TypeError(f"update_settings: {name} is no setting"
                                f"{near.hint(name, known)}")
        if settings.get("input_type"):
            raise NotImplementedError("Dataset.init(input_type=1): a line is a "
                                      "record here, not a batch")
        if settings.get("fs_name") or settings.get("fs_ugi"):
            self.set_hdfs_config(settings.get("fs_name", ""),
                                 settings.get("fs_ugi", ""))
        if settings.get("download_cmd", "cat") != "cat":
            self.set_download_cmd(settings["download_cmd"])
        for name, put in (("batch_size", self.set_batch_size),
                          ("thread_num", self.set_thread),
                          ("pipe_command", self.set_pipe_command)):
            if name in settings:
                put(settings[name])
        if settings.get("use_var"):
            self.set_use_var(settings["use_var"])

    def set_pipe_command(self, pipe_command):
        """The command that each file goes through."""
        self._pipe_command = pipe_command
        self._set_pipe()

    def _set_pipe(self):
        """Ids and contents before the slots of a line, each a 1 and a word,
        are cut off; nothing here uses them."""
        _core.dataset_text(self._handle, "pipe_command", pipe.command(
            self._pipe_command, self.filelist, self._fetch or "hadoop fs -cat",
            2 * (self.parse_ins_id + self.parse_content)))

    def desc(self):
        """The description of the feed, as PaddlePaddle writes it."""
        slots = [("slots", slot) for slot in self._slots]
        return to_text([("name", f'"{self._feed}"'),
                        ("batch_size", str(self._batch_size)),
                        ("multi_slot_desc", slots),
                        ("pipe_command", f'"{self._pipe_command}"')])

    def set_batch_size(self, batch_size):
        """How many records a batch has."""
        self._batch_size = batch_size
        _core.dataset_number(self._handle, "batch_size", batch_size)

    def set_thread(self, thread_num):
        """How many threads read."""
        self.thread_num = thread_num
        _core.dataset_number(self._handle, "thread", thread_num)

    def set_filelist(self, filelist):
        """The files that are read; those of HDFS (hdfs:, afs:) by the command
        that set_hdfs_config or set_download_cmd says."""
        self.filelist = list(filelist)
        files = self.filelist
        if any(map(pipe.is_remote, files)):
            files = list(map(pipe.stand_in, files))
        _core.dataset_files(self._handle, files)
        self._set_pipe()

    def set_use_var(self, var_list=None):
        """The variables that a record fills, in its order; without a list all
        that the default program feeds."""
        if var_list is None:
            block = ir.default_main_program().global_block()
            var_list = [v for v in block.vars.values() if v.is_data]
            if not var_list:
                raise ValueError("set_use_var: no list is given, and the "
                                 "default program feeds nothing; data() makes "
                                 "a variable that is fed")
        self._slots = [_slot(v) for v in var_list]
        _core.dataset_vars(self._handle, var_list[0].block.program._handle,
                           [v.name for v in var_list])

    def set_format(self, spec):
        """How lines are read; multislot unless said."""
        _core.dataset_text(self._handle, "format", spec)

    def set_options(self, options):
        """More options of the format: split=0-80,key=user, for example."""
        _core.dataset_text(self._handle, "options", options)

    def set_hdfs_config(self, fs_name, fs_ugi):
        """The file system that files of HDFS are fetched from, and as whom, by
        `hadoop fs`."""
        self._fetch = pipe.hadoop(fs_name, fs_ugi)
        self._set_pipe()

    def set_download_cmd(self, download_cmd):
        """The command that gives a file of HDFS; its path is put behind it."""
        self._fetch = download_cmd
        self._set_pipe()

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


# Of engines that are not here, or of others' record formats.
_REFUSED = {
    "set_rank_offset": "records have no ranks",
    "set_pv_batch_size": "records are not joined by page views",
    "set_enable_pv_merge": "records are not joined by page views",
    "get_pv_data_size": "records are not joined by page views",
    "preprocess_instance": "records are not joined by page views",
    "postprocess_instance": "records are not joined by page views",
    "set_current_phase": "records are not joined by page views",
    "set_parse_logkey": "records have no log keys",
    "set_merge_by_sid": "records have no log keys",
    "set_merge_by_lineid": "records are not joined by their ids",
    "set_generate_unique_feasigns": "servers know the rows that they have",
    "generate_local_tables_unlock": "servers know the rows that they have",
    "set_feed_type": "set_format says how lines are read",
}


refuse.add(DatasetBase, "Dataset", _REFUSED)


class QueueDataset(DatasetBase):
    """Files stream through."""

    def local_shuffle(self):
        """Refuses: records that pass by are not shuffled."""
        raise NotImplementedError("QueueDataset does not support local "
                                  "shuffle, please use InMemoryDataset for "
                                  "local_shuffle")

    def global_shuffle(self, fleet=None, thread_num=1):
        """Refuses: records that pass by are not shuffled."""
        raise NotImplementedError("QueueDataset does not support global "
                                  "shuffle, please use InMemoryDataset for "
                                  "global_shuffle")


class FileInstantDataset(QueueDataset):
    """Files that stream through, read when they are needed."""

    _feed = "MultiSlotFileInstantDataFeed"


class InMemoryDataset(DatasetBase):
    """Records that are kept in memory, and shuffled there."""

    _kind = "InMemoryDataset"
    _feed = "MultiSlotInMemoryDataFeed"

    def __init__(self):
        super().__init__()
        self.queue_num = None
        self.fea_eval = False
        self.fleet_send_batch_size = None
        self.fleet_send_sleep_seconds = None

    def set_parse_ins_id(self, parse_ins_id):
        """Whether lines begin with an id: a 1 and a word."""
        self.parse_ins_id = bool(parse_ins_id)
        self._set_pipe()

    def set_parse_content(self, parse_content):
        """Whether a 1 and a word of content come next."""
        self.parse_content = bool(parse_content)
        self._set_pipe()

    def set_fea_eval(self, record_candidate_size, fea_eval=True):
        """slots_shuffle may follow; every record is a candidate."""
        self.fea_eval = bool(fea_eval)

    def set_queue_num(self, queue_num):
        """Speed alone: there are as many queues as threads that train."""
        self.queue_num = queue_num

    def set_fleet_send_batch_size(self, fleet_send_batch_size=1024):
        """Speed alone: a global shuffle sends what fits."""
        self.fleet_send_batch_size = fleet_send_batch_size

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds=0):
        """Speed alone: a global shuffle does not sleep."""
        self.fleet_send_sleep_seconds = fleet_send_sleep_seconds

    def load_into_memory(self):
        """Reads all files."""
        _core.dataset_do(self._handle, _LOAD, 0)

    def preload_into_memory(self, thread_num=None):
        """Begins to read all files, in the background."""
        _core.dataset_do(self._handle, _PRELOAD, thread_num or self.thread_num)

    def wait_preload_done(self):
        """Waits until what preload_into_memory began is there."""
        _core.dataset_do(self._handle, _WAIT, 0)

    def local_shuffle(self):
        """Shuffles the records of this process."""
        _core.dataset_do(self._handle, _SHUFFLE, 0)

    def global_shuffle(self, fleet=None, thread_num=12):
        """Deals the records of all processes over them anew."""
        _core.dataset_do(self._handle, _GLOBAL_SHUFFLE, thread_num)

    def slots_shuffle(self, slots):
        """Shuffles the values of some slots among the records."""
        _core.dataset_slots_shuffle(self._handle, list(slots))

    def release_memory(self):
        """Forgets the records."""
        _core.dataset_do(self._handle, _RELEASE, 0)

    def get_memory_data_size(self, fleet=None):
        """How many records are in memory, of this process or of all."""
        return self._size(0, fleet)

    def get_shuffle_data_size(self, fleet=None):
        """How many records are here after shuffling, of this process or of
        all."""
        return self._size(1, fleet)

    def _size(self, which, fleet):
        """Of this process, or of all workers of a fleet."""
        mine = [_core.dataset_sizes(self._handle)[which]]
        if fleet is None:
            return mine[0]
        total = [0]
        fleet._role_maker.all_reduce_worker(mine, total)
        return total[0]
