"""Variables and parameters: thin faces of the library's own."""
from . import _core, types
from .ir_view import expect_bools
from .types import VarType

_TYPE_OF_KIND = {types.KIND_ROWS: VarType.SELECTED_ROWS,
                 types.KIND_ARRAY: VarType.LOD_TENSOR_ARRAY}


class Variable:
    """A variable of a block. One that an operator is going to make has a name
    and a type; its shape is known when the operator is there."""

    def __init__(self, block, name, dtype=None, **flags):
        self.block = block
        self.error_clip = None
        self.op = None  # the last one that was added to write it
        self._declared_type = VarType.LOD_TENSOR
        self._waits_for_feed = False  # declared by a user, without a shape
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
        """Its name."""
        return self._name

    @name.setter
    def name(self, new):
        if self._exists():
            _core.var_rename(self._handle, new)
        self.block._renamed(self, new)
        self._name = new

    @property
    def shape(self):
        """Its shape; -1 is what a batch decides."""
        return self._look("shape", ())

    @property
    def dtype(self):
        """The type of its numbers."""
        if self._exists():
            return types.from_core(_core.var_look(self._handle)["dtype"])
        return self._dtype

    @property
    def type(self):
        """Its kind: a tensor, rows, an array of tensors."""
        if self._declared_type != VarType.LOD_TENSOR:
            return self._declared_type
        return _TYPE_OF_KIND.get(self._look("kind", types.KIND_DENSE),
                                 VarType.LOD_TENSOR)

    @property
    def lod_level(self):
        """How many levels of offsets it has."""
        return self._look("lod_level", 0)

    @property
    def is_data(self):
        """Whether it is fed."""
        return self._look("is_data", False)

    @property
    def persistable(self):
        """Whether its value outlives a run."""
        return self._look("persistable", False)

    @persistable.setter
    def persistable(self, value):
        """What outlives a run may be fed, and need not be."""
        self._change(persistable=bool(value),
                     is_data=self.is_data and not value)

    @property
    def stop_gradient(self):
        """Whether gradients end here."""
        return self._look("stop_gradient", False)

    @stop_gradient.setter
    def stop_gradient(self, value):
        self._change(stop_gradient=bool(value))

    @property
    def grad_name(self):
        """The name of its gradient."""
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
        """Name, type and shape as text."""
        expect_bools(throw_on_error=throw_on_error, with_details=with_details)
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
        """Refuses: a variable has a value when its program runs."""
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
        """Whether updates change it."""
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = bool(value)
        self._change(frozen=not value)


def name_of(v):
    """The name of a variable, or what else was given."""
    return v.name if isinstance(v, Variable) else v
