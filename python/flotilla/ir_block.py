"""Blocks: operators over named variables. A face is made when somebody asks for
it, and there is one for each handle, so that block.var("x") is x."""
import itertools

from . import _core, marks, names, near, place, types
from .ir_op import Operator
from .ir_var import Parameter, Variable, name_of
from .ir_view import as_list, attr_value, expect_bools, operator_view
from .types import VarType

# What a loop keeps for its gradient is an array too.
_KIND_OF_TYPE = {VarType.SELECTED_ROWS: types.KIND_ROWS,
                 VarType.LOD_TENSOR_ARRAY: types.KIND_ARRAY,
                 VarType.STEP_SCOPES: types.KIND_ARRAY}

_tags = itertools.count(1)


def _arguments(slots, kind):
    """{slot: variable or list} as [(slot, name), ...]."""
    found = [(slot, name_of(v)) for slot, vs in (slots or {}).items()
             if vs is not None for v in as_list(vs)]
    for slot, name in found:
        if not isinstance(name, str):
            raise TypeError(f"slot {slot} of {kind} takes a Variable, not "
                            f"{type(name)}")
    return found


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
        """The number of the block around it, or -1."""
        return _core.block_parent(self._handle)

    @property
    def forward_block_idx(self):
        """The block that this one is the gradient of: gradients are in the
        same block, so -1."""
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
        if not self.idx:
            made.update(self.program._more_vars)
        return made

    def has_var(self, name):
        """Whether it has a variable of that name."""
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
        """Its variable of that name."""
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
                   error_clip=None, initializer=None):
        """A variable; one whose shape is not said waits for its operator, and
        an initializer writes a value here."""
        name = name or names.generate("_generated_var")
        flags = {"persistable": bool(persistable), "is_data": bool(is_data),
                 "stop_gradient": bool(stop_gradient)}
        face = self._find(name)
        if face is None:
            face = self._vars[name] = Variable(self, name, dtype, **flags)
            face._declared_type = type
            face._waits_for_feed = shape is None
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
        if initializer is not None:
            initializer(face, self)
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
        """Its parameters."""
        return [v for v in self.vars.values() if isinstance(v, Parameter)]

    def iter_parameters(self):
        """Its parameters, one by one."""
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
        """Its operators, in their order."""
        found = [self._op_face(h) for h in _core.block_ops(self._handle)]
        look = self.program._listing
        return found if look is None else look(self.idx, found)

    def append_op(self, type=None, inputs=None, outputs=None, attrs=None,
                  stop_gradient=False):
        """Adds an operator at the end."""
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
        for _, name in ins:
            self._declare_given(name)
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

    def _declare_given(self, name):
        """A variable that was declared without a shape and that no operator
        makes is fed: what it is, the feed says."""
        face = self._vars.get(name)
        if (face is not None and face._dtype is not None and
                face._waits_for_feed and not face._exists()):
            self._declare(face, (), face._dtype)

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
                              attr_value(name, kinds[name], value)))
            else:
                extra[name] = value
        return known, extra

    def __repr__(self):
        return "\n".join(map(repr, self.ops))

    def to_string(self, throw_on_error=False, with_details=False):
        """Its operators, and with details its variables, as text."""
        expect_bools(throw_on_error=throw_on_error, with_details=with_details)
        return "\n".join([v.to_string(True, with_details)
                          for v in self.vars.values()] + [repr(self)])
