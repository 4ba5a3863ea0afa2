"""Operators, blocks and variables that are parts of others here, as scripts of
1.8 look at them."""
from .. import ir


class Listed:
    """An operator that is a part of another one here."""

    def __init__(self, type, inputs=None, outputs=None, attrs=None):
        self.type = type
        self._inputs, self._outputs = inputs or {}, outputs or {}
        self._attrs = attrs or {}

    @classmethod
    def like(cls, op, names, **attrs):
        """The same as an operator over other names."""
        def of(slots, read):
            return {s: [names.get(n, n) for n in read(s)] for s in slots}

        return cls(op.type, of(op.input_names, op.input),
                   of(op.output_names, op.output), {**op.all_attrs(), **attrs})

    @property
    def input_names(self):
        return list(self._inputs)

    @property
    def output_names(self):
        return list(self._outputs)

    def input(self, name):
        return self._inputs.get(name, [])

    def output(self, name):
        return self._outputs.get(name, [])

    @property
    def input_arg_names(self):
        return [n for names in self._inputs.values() for n in names]

    @property
    def output_arg_names(self):
        return [n for names in self._outputs.values() for n in names]

    @property
    def attr_names(self):
        return list(self._attrs)

    def has_attr(self, name):
        return name in self._attrs

    def attr(self, name):
        return self._attrs[name]

    def all_attrs(self):
        return dict(self._attrs)

    def __repr__(self):
        return f"{{{self._outputs}}} = {self.type}(inputs={{{self._inputs}}})"


class ListedBlock:
    """A block of a server's program, as 1.8 cuts it."""

    def __init__(self, idx, parent_idx, ops):
        self.idx = self.id = idx
        self.parent_idx, self.ops = parent_idx, ops
        self.vars = {}

    def all_parameters(self):
        return []

    def __repr__(self):
        return "\n".join(map(repr, self.ops))

    def to_string(self, throw_on_error=False, with_details=False):
        return repr(self)


class ServerProgram(ir.Program):
    """A program of a server, which is no other program's face; its blocks are
    those of 1.8 where they are listed."""

    def __init__(self, handle):
        super().__init__(handle)
        self._is_distributed = True
        self._listed = None  # blocks from 1 on

    @property
    def num_blocks(self):
        if self._listed is None:
            return super().num_blocks
        return 1 + len(self._listed)

    def block(self, index):
        if not index or self._listed is None:
            return super().block(index)
        return self._listed[index - 1]


# --- who has what --------------------------------------------------------------

class VarStruct:
    """What is known of a variable that is somewhere else; it is nothing that
    is fed, trained or has a gradient."""

    is_data = trainable = False
    stop_gradient = True
    op = error_clip = None

    def __init__(self, name, shape, dtype, type, lod_level, persistable):
        self.name, self.shape, self.dtype = name, shape, dtype
        self.type, self.lod_level, self.persistable = type, lod_level, \
            persistable

    @classmethod
    def like(cls, var, name=None, shape=None, persistable=None):
        """The same as a variable, under another name and shape."""
        return cls(name or var.name, tuple(shape or var.shape), var.dtype,
                   var.type, var.lod_level,
                   var.persistable if persistable is None else persistable)


class VarDistributed:
    """A variable, and the slice of it that a server has."""

    def __init__(self, origin, slice, is_slice, block_id, offset, vtype,
                 endpoint):
        self.origin, self.slice, self.is_slice = origin, slice, is_slice
        self.block_id, self.offset = block_id, offset
        self.vtype, self.endpoint = vtype, endpoint

    def __str__(self):
        whole, part = self.origin, self.slice
        return (f"var owned: {self.vtype}, origin var: ( {whole.name} : "
                f"{whole.shape} ), slice var: ( {part.name} : {part.shape}, "
                f"slice {self.is_slice}, block {self.block_id}, offset "
                f"{self.offset} ), endpoint: {self.endpoint}")


class VarsDistributed:
    """All of them."""

    def __init__(self, found):
        self.distributed_vars = found

    def get_distributed_var_by_slice(self, var_name):
        return next((v for v in self.distributed_vars
                     if v.slice.name == var_name), None)

    def get_distributed_var_by_origin_and_ep(self, origin_var_name, endpoint):
        return next((v for v in self.get_distributed_vars_by_ep(endpoint)
                     if v.origin.name == origin_var_name), None)

    def get_distributed_vars_by_vtypes(self, vtypes, groupby=False):
        found = [v for v in self.distributed_vars if v.vtype in vtypes]
        if not groupby:
            return found
        groups = {}
        for v in found:
            groups.setdefault(v.origin.name, []).append(v)
        return groups

    def get_distributed_vars_by_ep(self, endpoint, vtype=None):
        return [v for v in self.distributed_vars if v.endpoint == endpoint and
                (not vtype or v.vtype == vtype)]

    def overview(self):
        return "\n".join(map(str, self.distributed_vars))
