"""Layers: functions that add operators to the current program."""
from . import arithmetic, subscript
from ..check import checked as _checked
from .generated import layers as _generated
from .io import (create_py_reader_by_data, data, double_buffer, py_reader,
                 read_file)
from .loss import *
from .metric import accuracy, auc
from .nn import *
from .schedule import *
from .sequence import *
from .tensor import *

arithmetic.patch()
subscript.patch()
# What is written by hand comes before what follows from a descriptor.
for _name, _layer in _generated.items():
    globals().setdefault(_name, _layer)
for _name, _layer in list(globals().items()):
    if not _name.startswith("_"):
        globals()[_name] = _checked(_name, _layer)
