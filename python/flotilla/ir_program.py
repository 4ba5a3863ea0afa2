"""Programs, and the pair that layers write to."""
import contextlib
import html
import weakref

from . import _core
from .ir_block import Block
from .ir_var import Parameter, name_of
from .ir_view import FLUID_ROLES, ROLES, as_list, expect_bools

ctx = _core.ctx_new()
executors = weakref.WeakSet()  # all of them: they keep plans of programs

_READS = ("create_py_reader", "create_double_buffer_reader", "read")

_seed = 0  # of programs that are made now


def _expect_program(p, what):
    if not isinstance(p, Program):
        raise TypeError(f"{what} takes a Program, not {type(p)}")


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
        self._role = ROLES["forward"]
        self._marks = {}  # attributes of operators that are added now
        self._extra = extra if extra is not None else {}
        self._is_distributed = False  # that of a member of a job
        self._listing = None  # what shows of its operators (fleet/listing.py)
        self._more_vars = {}  # and of its variables
        self._readers = {}  # queues of batches, by the reader's name
        self._reads = None  # its operators `read`, as data.read found them
        self._checked = set()  # what is fed to these is checked
        self._debug = None  # what a pass dumps (data/dump.py)
        self._redeclared = {}  # copies for other feeds or updates

    def __del__(self, executors=executors):
        # Any thread may collect it: executors forget it before their next run.
        for e in executors:
            e._gone.append(_core.program_id(self._handle))

    # --- blocks ---

    @property
    def num_blocks(self):
        """How many blocks it has."""
        return _core.program_n_blocks(self._handle)

    def block(self, index):
        """The block of that number."""
        if not 0 <= index < self.num_blocks:
            raise IndexError(f"a program of {self.num_blocks} blocks has no "
                             f"block {index}")
        found = self._blocks.get(index)
        if found is None:
            found = self._blocks[index] = Block(self, index)
        return found

    @property
    def blocks(self):
        """All of its blocks."""
        return [self.block(i) for i in range(self.num_blocks)]

    def global_block(self):
        """Block 0."""
        return self.block(0)

    def current_block(self):
        """The block that layers write to."""
        return self.block(self._current)

    @property
    def current_block_idx(self):
        """The number of the block that layers write to."""
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
        return FLUID_ROLES.index(number) if number in FLUID_ROLES else 0

    @contextlib.contextmanager
    def _role_guard(self, role, role_var=()):
        old = self._role, self._marks
        self._role = ROLES[role]
        self._marks = {"op_role_var": list(role_var)} if role_var else {}
        try:
            yield
        finally:
            self._role, self._marks = old

    def _optimized_guard(self, param_and_grads):
        return self._role_guard("optimize", map(name_of, param_and_grads))

    @property
    def _op_role(self):
        return FLUID_ROLES[self._role]

    @_op_role.setter
    def _op_role(self, role):
        self._role = FLUID_ROLES.index(int(role))

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
        """What its random numbers follow from; 0 is another one in each
        process."""
        return _core.program_seed(self._handle)

    @random_seed.setter
    def random_seed(self, seed):
        if not isinstance(seed, int):
            raise ValueError("Program.random_seed's input seed must be an "
                             f"integer, but received {type(seed)}.")
        _core.program_set_seed(self._handle, seed)

    @property
    def version(self):
        """A number that grows whenever the program changes."""
        return _core.program_version(self._handle)

    def clone(self, for_test=False):
        """A copy; for_test leaves out gradients and updates, and layers do
        what they do when nothing is learned."""
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
        """A copy with these updates and no others."""
        tags = {_core.op_tag(op._handle) for op in ops}
        new = self.clone()
        for handle in _core.block_ops(new.global_block()._handle):
            if (_core.op_role(handle) == ROLES["optimize"] and
                    _core.op_tag(handle) not in tags):
                _core.op_remove(handle)
        return new

    def _with(self, program):
        """What runs in its place: a CompiledProgram compiles the other."""
        return program

    def _prune(self, targets):
        found = []
        for t in as_list(targets):
            names = getattr(t, "output_arg_names", [name_of(t)])
            if not all(isinstance(name, str) for name in names):
                raise ValueError("All targets of Program._prune_with_input() "
                                 "can only be Variable or Operator, but "
                                 f"received {type(t)}.")
            found += names
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
        return any(_core.op_role(h) in (ROLES["backward"], ROLES["optimize"])
                   for i in range(_core.program_n_blocks(self._handle))
                   for h in _core.block_ops(_core.program_block(self._handle,
                                                                i)))

    def list_vars(self):
        """The variables of all blocks, one by one."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self):
        """The parameters of all blocks."""
        return [p for b in self.blocks for p in b.all_parameters()]

    def to_string(self, throw_on_error=False, with_details=False):
        """Its text; with details its variables, block by block, as well."""
        expect_bools(throw_on_error=throw_on_error, with_details=with_details)
        if not with_details:
            return str(self)
        return "\n".join([str(self)] + [b.to_string(throw_on_error, True)
                                        for b in self.blocks])

    @staticmethod
    def from_text(text):
        """A program from its text, which str() gives."""
        return Program(_core.program_from_text(ctx, text))

    @property
    def desc(self):
        """Its description, for tools that ask for one."""
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
        """The drawing, or the text where Graphviz is not there to draw it."""
        svg = self._repr_svg_()
        if svg is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        return f'<div style="overflow:auto">{svg}</div>'


# --- the current pair ------------------------------------------------------

_main, _startup = Program(), Program()


def default_main_program():
    """The program that layers write to."""
    return _main


def default_startup_program():
    """The program of first values."""
    return _startup


def switch_main_program(program):
    """Layers write to this program from now on; gives the one before."""
    global _main
    old, _main = _main, program
    return old


def switch_startup_program(program):
    """First values are written to this program from now on; gives the one
    before."""
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
