"""Programs, blocks, variables and operators: thin faces of the library's own.

There is no second copy of a program in Python. A face is made when somebody
asks for it, and there is one for each handle, so that block.var("x") is x.
"""
import contextlib
import itertools
import weakref

import numpy as np

from . import _core, marks, names, near, place, types
from .marks import NameScope, device_guard, name_scope
from .types import VarType

ctx = _core.ctx_new()

_ROLES = {"forward": 0, "backward": 1, "optimize": 2, "lr": 3, "rpc": 4}
# Fluid's numbers of roles, by ours.
_FLUID_ROLES = (0x0000, 0x0001, 0x0002, 0x0010, 0x0003)

# Attributes that every operator of Fluid has, and their defaults.
_EVERY_OPERATOR = {"op_role": 0, "op_role_var": [], "op_namescope": "/",
                   "op_device": ""}

_READS = ("create_py_reader", "create_double_buffer_reader", "read")

_TYPE_OF_KIND = {types.KIND_ROWS: VarType.SELECTED_ROWS,
                 types.KIND_ARRAY: VarType.LOD_TENSOR_ARRAY}
# What a loop keeps for its gradient is an array too.
_KIND_OF_TYPE = {VarType.SELECTED_ROWS: types.KIND_ROWS,
                 VarType.LOD_TENSOR_ARRAY: types.KIND_ARRAY,
                 VarType.STEP_SCOPES: types.KIND_ARRAY}

_ATTR_STRING = 3
_ATTR_BLOCK = 7

_tags = itertools.count(1)
executors = weakref.WeakSet()  # all of them: they keep plans of programs
_operators = {}


class UnknownOperator(_core.NotFoundError, ValueError):
    """No operator is called so."""


def operator_view(kind):
    """What the library says of an operator: slots and attributes."""
    view = _operators.get(kind)
    if view is None:
        try:
            view = _core.operator_look(kind[:-5] if kind.endswith("_grad")
                                       else kind)
        except _core.NotFoundError as e:
            _, _, hint = str(e).partition("; ")
            raise UnknownOperator(f'Operator "{kind}" has not been registered.'
                                  + (f" {hint}" if hint else "")) from None
        view["attr_types"] = {name: t for name, t, _ in view["attrs"]}
        _operators[kind] = view
    return view


def _name(v):
    return v.name if isinstance(v, Variable) else v


def _as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _arguments(slots, kind):
    """{slot: variable or list} as [(slot, name), ...]."""
    found = [(slot, _name(v)) for slot, vs in (slots or {}).items()
             if vs is not None for v in _as_list(vs)]
    for slot, name in found:
        if not isinstance(name, str):
            raise TypeError(f"slot {slot} of {kind} takes a Variable, not "
                            f"{type(name)}")
    return found


def _attr_value(name, kind, value):
    """Fluid's way to write an attribute in the library's."""
    if kind == _ATTR_STRING and name.endswith("dtype") and value != "":
        return types.name_of(value)
    if kind == _ATTR_BLOCK and isinstance(value, Block):
        return value.idx
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def _expect_bools(**given):
    for name, value in given.items():
        if not isinstance(value, bool):
            raise AssertionError(f"The type of {name} parameter is wrong, "
                                 f"expected bool, but received {type(value)}.")


def _expect_program(p, what):
    if not isinstance(p, Program):
        raise TypeError(f"{what} takes a Program, not {type(p)}")


def grad_var_name(name):
    """The name of a variable's gradient."""
    return name + "@GRAD"


class Operator:
    """An operator of a block."""

    def __init__(self, block, handle):
        self.block = block
        self._handle = handle

    @property
    def type(self):
        return _core.op_type(self._handle)

    @property
    def input_names(self):
        return list(_core.op_slots(self._handle, 0))

    @property
    def output_names(self):
        return list(_core.op_slots(self._handle, 1))

    def input(self, name):
        return _core.op_slots(self._handle, 0).get(name, [])

    def output(self, name):
        return _core.op_slots(self._handle, 1).get(name, [])

    @property
    def input_arg_names(self):
        return [n for ns in _core.op_slots(self._handle, 0).values()
                for n in ns if n != "@EMPTY@"]

    @property
    def output_arg_names(self):
        return [n for ns in _core.op_slots(self._handle, 1).values()
                for n in ns if n != "@EMPTY@"]

    @property
    def _extra(self):
        """Attributes that the library does not know, and the line of the
        script: kept by the program under the operator's tag."""
        return self.block.program._extra.get(_core.op_tag(self._handle), {})

    @property
    def attr_names(self):
        known = _core.op_attr_names(self._handle)
        return known + [n for n in {**_EVERY_OPERATOR, **self._extra}
                        if n not in known and n != "op_callstack"]

    def has_attr(self, name):
        return name in self.attr_names

    def attr(self, name):
        if name in self._extra:
            return self._extra[name]
        if name == "op_role":
            return _FLUID_ROLES[_core.op_role(self._handle)]
        if name in _EVERY_OPERATOR:
            return _EVERY_OPERATOR[name]
        value = _core.op_attr(self._handle, name)
        if name.endswith("dtype") and isinstance(value, str) and value:
            return types.var_type(value)
        return value

    def all_attrs(self):
        return {name: self.attr(name) for name in self.attr_names}

    def attr_type(self, name):
        """Fluid's number of the type of an attribute."""
        if name in _EVERY_OPERATOR or name in self._extra:
            return types.attr_type_of(self.attr(name))
        return types.ATTR_TYPES[operator_view(self.type)["attr_types"][name]]

    def _block_attr_id(self, name):
        return _core.op_attr(self._handle, name)

    def _block_attr(self, name):
        return self.block.program.block(self._block_attr_id(name))

    @property
    def idx(self):
        """Its place in its block."""
        return _core.block_ops(self.block._handle).index(self._handle)

    def _is_optimize_op(self):
        return bool(self.attr("op_role") & _FLUID_ROLES[_ROLES["optimize"]])

    def _set_attr(self, name, value):
        kinds = operator_view(self.type)["attr_types"]
        if name in kinds:
            value = _attr_value(name, kinds[name], value)
            _core.op_set_attr(self._handle, name, value)
        else:
            tag = _core.op_tag(self._handle)
            self.block.program._extra.setdefault(tag, {})[name] = value

    def _rename_input(self, old, new):
        self._rename(0, old, new)

    def _rename_output(self, old, new):
        self._rename(1, old, new)

    def _rename(self, side, old, new):
        _core.op_replace(self._handle, side, self.block.var(old)._handle,
                         self.block.var(new)._handle)

    def __repr__(self):
        ins = ", ".join(f"{s}={ns}" for s, ns in
                        _core.op_slots(self._handle, 0).items())
        outs = ", ".join(f"{s}={ns}" for s, ns in
                         _core.op_slots(self._handle, 1).items())
        return f"{{{outs}}} = {self.type}(inputs={{{ins}}})"

    __str__ = __repr__

    def to_string(self, throw_on_error):
        return repr(self)


class Variable:
    """A variable of a block. One that an operator is going to make has a name
    and a type; its shape is known when the operator is there."""

    def __init__(self, block, name, dtype=None, **flags):
        self.block = block
        self.error_clip = None
        self.op = None  # the last one that was added to write it
        self._declared_type = VarType.LOD_TENSOR
        self._name = name
        self._dtype = None if dtype is None else types.var_type(dtype)
        self._pending = flags
        self._known = None

    @property
    def _handle(self):
        if self._known is None:
            handle = self.block._own(self._name)
            if handle is None:
                raise ValueError(f"variable {self._name} has no value yet: no "
                                 "operator makes it")
            self._take(handle)
        return self._known

    def _take(self, handle):
        self._known = handle
        if self._pending:
            _core.var_change(handle, **self._pending)
            self._pending = {}

    def _exists(self):
        return (self._known is not None or
                self.block._own(self._name) is not None)

    def _look(self, field, default):
        if self._exists():
            return _core.var_look(self._handle)[field]
        return self._pending.get(field, default)

    def _change(self, **fields):
        if self._exists():
            _core.var_change(self._handle, **fields)
        else:
            self._pending.update(fields)

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, new):
        if self._exists():
            _core.var_rename(self._handle, new)
        self.block._renamed(self, new)
        self._name = new

    @property
    def shape(self):
        return self._look("shape", ())

    @property
    def dtype(self):
        if self._exists():
            return types.from_core(_core.var_look(self._handle)["dtype"])
        return self._dtype

    @property
    def type(self):
        if self._declared_type != VarType.LOD_TENSOR:
            return self._declared_type
        return _TYPE_OF_KIND.get(self._look("kind", types.KIND_DENSE),
                                 VarType.LOD_TENSOR)

    @property
    def lod_level(self):
        return self._look("lod_level", 0)

    @property
    def is_data(self):
        return self._look("is_data", False)

    @property
    def persistable(self):
        return self._look("persistable", False)

    @persistable.setter
    def persistable(self, value):
        self._change(persistable=bool(value))

    @property
    def stop_gradient(self):
        return self._look("stop_gradient", False)

    @stop_gradient.setter
    def stop_gradient(self, value):
        self._change(stop_gradient=bool(value))

    @property
    def grad_name(self):
        return self.name + "@GRAD"

    def astype(self, dtype):
        """The same numbers as another type."""
        out = self.block._temporary("tmp", dtype)
        self.block.append_op("cast", inputs={"X": self}, outputs={"Out": out},
                             attrs={"in_dtype": self.dtype,
                                    "out_dtype": types.var_type(dtype)})
        return out

    def __repr__(self):
        shape = ", ".join(map(str, self.shape))
        dtype = types.name_of(self.dtype) if self.dtype is not None else "?"
        return f"var {self.name} : {dtype}[{shape}]"

    def to_string(self, throw_on_error=False, with_details=False):
        _expect_bools(throw_on_error=throw_on_error, with_details=with_details)
        if not with_details:
            return repr(self)
        return (f"{self!r} persistable={self.persistable} "
                f"stop_gradient={self.stop_gradient} error_clip="
                f"{self.error_clip}")

    __str__ = __repr__

    def _set_error_clip(self, error_clip):
        self.error_clip = error_clip

    def _set_info(self, key, value):
        """What a tool wants to keep beside the variable."""
        self.__dict__.setdefault("_info", {})[key] = value

    def _get_info(self, key):
        return self.__dict__.get("_info", {}).get(key)

    def _eager(self, *args, **kwargs):
        raise NotImplementedError("there is no eager mode: a Variable has a "
                                  "value when its program runs; fetch it")

    numpy = set_value = detach = _eager
    backward = gradient = clear_gradient = _eager


class Parameter(Variable):
    """A variable that is learned."""

    def __init__(self, block, name, dtype=None, trainable=True,
                 optimize_attr=None, regularizer=None, do_model_average=None,
                 **flags):
        super().__init__(block, name, dtype, **flags)
        self.optimize_attr = optimize_attr or {"learning_rate": 1.0}
        self.regularizer = regularizer
        self.do_model_average = do_model_average
        self.is_distributed = False
        self._trainable = trainable

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = bool(value)
        self._change(frozen=not value)


class Block:
    """A list of operators over named variables."""

    def __init__(self, program, idx):
        self.program = program
        self.idx = idx
        self._handle = _core.program_block(program._handle, idx)
        self._vars = {}
        self._ops = {}

    def _become(self):
        """Its program has become another one."""
        if self.idx >= self.program.num_blocks:
            return
        self._handle = _core.program_block(self.program._handle, self.idx)
        self._ops = {}
        self._vars = {name: face for name, face in self._vars.items()
                      if self._own(name) is not None}
        for face in self._vars.values():
            face._known = None

    @property
    def parent_idx(self):
        return _core.block_parent(self._handle)

    @property
    def forward_block_idx(self):
        return -1

    backward_block_idx = forward_block_idx

    def _sync_with_cpp(self):
        """There is one program, the library's: nothing to copy."""

    def _slice_ops(self, start, end):
        return self.ops[start:end]

    def _clone_variable(self, var, force_persistable=True):
        """A variable like one of another block."""
        return self.create_var(
            name=var.name, shape=var.shape, dtype=var.dtype, type=var.type,
            lod_level=var.lod_level, is_data=var.is_data,
            persistable=force_persistable or var.persistable)

    def _copy_param_info_from(self, other):
        """What Python knows of parameters of the same names."""
        for name, face in other.vars.items():
            if isinstance(face, Parameter) and self.has_var(name):
                mine = self.var(name)
                mine.optimize_attr = face.optimize_attr
                mine.regularizer = face.regularizer
                mine.do_model_average = face.do_model_average

    # --- variables ---

    def _face(self, handle):
        name = _core.var_name(handle)
        face = self._vars.get(name)
        if face is None:
            look = _core.var_look(handle)
            kind = Parameter if look["is_parameter"] else Variable
            face = self._vars[name] = kind(self, name)
        if face._known is None:
            face._take(handle)
        return face

    def _renamed(self, v, new):
        self._vars[new] = self._vars.pop(v.name)

    def _temporary(self, key, dtype, **flags):
        """A variable that an operator is going to make."""
        name = names.generate(key)
        v = self._vars[name] = Variable(self, name, dtype, **flags)
        return v

    @property
    def vars(self):
        """{name: variable} of this block, in the order of their making."""
        made = {_core.var_name(h): self._face(h)
                for h in _core.block_vars(self._handle)}
        for name, face in self._vars.items():
            made.setdefault(name, face)
        return made

    def has_var(self, name):
        return name in self._vars or self._own(name) is not None

    def _own(self, name):
        handle = _core.block_var(self._handle, name)
        if handle is None or _core.var_block(handle) != self.idx:
            return None
        return handle

    def _find(self, name):
        """The variable of this block, or None."""
        face = self._vars.get(name)
        if face is None:
            handle = self._own(name)
            face = self._face(handle) if handle is not None else None
        return face

    def var(self, name):
        if not isinstance(name, str):
            raise TypeError(f"a name of a variable is a str, not {name!r}")
        face = self._find(name)
        if face is None:
            raise ValueError(f"var {name} not in this block"
                             f"{near.hint(name, self.vars)}")
        return face

    def _var_recursive(self, name):
        block = self
        while True:
            face = block._find(name)
            if face is not None:
                return face
            if block.parent_idx < 0:
                raise ValueError(f"Var {name} is not found recursively")
            block = self.program.block(block.parent_idx)

    def _find_var_recursive(self, name):
        try:
            return self._var_recursive(name)
        except ValueError:
            return None

    def create_var(self, name=None, shape=None, dtype=None, lod_level=None,
                   persistable=None, is_data=False, stop_gradient=False,
                   type=VarType.LOD_TENSOR, need_check_feed=False,
                   error_clip=None):
        """A variable; one whose shape is not said waits for its operator."""
        name = name or names.generate("_generated_var")
        flags = {"persistable": bool(persistable), "is_data": bool(is_data),
                 "stop_gradient": bool(stop_gradient)}
        face = self._find(name)
        if face is None:
            face = self._vars[name] = Variable(self, name, dtype, **flags)
            face._declared_type = type
        else:
            self._expect_same(face, shape, dtype, lod_level, persistable)
        face.error_clip = error_clip
        if need_check_feed:
            self.program._checked.add(name)
        kind = _KIND_OF_TYPE.get(type, types.KIND_DENSE)
        if kind == types.KIND_ARRAY:  # empty, and of any shape
            shape, dtype = (), VarType.FP32 if dtype is None else dtype
        if shape is not None and dtype is not None and not face._exists():
            self._declare(face, shape, dtype, lod_level or 0, kind)
        return face

    @staticmethod
    def _expect_same(face, shape, dtype, lod_level, persistable):
        """A variable that is there is not declared otherwise."""
        if not face._exists():
            return
        new = {"shape": None if shape is None else tuple(shape),
               "dtype": None if dtype is None else types.var_type(dtype),
               "lod_level": lod_level, "persistable": persistable}
        for field, value in new.items():
            known = getattr(face, field)
            if value is not None and value != known:
                raise ValueError(f"Variable {face.name} has been created "
                                 f"before. The previous {field} is {known}, "
                                 f"the new {field} is {value}. They are not "
                                 "matched.")

    def _declare(self, face, shape, dtype, lod_level=0,
                 kind=types.KIND_DENSE):
        if lod_level and kind == types.KIND_DENSE:
            kind = types.KIND_RAGGED
        flags, face._pending = face._pending, {}
        tag = next(_tags)
        face._take(_core.var_new(
            self._handle, face.name, dtype=types.to_core(dtype), kind=kind,
            lod_level=lod_level, shape=tuple(int(n) for n in shape), tag=tag,
            **flags))
        self.program._extra[tag] = {"op_callstack": place.caller()}

    def create_parameter(self, shape, dtype, name=None, initializer=None,
                         stop_gradient=False, **options):
        """A parameter; an initializer writes its first value here."""
        if shape is None or dtype is None or not len(shape):
            raise ValueError("a parameter needs a shape of one dimension or "
                             f"more and a type, not {shape} and {dtype}")
        if any(isinstance(n, int) and n < 0 for n in shape):
            raise ValueError("each dimension of a parameter is known and at "
                             f"least 0, not {shape}")
        name = name or names.generate("_generated_var")
        known = self._find(name)
        if known is not None and known._exists():
            if tuple(known.shape) != tuple(shape):
                raise ValueError(f"parameter {name} is there already with shape"
                                 f" {known.shape}, not {tuple(shape)}")
            return known
        lod_level = options.pop("lod_level", 0)
        options.pop("persistable", None)
        face = Parameter(self, name, dtype, is_parameter=True,
                         persistable=True, stop_gradient=stop_gradient,
                         frozen=not options.get("trainable", True), **options)
        self._vars[name] = face
        self._declare(face, shape, dtype, lod_level)
        if initializer is not None:
            initializer(face, self)
        return face

    def all_parameters(self):
        return [v for v in self.vars.values() if isinstance(v, Parameter)]

    def iter_parameters(self):
        return iter(self.all_parameters())

    def _rename_var(self, name, new_name):
        self.var(name).name = new_name
        return self.var(new_name)

    def _remove_var(self, name):
        face = self._vars.pop(name, None)
        handle = self._own(name)
        if handle is not None:
            _core.var_remove(handle)
        return face

    # --- operators ---

    def _op_face(self, handle):
        face = self._ops.get(handle)
        if face is None:
            face = self._ops[handle] = Operator(self, handle)
        return face

    @property
    def ops(self):
        found = [self._op_face(h) for h in _core.block_ops(self._handle)]
        look = self.program._listing
        return found if look is None else look(self.idx, found)

    def append_op(self, type=None, inputs=None, outputs=None, attrs=None,
                  stop_gradient=False):
        op = self._add_op(type, inputs, outputs, attrs, None)
        if stop_gradient:
            for name in op.output_arg_names:
                self._var_recursive(name).stop_gradient = True
        return op

    def _prepend_op(self, type=None, inputs=None, outputs=None, attrs=None):
        return self._insert_op(0, type, inputs, outputs, attrs)

    def _insert_op(self, index, type=None, inputs=None, outputs=None,
                   attrs=None):
        handles = _core.block_ops(self._handle)
        before = handles[index] if index < len(handles) else None
        return self._add_op(type, inputs, outputs, attrs, before)

    def _remove_op(self, index):
        handle = _core.block_ops(self._handle)[index]
        self._ops.pop(handle, None)
        _core.op_remove(handle)

    def _add_op(self, type, inputs, outputs, attrs, before):
        if type is None:
            raise ValueError("`type` to initialized an Operator can not be "
                             "None.")
        tag = next(_tags)
        attrs = dict(attrs or {})
        role = self.program._role_of(attrs)
        known, extra = self._split_attrs(type, attrs)
        ins, outs = _arguments(inputs, type), _arguments(outputs, type)
        for _, name in outs:
            self._declare_outside(name)
        extra["op_callstack"] = place.caller()
        try:
            handle = _core.op_append(self._handle, type, ins, outs, known,
                                     role, tag, before)
        except _core.Error as e:
            place.name_line(e, f"operator {type}", extra["op_callstack"])
            raise
        extra.update(marks.current(), **self.program._marks)
        self.program._extra[tag] = extra
        op = self._op_face(handle)
        for _, name in outs:
            face = self._vars.get(name)
            if face is not None:
                face.op = op
                if face._known is None:
                    face._take(_core.block_var(self._handle, name))
        return op

    def _declare_outside(self, name):
        """A variable of an outer block that this block makes is declared
        there; what it is, its operator says."""
        block = self
        while name not in block._vars and block.parent_idx >= 0:
            block = self.program.block(block.parent_idx)
        face = block._vars.get(name)
        if block is not self and face is not None and not face._exists():
            block._declare(face, (), face._dtype or VarType.FP32)

    def _split_attrs(self, type, attrs):
        """Those that the library knows, as it takes them, and the others."""
        kinds = operator_view(type)["attr_types"]
        known, extra = [], {}
        for name, value in attrs.items():
            if value is None:
                continue
            if name in kinds:
                known.append((name, kinds[name],
                              _attr_value(name, kinds[name], value)))
            else:
                extra[name] = value
        return known, extra

    def __repr__(self):
        return "\n".join(map(repr, self.ops))

    def to_string(self, throw_on_error=False, with_details=False):
        _expect_bools(throw_on_error=throw_on_error, with_details=with_details)
        return "\n".join([v.to_string(True, with_details)
                          for v in self.vars.values()] + [repr(self)])


# --- programs --------------------------------------------------------------

_seed = 0  # of programs that are made now


class _Desc:
    """What tools ask a program's description for: its text, as bytes."""

    def __init__(self, program):
        self._program = program

    def serialize_to_string(self):
        return str(self._program).encode()

    def num_blocks(self):
        return self._program.num_blocks


class Program:
    """Blocks of operators; block 0 is what runs."""

    def __init__(self, handle=None, extra=None):
        self._handle = handle or _core.program_new(ctx)
        if handle is None and _seed:
            _core.program_set_seed(self._handle, _seed)
        self._blocks = {}
        self._current = 0
        self._role = _ROLES["forward"]
        self._marks = {}  # attributes of operators that are added now
        self._extra = extra if extra is not None else {}
        self._is_distributed = False  # that of a member of a job
        self._listing = None  # what shows of its operators (fleet/listing.py)
        self._readers = {}  # queues of batches, by the reader's name
        self._reads = None  # its operators `read`, as data.read found them
        self._checked = set()  # what is fed to these is checked
        self._redeclared = {}  # copies for other feeds or updates

    def __del__(self, executors=executors):
        # Any thread may collect it: executors forget it before their next run.
        for e in executors:
            e._gone.append(_core.program_id(self._handle))

    # --- blocks ---

    @property
    def num_blocks(self):
        return _core.program_n_blocks(self._handle)

    def block(self, index):
        if not 0 <= index < self.num_blocks:
            raise IndexError(f"a program of {self.num_blocks} blocks has no "
                             f"block {index}")
        found = self._blocks.get(index)
        if found is None:
            found = self._blocks[index] = Block(self, index)
        return found

    @property
    def blocks(self):
        return [self.block(i) for i in range(self.num_blocks)]

    def global_block(self):
        return self.block(0)

    def current_block(self):
        return self.block(self._current)

    @property
    def current_block_idx(self):
        return self._current

    def _create_block(self, parent_idx=None):
        parent = self._current if parent_idx is None else parent_idx
        handle = _core.block_new(self.block(parent)._handle)
        self._current = _core.block_index(handle)
        return self.current_block()

    def _rollback(self):
        self._current = self.current_block().parent_idx

    # --- roles ---

    def _role_of(self, attrs):
        given = attrs.pop("op_role", None)
        if given is None:
            return self._role
        number = int(given) & ~0x0100  # the mark of the loss
        return _FLUID_ROLES.index(number) if number in _FLUID_ROLES else 0

    @contextlib.contextmanager
    def _role_guard(self, role, role_var=()):
        old = self._role, self._marks
        self._role = _ROLES[role]
        self._marks = {"op_role_var": list(role_var)} if role_var else {}
        try:
            yield
        finally:
            self._role, self._marks = old

    def _optimized_guard(self, param_and_grads):
        return self._role_guard("optimize", map(_name, param_and_grads))

    @property
    def _op_role(self):
        return _FLUID_ROLES[self._role]

    @_op_role.setter
    def _op_role(self, role):
        self._role = _FLUID_ROLES.index(int(role))

    @property
    def _op_role_var(self):
        return self._marks.get("op_role_var", [])

    def _backward_role_guard(self):
        return self._role_guard("backward")

    def _lr_schedule_guard(self, is_with_opt=False):
        return self._role_guard("lr")

    # --- the whole ---

    @property
    def random_seed(self):
        return _core.program_seed(self._handle)

    @random_seed.setter
    def random_seed(self, seed):
        if not isinstance(seed, int):
            raise ValueError("Program.random_seed's input seed must be an "
                             f"integer, but received {type(seed)}.")
        _core.program_set_seed(self._handle, seed)

    @property
    def version(self):
        return _core.program_version(self._handle)

    def clone(self, for_test=False):
        copy = _core.program_for_test if for_test else _core.program_copy
        new = Program(copy(self._handle), dict(self._extra))
        new._copy_faces(self)
        return new

    def _become(self, handle):
        """It is another program from now on, and its variables are those of
        the same names there. Gives what it was."""
        was = Program(self._handle, dict(self._extra))
        was._copy_faces(self)
        self._handle, self._current, self._is_distributed = handle, 0, True
        self._reads, self._redeclared = None, {}
        for block in self._blocks.values():
            block._become()
        return was

    def _with_updates(self, ops):
        """A copy with these updates and no others, kept until the program
        changes."""
        tags = frozenset(_core.op_tag(op._handle) for op in ops)
        key = (self.version, tags)
        if key not in self._redeclared:
            new = self.clone()
            for handle in _core.block_ops(new.global_block()._handle):
                if (_core.op_role(handle) == _ROLES["optimize"] and
                        _core.op_tag(handle) not in tags):
                    _core.op_remove(handle)
            self._redeclared[key] = new
        return self._redeclared[key]

    def _prune(self, targets):
        found = [_name(t) for t in _as_list(targets)]
        new = Program(_core.program_pruned(self._handle, found),
                      dict(self._extra))
        new._copy_faces(self)
        return new

    def _prune_with_input(self, feeded_var_names, targets):
        """What computes the targets from variables that are given."""
        new = self.clone()
        block = new.global_block()
        given = set(feeded_var_names)
        for i, op in reversed(list(enumerate(block.ops))):
            if given & set(op.output_arg_names):
                block._remove_op(i)
        for name in given:
            if block.has_var(name):
                block.var(name)._change(is_data=True)
        return new._prune(targets)

    def _copy_faces(self, other):
        """Parameters and readers keep what Python knows of them."""
        self._readers.update(other._readers)
        self._checked = set(other._checked)
        for i, block in other._blocks.items():
            for name, face in block._vars.items():
                if isinstance(face, Parameter) and self.block(i).has_var(name):
                    mine = self.block(i).var(name)
                    mine.optimize_attr = face.optimize_attr
                    mine.regularizer = face.regularizer
                    mine.do_model_average = face.do_model_average

    def _trains(self):
        """Whether it has gradients or updates."""
        return any(_core.op_role(h) in (_ROLES["backward"], _ROLES["optimize"])
                   for b in self.blocks for h in _core.block_ops(b._handle))

    def list_vars(self):
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self):
        return [p for b in self.blocks for p in b.all_parameters()]

    def to_string(self, throw_on_error=False, with_details=False):
        _expect_bools(throw_on_error=throw_on_error, with_details=with_details)
        return str(self)

    @staticmethod
    def from_text(text):
        """A program from its text, which str() gives."""
        return Program(_core.program_from_text(ctx, text))

    @property
    def desc(self):
        return _Desc(self)

    @staticmethod
    def parse_from_string(binary_str):
        """A program from what desc.serialize_to_string() gave."""
        return Program.from_text(bytes(binary_str).decode())

    def __str__(self):
        return _core.program_text(self._handle)

    __repr__ = __str__

    @classmethod
    def global_seed(cls, seed=0):
        """The seed of programs that are made from now on, and of the current
        pair."""
        global _seed
        _seed = seed
        default_main_program().random_seed = seed
        default_startup_program().random_seed = seed

    def _sync_with_cpp(self):
        """There is one program, the library's: nothing to copy."""

    def _inference_optimize(self, prune_read_op=True):
        """A copy for test, and without what reads."""
        new = self.clone(for_test=True)
        block = new.global_block()
        for i, op in reversed(list(enumerate(block.ops))):
            if prune_read_op and op.type in _READS:
                block._remove_op(i)
        return new

    def _copy_param_info_from(self, other):
        _expect_program(other, "_copy_param_info_from")
        if len(self.blocks) != len(other.blocks):
            raise ValueError("parameters are copied between programs of as "
                             f"many blocks, not {self.num_blocks} and "
                             f"{other.num_blocks}")
        self.global_block()._copy_param_info_from(other.global_block())

    def _copy_dist_param_info_from(self, other):
        """What a job knows of its programs is the library's."""
        _expect_program(other, "_copy_dist_param_info_from")

    def _copy_data_info_from(self, other, pruned_origin_block_id_map=None):
        """Which variables are fed is the library's."""
        _expect_program(other, "_copy_data_info_from")

    def _repr_svg_(self):
        return _core.program_svg(self._handle)

    def _repr_html_(self):
        return f'<div style="overflow:auto">{self._repr_svg_()}</div>'


# --- the current pair ------------------------------------------------------

_main, _startup = Program(), Program()


def default_main_program():
    return _main


def default_startup_program():
    return _startup


def switch_main_program(program):
    global _main
    old, _main = _main, program
    return old


def switch_startup_program(program):
    global _startup
    old, _startup = _startup, program
    return old


@contextlib.contextmanager
def program_guard(main_program, startup_program=None):
    """Layers inside write to this pair."""
    for p in (main_program, startup_program):
        if p is not None and not isinstance(p, Program):
            raise TypeError(f"program_guard takes programs, not {type(p)}")
    old_main = switch_main_program(main_program)
    old_startup = (switch_startup_program(startup_program)
                   if startup_program is not None else None)
    try:
        yield
    finally:
        switch_main_program(old_main)
        if old_startup is not None:
            switch_startup_program(old_startup)
