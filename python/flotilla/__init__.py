"""Flotilla: training of sparse click-through-rate models on CPUs.

    import flotilla as fl

    x = fl.layers.data("x", [13])
    y = fl.layers.data("y", [1])
    loss = fl.layers.mean(fl.layers.square_error_cost(fl.layers.fc(x, 1), y))
    fl.optimizer.SGD(0.01).minimize(loss)
    exe = fl.Executor()
    exe.run(fl.default_startup_program())
    exe.run(feed={"x": ..., "y": ...}, fetch_list=[loss])
"""
import pkgutil

# In a tree the extension lies in the build directory.
__path__ = pkgutil.extend_path(__path__, __name__)

from . import (average, backward, clip, features, fleet, initializer, io,
               layers, metrics, names, near, nets, optimizer, profiler, record,
               regularizer)
from ._core import Error
from .attr import ParamAttr, WeightNormParamAttr
from .backward import append_backward, gradients
from .compiler import (BuildStrategy, CompiledProgram, ExecutionStrategy,
                       ParallelExecutor)
from .data.dataset import DatasetFactory, InMemoryDataset, QueueDataset
from .data.feeder import DataFeeder
from .data.loader import DataLoader, PyReader
from .executor import Executor, FetchHandler
from .judge import Judge
from .predict import Predictor
from .io import load, load_program_state, save, set_program_state
from .ir import (Operator, Parameter, Program, Variable, default_main_program,
                 default_startup_program, device_guard, name_scope,
                 program_guard)
from .fleet.transpiler import (DistributeTranspiler,
                               DistributeTranspilerConfig)
from .fluid import data
from .layers.nn import embedding_v2 as embedding
from .table import Job, Table, serve
from .tensor import (CPUPlace, LoDTensor, Scope, SelectedRows,
                     create_lod_tensor, create_random_int_lodtensor,
                     global_scope, scope_guard)
from .types import VarType

unique_name = names
__getattr__ = near.attributes_of(__name__)
