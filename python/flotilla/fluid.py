"""What Fluid has and flotilla has otherwise: places of GPUs, the module core,
one operator run by itself."""
import logging
import os

from . import _core, ir, tensor
from .types import AttrType, VarType

EnforceNotMet = _core.Error
_said = set()


def _on_cpu(what):
    if what not in _said:
        _said.add(what)
        logging.getLogger("flotilla").warning(
            "%s: there is no GPU here; computing on the CPU", what)


class CUDAPlace(tensor.CPUPlace):
    def __init__(self, device_id=0):
        _on_cpu("CUDAPlace")


class CUDAPinnedPlace(tensor.CPUPlace):
    def __init__(self):
        _on_cpu("CUDAPinnedPlace")


class Place(tensor.CPUPlace):
    """Any place, which is the CPU."""

    def set_place(self, place):
        if not isinstance(place, tensor.CPUPlace):
            raise TypeError(f"a place is wanted, not {type(place)}")


def cuda_places(device_ids=None):
    return [CUDAPlace(i) for i in device_ids or [0]]


def cpu_places(device_count=None):
    """As many as asked for, or as CPU_NUM says now, or the setting cpu_num."""
    n = (device_count or os.environ.get("CPU_NUM") or
         _core.ctx_get(ir.ctx, "cpu_num"))
    return [tensor.CPUPlace() for _ in range(int(n))]


def is_compiled_with_cuda():
    return False


def in_dygraph_mode():
    return False


def enable_static():
    """Programs are the only mode."""


def get_cuda_device_count():
    return 0


def op_support_gpu(op_type):
    return False


def is_compiled_with_mkldnn():
    return False


def is_compiled_with_brpc():
    return False


def is_compiled_with_dist():
    return True


def has_avx_core():
    return True


def cuda_pinned_places(device_count=None):
    return [CUDAPinnedPlace() for _ in range(device_count or 1)]


class VarDesc:
    VarType = VarType


class OpProtoHolder:
    """Operators by name, as the original's tests ask for them."""

    _instance = None

    @classmethod
    def instance(cls):
        cls._instance = cls._instance or cls()
        return cls._instance

    def get_op_proto(self, kind):
        return _OpProto(ir.operator_view(kind))


class _Named:
    def __init__(self, name, **fields):
        self.name = name
        self.__dict__.update(fields)


class _OpProto:
    def __init__(self, view):
        self.type = view["name"]
        self.comment = view["doc"]
        self.inputs = [self._slot(s) for s in view["inputs"]]
        self.outputs = [self._slot(s) for s in view["outputs"]]
        self.attrs = [_Named(n) for n, _, _ in view["attrs"]]

    @staticmethod
    def _slot(s):
        return _Named(s["name"], duplicable=s["is_list"],
                      dispensable=s["is_optional"], intermediate=False)


class OneOperator:
    """Operator("sgd", Param="p", ...).run(scope, place): a program of one
    operator over values of a scope."""

    def __init__(self, kind, **given):
        view = ir.operator_view(kind)
        ins = {s["name"] for s in view["inputs"]}
        outs = {s["name"] for s in view["outputs"]}
        self._kind = kind
        self._inputs = {k: v for k, v in given.items() if k in ins}
        self._outputs = {k: v for k, v in given.items() if k in outs}
        self._attrs = {k: v for k, v in given.items()
                       if k not in ins and k not in outs}

    def run(self, scope, place=None):
        """Runs it. Rows that it writes over are written beside them first,
        since there may be more or less of them afterwards."""
        from .executor import Executor
        program = ir.Program()
        block = program.global_block()
        for name in _flat(self._inputs):
            self._declare(block, name, scope.find_var(name))
        beside = {n: n + "@BESIDE" for n in _flat(self._outputs)
                  if block.has_var(n) and
                  block.var(n).type == VarType.SELECTED_ROWS}
        outputs = {slot: [beside.get(n, n) for n in ir.as_list(names)]
                   for slot, names in self._outputs.items()}
        block.append_op(self._kind, inputs=self._inputs, outputs=outputs,
                        attrs=self._attrs)
        for name in _flat(outputs):
            block.var(name).persistable = True
        Executor(place).run(program, scope=scope)
        for name, where in beside.items():
            scope.var(name)._write(scope.find_var(where)._core())
            scope.erase([where])

    def _declare(self, block, name, var):
        value = var._value() if var is not None else None
        if value is None:
            raise ValueError(f"operator {self._kind} reads {name}, which the "
                             "scope does not have")
        kind, like = VarType.LOD_TENSOR, value
        if isinstance(value, tensor.SelectedRows):
            kind, like = VarType.SELECTED_ROWS, value.get_tensor()
        elif isinstance(value, tensor.LoDTensorArray):
            kind, like = VarType.LOD_TENSOR_ARRAY, next(iter(value), None)
        if like is None:
            raise ValueError(f"operator {self._kind} reads {name}, an array "
                             "without values")
        ragged = kind == VarType.LOD_TENSOR
        block.create_var(name=name, shape=like.shape(), dtype=like._dtype(),
                         persistable=True, type=kind,
                         lod_level=len(like.lod()) if ragged else 0)


def _flat(slots):
    return [name for names in slots.values() for name in ir.as_list(names)]


def data(name, shape, dtype="float32", lod_level=0):
    """An input with its whole shape; None and -1 are open dimensions."""
    return ir.default_main_program().global_block().create_var(
        name=name, shape=[-1 if n is None else n for n in shape], dtype=dtype,
        lod_level=lod_level, stop_gradient=True, is_data=True,
        need_check_feed=True)
