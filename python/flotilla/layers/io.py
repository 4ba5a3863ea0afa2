"""What is fed, and readers that feed it."""
from .. import ir, names, types
from ..data import read
from ..data.batches import BatchQueue
from ..data.feeder import batch_of


def data(name, shape, append_batch_size=True, dtype="float32", lod_level=0,
         type=None, stop_gradient=True):
    """An input of the program; its first dimension is the batch unless
    append_batch_size is false or the shape has an open one."""
    if isinstance(append_batch_size, str):
        raise TypeError(f"data {name}: append_batch_size is True or False, "
                        f"not {append_batch_size!r}; a type is named: "
                        f"dtype={append_batch_size!r}")
    shape = list(shape)
    for i, n in enumerate(shape):
        if n is None:
            shape[i] = -1
        if shape[i] < 0:
            append_batch_size = False
    if append_batch_size:
        shape = [-1] + shape
    return ir.default_main_program().global_block().create_var(
        name=name, shape=shape, dtype=dtype, lod_level=lod_level,
        stop_gradient=stop_gradient, is_data=True)


class PyReaderVar(read.ReaderVar):
    """The reader of layers.py_reader: read_file gives its batch, start() and
    reset() begin and end a pass."""

    def __init__(self, block, name, queue, slots):
        super().__init__(block, name, queue)
        self.queue, self._slots = queue, slots
        self.tensor_provider = None
        self.exited = False

    @property
    def thread(self):
        """The one that fills the queue; None before start()."""
        return self.queue._threads[0] if self.queue._threads else None

    def decorate_tensor_provider(self, func):
        """func() gives batches: a tensor for each slot."""
        self.tensor_provider = func

    decorate_batch_generator = decorate_tensor_provider

    def decorate_paddle_reader(self, reader):
        """reader() gives batches as lists of rows."""
        self.tensor_provider = lambda: (batch_of(self._slots, rows)
                                        for rows in reader())

    decorate_sample_list_generator = decorate_paddle_reader

    def start(self):
        if self.tensor_provider is None:
            raise AssertionError(f"reader {self.name} has no data: a decorate_"
                                 "method says where it comes from")
        self.queue.fill(lambda: map(read.ready, self.tensor_provider()))

    def reset(self):
        self.queue.reset()


def _py_reader(capacity, slots, name, use_double_buffer):
    queue_name, reader_name, ahead_name = read.reader_names(name)
    queue = BatchQueue(capacity, f"reader {reader_name}")
    startup = ir.default_startup_program().current_block()
    read.create_reader(startup, queue_name, reader_name, queue, slots)
    main = ir.default_main_program().current_block()
    if not use_double_buffer:
        return PyReaderVar(main, reader_name, queue, slots)
    return read.append_double_buffer(
        read.ReaderVar(main, reader_name, queue),
        PyReaderVar(main, ahead_name, queue, slots))


def py_reader(capacity, shapes, dtypes, lod_levels=None, name=None,
              use_double_buffer=True):
    """A reader of batches whose tensors have these shapes and types."""
    slots = [read.Slot(list(shape), types.var_type(dtype), level)
             for shape, dtype, level in zip(shapes, dtypes, lod_levels or
                                            [0] * len(shapes))]
    return _py_reader(capacity, slots, name, use_double_buffer)


def create_py_reader_by_data(capacity, feed_list, name=None,
                             use_double_buffer=True):
    """A reader of batches for these variables."""
    if not isinstance(feed_list, list):
        raise TypeError("feed_list should be a list of Variable instead of "
                        f"{type(feed_list)}")
    return _py_reader(capacity, read.slots_of(feed_list), name,
                      use_double_buffer)


def double_buffer(reader, place=None, name=None):
    """A reader that reads ahead of a run, as they all do."""
    ahead = PyReaderVar(ir.default_main_program().current_block(),
                        name or names.generate("create_double_buffer_reader"),
                        reader.queue, reader._slots)
    ahead.tensor_provider = reader.tensor_provider
    return read.append_double_buffer(reader, ahead, place)


def read_file(reader):
    """The batch of a reader: a variable, or a list of them."""
    block = ir.default_main_program().current_block()
    prefix = names.generate("read_file")
    outs = [block.create_var(name=names.generate(f"{prefix}.tmp"),
                             shape=slot.shape, dtype=slot.dtype,
                             lod_level=slot.lod_level, is_data=True,
                             stop_gradient=True)
            for slot in reader._slots]
    read.append_read(reader, outs)
    return outs[0] if len(outs) == 1 else outs
