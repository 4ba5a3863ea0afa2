"""Fluid's names for prediction: configs, tensors with a buffer, predictors that
take a list of them or are filled input by input."""
import enum
import logging

import numpy as np

from . import fluid
from .predict import Predictor
from .tensor import LoDTensor


class PaddleDType(enum.IntEnum):
    FLOAT32 = 0
    INT64 = 1
    INT32 = 2


class PaddlePlace(enum.IntEnum):
    UNK = -1
    CPU = 0
    GPU = 1


_TYPES = {PaddleDType.FLOAT32: "float32", PaddleDType.INT64: "int64",
          PaddleDType.INT32: "int32"}
_BY_NAME = {name: kind for kind, name in _TYPES.items()}


class PaddleBuf:
    """Numbers in a row."""

    def __init__(self, data=()):
        self.reset(data)

    def reset(self, data):
        """Takes other numbers."""
        self._array = np.ascontiguousarray(data)

    def empty(self):
        """Whether it holds nothing."""
        return self._array.size == 0

    def length(self):
        """In bytes."""
        return self._array.nbytes

    def tolist(self, dtype="float32"):
        """Its numbers as a list."""
        return self._array.reshape(-1).astype(dtype).tolist()

    def float_data(self):
        """Its numbers as floats."""
        return self.tolist("float32")

    def int64_data(self):
        """Its numbers as int64."""
        return self.tolist("int64")

    def int32_data(self):
        """Its numbers as int32."""
        return self.tolist("int32")


class PaddleTensor:
    """An input or an output: a name, a shape, numbers and offsets."""

    def __init__(self, data=None, name=""):
        self.name, self.lod = name, []
        self.data = PaddleBuf(() if data is None else data)
        self.shape = list(self.data._array.shape)
        self.dtype = _BY_NAME.get(self.data._array.dtype.name,
                                  PaddleDType.FLOAT32)

    def as_ndarray(self):
        """Its numbers as an array."""
        array = self.data._array.reshape(self.shape)
        return array.astype(_TYPES[self.dtype], copy=False)

    def _fed(self, takes_lod):
        t = LoDTensor()
        t.set(self.as_ndarray())
        if self.lod and takes_lod:
            t.set_lod(self.lod)
        return t


def _paddle_tensor(name, value):
    found = PaddleTensor(np.asarray(value), name)
    found.lod = value.lod()
    return found


class ZeroCopyTensor:
    """An input that is filled before zero_copy_run, or an output after it."""

    def __init__(self, name, values):
        self._name, self._values = name, values

    def _value(self):
        return self._values.setdefault(self._name, LoDTensor())

    def copy_from_cpu(self, array):
        """Takes the numbers of an array."""
        self._value().set(array)

    def copy_to_cpu(self):
        """Its numbers as an array."""
        return np.array(self._value())

    def reshape(self, shape):
        """The shape that it is going to have."""
        value = self._value()
        if value._is_initialized():
            value.set(np.asarray(value).reshape(shape))

    def shape(self):
        """Its shape."""
        return self._value().shape()

    def set_lod(self, lod):
        """Takes offsets."""
        self._value().set_lod(lod)

    def lod(self):
        """Its offsets."""
        return self._value().lod()


class NativeConfig:
    """Where a model is."""

    def __init__(self):
        self.model_dir = self.prog_file = self.param_file = ""
        self.use_gpu = False
        self.device = 0
        self.fraction_of_gpu_memory = 0.0
        self.specify_input_name = False
        self._optimize = False

    def _files(self):
        """(folder, file of the program, file of the variables)."""
        return _files(self.model_dir, self.prog_file, self.param_file)


def _files(folder, program, params):
    if folder:
        return folder, None, None
    if not program:
        raise ValueError("a config names a model by its folder, or by the "
                         "files of its program and its variables")
    place, _, name = program.rpartition("/")
    return place or ".", name, params.rpartition("/")[2]


class AnalysisConfig:
    """A model and how its scores are computed, with switches. What changes
    speed alone may be set; what would need another engine says that it is not
    here."""

    class Precision(enum.IntEnum):
        Float32 = 0
        Int8 = 1
        Half = 2

    _SPEED = ("enable_memory_optim", "disable_glog_info", "enable_mkldnn",
              "set_cpu_math_library_num_threads", "set_optim_cache_dir",
              "switch_use_feed_fetch_ops", "set_mkldnn_cache_capacity",
              "disable_gpu", "switch_ir_debug")

    def __init__(self, *paths):
        self._paths = ("", "", "")
        self._optimize = True
        self.specify_input_name = False
        if paths:
            self.set_model(*paths)

    def set_model(self, model_dir, params_file=None):
        """A folder, or the files of the program and the variables."""
        self._paths = ((model_dir, "", "") if params_file is None else
                       ("", model_dir, params_file))

    def set_prog_file(self, path):
        """Names the file of the program."""
        self._paths = ("", path, self._paths[2])

    def set_params_file(self, path):
        """Names the file of the values."""
        self._paths = ("", self._paths[1], path)

    def model_dir(self):
        """The folder of the model."""
        return self._paths[0]

    def prog_file(self):
        """The file of the program."""
        return self._paths[1]

    def params_file(self):
        """The file of the values."""
        return self._paths[2]

    def _files(self):
        return _files(*self._paths)

    def switch_ir_optim(self, x=True):
        """Whether to optimise the program."""
        self._optimize = bool(x)

    def ir_optim(self):
        """Whether the program is optimised."""
        return self._optimize

    def switch_specify_input_names(self, x=True):
        """Whether inputs are told by their names, not their order."""
        self.specify_input_name = bool(x)

    def use_gpu(self):
        """Whether a GPU is used: no."""
        return False

    def enable_use_gpu(self, memory_pool_init_size_mb=100, device_id=0):
        """Says that there is no GPU, and computes on the CPU."""
        fluid._on_cpu("AnalysisConfig.enable_use_gpu")

    def enable_profile(self):
        """Says that a predictor keeps no profile, and what does."""
        logging.getLogger("flotilla").warning(
            "AnalysisConfig.enable_profile: predictors keep no profile; "
            "fluid.profiler measures an Executor that runs the model")

    def __getattr__(self, name):
        if name in self._SPEED:
            return lambda *args, **kwargs: None
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(f"AnalysisConfig.{name}: predictions are "
                                  "made by one engine here, on the CPU")


class PaddlePredictor:
    """A predictor that takes a list of tensors, in the order of the inputs or
    by their names."""

    def __init__(self, predictor, by_name=False):
        self._predictor, self._by_name = predictor, by_name
        self._fed, self._found = {}, {}

    def get_input_names(self):
        """Names of what the model takes."""
        return [v.name for v in self._predictor.inputs]

    def get_output_names(self):
        """Names of what the model gives."""
        return [v.name for v in self._predictor.outputs]

    def get_input_tensor_shape(self):
        """Shapes of what the model takes, by name."""
        return {v.name: list(v.shape) for v in self._predictor.inputs}

    def run(self, inputs):
        """What the model gives for a list of tensors."""
        known = {v.name: v for v in self._predictor.inputs}
        names = ([t.name for t in inputs] if self._by_name
                 else self.get_input_names())
        if len(inputs) != len(known) or set(names) != set(known):
            raise ValueError(f"{len(inputs)} tensors for the inputs "
                             f"{', '.join(known)}")
        feed = {name: t._fed(known[name].lod_level)
                for name, t in zip(names, inputs)}
        found = self._predictor.run(feed, return_numpy=False)
        return [_paddle_tensor(name, value)
                for name, value in zip(self.get_output_names(), found)]

    def get_input_tensor(self, name):
        """The tensor of an input, to be filled."""
        return ZeroCopyTensor(name, self._fed)

    def get_output_tensor(self, name):
        """The tensor of an output of the last run."""
        return ZeroCopyTensor(name, self._found)

    def zero_copy_run(self):
        """Runs on what the tensors of the inputs hold."""
        found = self._predictor.run(self._fed, return_numpy=False)
        self._found.update(zip(self.get_output_names(), found))

    def clone(self):
        """One for another thread, of the same model."""
        return PaddlePredictor(self._predictor.clone(), self._by_name)


def create_paddle_predictor(config):
    """A predictor for the model that a config names."""
    folder, program, params = config._files()
    if getattr(config, "use_gpu", None) is True:
        fluid._on_cpu("NativeConfig.use_gpu")
    return PaddlePredictor(
        Predictor(folder, optimize=config._optimize, model_filename=program,
                  params_filename=params), config.specify_input_name)
