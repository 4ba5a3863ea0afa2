"""Readers of a program: operators create_py_reader, create_double_buffer_reader
and read, and the queues of batches behind them.

A run takes the next batch of each reader and feeds it; replicas take one each.
"""
import collections

from .. import ir, names
from ..tensor import LoDTensor
from ..types import VarType

# Loaders that have no name of their own number their readers through the
# process, whatever unique_name.guard says.
_names = names.UniqueNameGenerator()


class ReaderVar(ir.Variable):
    """The variable of a reader: a name for a queue, without a value."""

    def __init__(self, block, name, queue):
        super().__init__(block, name, "uint8", is_data=True,
                         stop_gradient=True)
        block._vars[name] = self
        block._declare(self, [0], "uint8")
        block.program._readers[name] = queue

    @property
    def type(self):
        return VarType.READER

    @property
    def persistable(self):
        return True


# What a tensor of a batch is.
Slot = collections.namedtuple("Slot", "shape dtype lod_level")


def slots_of(vars):
    return [Slot(list(v.shape), v.dtype, v.lod_level) for v in vars]


def _describe(slots):
    return {"shape_concat": [n for s in slots for n in s.shape],
            "lod_levels": [s.lod_level for s in slots],
            "dtypes": [int(s.dtype) for s in slots],
            "need_check_feed": [0] * len(slots),
            "ranks": [len(s.shape) for s in slots]}


def reader_names(name=None):
    """Of the queue, the reader and the one that reads ahead."""
    kinds = ("lod_tensor_blocking_queue", "create_py_reader", "double_buffer")
    if name is None:
        return tuple(map(names.generate, kinds))
    return f"{name}_queue", f"{name}_reader", f"{name}_double_buffer"


def loader_names():
    return tuple(_names(kind) for kind in ("lod_tensor_blocking_queue",
                                           "create_py_reader",
                                           "double_buffer"))


def create_reader(block, queue_name, reader_name, queue, slots):
    """Appends the operator that makes a reader of a queue."""
    ReaderVar(block, queue_name, queue)
    reader = ReaderVar(block, reader_name, queue)
    block.append_op("create_py_reader", inputs={"blocking_queue": queue_name},
                    outputs={"Out": reader}, attrs=_describe(slots))
    return reader


def append_double_buffer(reader, ahead, place=None):
    """Appends the operator that makes `ahead` of a reader."""
    attrs = {} if place is None else {"place": str(place).upper()}
    ahead.block.append_op("create_double_buffer_reader",
                          inputs={"UnderlyingReader": reader},
                          outputs={"Out": ahead}, attrs=attrs)
    return ahead


def append_read(reader, outs, **attrs):
    """Adds the operator that reads a batch: at the end, or before the first
    that takes some of it, where the reader was made behind layers."""
    for v in outs:
        v._change(is_data=True)
    block = ir.default_main_program().current_block()
    ops, written = block.ops, {v.name for v in outs}
    at = next((i for i, op in enumerate(ops)
               if written & set(op.input_arg_names)), len(ops))
    block._insert_op(at, "read", inputs={"Reader": reader},
                     outputs={"Out": outs}, attrs=attrs)


# --- runs --------------------------------------------------------------------

def _reads(program):
    """(queue, names, drop_last) of each operator read, found once for each
    version of the program."""
    version = program.version
    if program._reads is None or program._reads[0] != version:
        found = [(program._readers[op.input("Reader")[0]], op.output("Out"),
                  op.attr("drop_last"))
                 for op in program.global_block().ops if op.type == "read"]
        program._reads = (version, found)
    return program._reads[1]


def ready(batch):
    """Values of a batch as a run takes them. The thread that fills a queue
    makes them so; others push what they have."""
    return [v._fed() if isinstance(v, LoDTensor) else v for v in batch]


def next_feeds(program, feed=None, n=1):
    """What the program's readers give next, with what is fed besides: a feed
    for each of n replicas, or fewer at the end."""
    feeds = [dict(feed or {}) for _ in range(n)]
    for queue, outs, drop_last in _reads(program):
        batches = queue.take(n, drop_last)
        feeds = feeds[:len(batches)]
        for one, batch in zip(feeds, batches):
            one.update(zip(outs, ready(batch)))
    return feeds
