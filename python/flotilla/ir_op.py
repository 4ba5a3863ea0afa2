"""Operators: thin faces of the library's own."""
from . import _core, types
from .ir_view import FLUID_ROLES, ROLES, attr_value, operator_view

# Attributes that every operator of Fluid has, and their defaults.
_EVERY_OPERATOR = {"op_role": 0, "op_role_var": [], "op_namescope": "/",
                   "op_device": ""}


class Operator:
    """An operator of a block."""

    def __init__(self, block, handle):
        self.block = block
        self._handle = handle

    @property
    def type(self):
        """The name of its kind."""
        return _core.op_type(self._handle)

    @property
    def input_names(self):
        """Names of its inputs."""
        return list(_core.op_slots(self._handle, 0))

    @property
    def output_names(self):
        """Names of its outputs."""
        return list(_core.op_slots(self._handle, 1))

    def input(self, name):
        """Names of the variables of an input."""
        return _core.op_slots(self._handle, 0).get(name, [])

    def output(self, name):
        """Names of the variables of an output."""
        return _core.op_slots(self._handle, 1).get(name, [])

    @property
    def input_arg_names(self):
        """Names of all variables that it reads."""
        return [n for ns in _core.op_slots(self._handle, 0).values()
                for n in ns if n != "@EMPTY@"]

    @property
    def output_arg_names(self):
        """Names of all variables that it writes."""
        return [n for ns in _core.op_slots(self._handle, 1).values()
                for n in ns if n != "@EMPTY@"]

    @property
    def _extra(self):
        """Attributes that the library does not know, and the line of the
        script: kept by the program under the operator's tag."""
        return self.block.program._extra.get(_core.op_tag(self._handle), {})

    @property
    def attr_names(self):
        """Names of its attributes."""
        known = _core.op_attr_names(self._handle)
        return known + [n for n in {**_EVERY_OPERATOR, **self._extra}
                        if n not in known and n != "op_callstack"]

    def has_attr(self, name):
        """Whether it has that attribute."""
        return name in self.attr_names

    def attr(self, name):
        """The value of an attribute."""
        if name in self._extra:
            return self._extra[name]
        if name == "op_role":
            return FLUID_ROLES[_core.op_role(self._handle)]
        if name in _EVERY_OPERATOR:
            return _EVERY_OPERATOR[name]
        value = _core.op_attr(self._handle, name)
        if name.endswith("dtype") and isinstance(value, str) and value:
            return types.var_type(value)
        return value

    def all_attrs(self):
        """{attribute: value}."""
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
        return bool(self.attr("op_role") & FLUID_ROLES[ROLES["optimize"]])

    def _set_attr(self, name, value):
        kinds = operator_view(self.type)["attr_types"]
        if name in kinds:
            value = attr_value(name, kinds[name], value)
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
        """What it reads and writes, as text."""
        return repr(self)
