"""Blocks that run on a condition or several times."""
import functools

from .. import ir, types
from ..check import check_type, check_variable_and_dtype
from ..helper import LayerHelper
from . import nest
from .generated import layers as _generated
from .tensor import assign, cast, fill_constant

_logical_and = _generated["logical_and"]
_equal = _generated["equal"]


def _logical_not(x):
    out = LayerHelper("logical_not").create_variable_for_type_inference("bool")
    out.block.append_op("logical_not", inputs={"X": x}, outputs={"Out": out})
    return out


class BlockGuard:
    """Layers inside write to a new block of the program."""

    def __init__(self, main_program):
        if not isinstance(main_program, ir.Program):
            raise TypeError("BlockGuard takes a program")
        self.main_program = main_program

    def __enter__(self):
        self.main_program._create_block()

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.main_program._rollback()
        return exc_type is None


class _Completing(BlockGuard):
    """The same, and the operator that runs the block behind it."""

    def __init__(self, program, complete):
        super().__init__(program)
        self._complete = complete

    def __exit__(self, exc_type, exc_val, exc_tb):
        if exc_type is None:
            self._complete()
        return super().__exit__(exc_type, exc_val, exc_tb)


def _traffic(block):
    """Names that a block reads before it writes them, and all that it
    writes, in the order of its operators."""
    read, written = {}, {}
    for op in block.ops:
        read.update((n, None) for n in op.input_arg_names
                    if n not in written)
        written.update((n, None) for n in op.output_arg_names)
    return list(read), list(written)


def _outer_vars(parent, found):
    """Those names that are variables of outer blocks."""
    vars = (parent._find_var_recursive(n) for n in found)
    return [v for v in vars if v is not None]


# --- choosing ----------------------------------------------------------------

def select_input(inputs, mask):
    """The mask-th of several variables."""
    helper = LayerHelper("select_input")
    check_type(inputs, "inputs", (list, tuple), "select_input")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_input")
    first = inputs[0]
    out = helper.create_variable(dtype=first.dtype, type=first.type)
    helper.append_op("select_input", inputs={"X": inputs, "Mask": mask},
                     outputs={"Out": out})
    return out


def select_output(input, outputs, mask):
    """Gives the mask-th of several variables the value of input."""
    helper = LayerHelper("select_output")
    check_type(outputs, "outputs", (list, tuple), "select_output")
    check_variable_and_dtype(mask, "mask", ["int32"], "select_output")
    helper.append_op("select_output", inputs={"X": input, "Mask": mask},
                     outputs={"Out": outputs})
    return outputs


class ConditionalBlock:
    """A block that runs when its condition holds, or, when it is no scalar,
    when none of its inputs is empty."""

    def __init__(self, inputs, is_scalar_condition=False, name=None):
        for v in inputs:
            check_type(v, "input", ir.Variable, "ConditionalBlock")
        self.inputs = inputs
        self.is_scalar_condition = is_scalar_condition
        self.helper = LayerHelper("conditional_block", name=name)

    def block(self):
        """What is written inside runs if the conditions hold."""
        return _Completing(self.helper.main_program, self.complete)

    def complete(self):
        """Writes the operator behind its block."""
        program = self.helper.main_program
        inside = program.current_block()
        parent = program.block(inside.parent_idx)
        read, written = _traffic(inside)
        scope = parent.create_var(dtype="uint8")
        parent.append_op(
            "conditional_block",
            inputs={"Cond": self.inputs, "Input": _outer_vars(parent, read)},
            outputs={"Out": _outer_vars(parent, written), "Scope": scope},
            attrs={"sub_block": inside,
                   "is_scalar_condition": self.is_scalar_condition})


def _to_parent(helper, v):
    """A copy of a variable in the block outside."""
    program = helper.main_program
    parent = program.block(program.current_block().parent_idx)
    out = parent.create_var(dtype=v.dtype, type=v.type)
    assign(v, out)
    return out


def _branch(helper, condition, fn, which):
    """What fn gives in a block of its own; None for nothing."""
    if not callable(fn):
        raise TypeError(f"The {which} in cond must be callable, but received "
                        f"{type(fn).__name__}")
    with ConditionalBlock([condition], is_scalar_condition=True).block():
        found = fn()
        if found is None:
            return None
        return nest.apply(functools.partial(_to_parent, helper), found)


def cond(pred, true_fn=None, false_fn=None, name=None):
    """What true_fn gives when pred holds, else what false_fn gives; only one
    of them runs."""
    check_variable_and_dtype(pred, "pred", ["bool"], "fluid.layers.cond")
    check_type(name, "name", (str, type(None)), "fluid.layers.cond")
    helper = LayerHelper("cond", name=name)
    yes = no = None
    if true_fn is not None:
        yes = _branch(helper, pred, true_fn, "true_fn")
    if false_fn is not None:
        no = _branch(helper, _logical_not(pred), false_fn, "false_fn")
    if yes is None and no is None:
        return None
    wrong = "Incompatible return values of true_fn and false_fn in cond: "
    if yes is None:
        raise ValueError(wrong + "true_fn returns None while false_fn returns "
                         "non-None")
    if no is None:
        raise ValueError(wrong + "true_fn returns non-None while false_fn "
                         "returns None")
    nest.check_same(yes, no, wrong)
    mask = cast(pred, "int32")
    return nest.apply(lambda n, y: select_input([n, y], mask), no, yes)


def _wrong(what, argument, layer, right, given):
    return (f"{what} of '{argument}' in {layer} must be {right}, but received:"
            f" {given}.")


def _pair(found, argument, layer):
    if not isinstance(found, tuple):
        raise TypeError(_wrong("The elements' type", argument, layer, tuple,
                               type(found)))
    if len(found) != 2:
        raise TypeError(_wrong("The tuple's size", argument, layer, "2",
                               f"{len(found)}-tuple"))
    return found


def _chain(pairs, default):
    """The first branch whose condition holds."""
    last = default
    for pred, fn in pairs:
        last = functools.partial(cond, pred=pred, true_fn=fn, false_fn=last)
    return last()


def case(pred_fn_pairs, default=None, name=None):
    """The first pair whose condition holds says what runs; the last one, or
    default, when none does."""
    check_type(pred_fn_pairs, "pred_fn_pairs", (list, tuple), "case")
    for found in pred_fn_pairs:
        pred, fn = _pair(found, "pred_fn_pairs", "case")
        if not isinstance(pred, ir.Variable):
            raise TypeError(_wrong("The pred's type", "pred_fn_pairs", "case",
                                   "boolean Variable", type(pred)))
        if not callable(fn):
            raise TypeError(f"The fn for {pred.name} of pred_fn_pairs in "
                            "Op(case) must be callable.")
    pairs = list(pred_fn_pairs)
    if default is None:
        default = pairs.pop()[1]
    elif not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    return _chain(reversed(pairs), default)


def _numbered(branch_fns):
    """Branches as [(number, function), ...], checked."""
    found = (list(branch_fns.items()) if isinstance(branch_fns, dict) else
             list(branch_fns))
    if all(callable(fn) for fn in found):
        found = list(enumerate(found))
    seen = set()
    for pair in found:
        key, fn = _pair(pair, "branch_fns", "switch_case")
        if not isinstance(key, int):
            raise TypeError(_wrong("The key's type", "branch_fns",
                                   "switch_case", int, type(key)))
        if key in seen:
            raise ValueError("The key in 'branch_fns' must be unique, but "
                             f"'{key}' appears more than once.")
        seen.add(key)
        if not callable(fn):
            raise TypeError(_wrong(f"The type of function for key {key}",
                                   "branch_fns", "switch_case", "callable",
                                   type(fn)))
    return found


def switch_case(branch_index, branch_fns, default=None, name=None):
    """The branch with that number; the one with the highest number, or
    default, when there is none."""
    check_variable_and_dtype(branch_index, "branch_index",
                             ["uint8", "int32", "int64"], "switch_case")
    check_type(branch_fns, "branch_fns", (list, tuple, dict), "switch_case")
    if types.name_of(branch_index.dtype) != "int64":
        branch_index = cast(branch_index, "int64")
    pairs = _numbered(branch_fns)
    if default is None:
        pairs = sorted(pairs, key=lambda pair: pair[0])
        default = pairs.pop()[1]
    elif not callable(default):
        raise TypeError("The default in Op(case) must be callable.")
    return _chain([(_equal(branch_index, fill_constant([1], "int64", key)), fn)
                   for key, fn in pairs], default)


class Switch:
    """with Switch() as switch: with switch.case(c): ...; the first case whose
    condition holds runs, or switch.default()."""

    def __init__(self, name=None):
        self.helper = LayerHelper("switch", name=name)
        self.inside_scope = False
        self._none_so_far = None

    def case(self, condition):
        """What is written inside runs if this condition holds and none before
        did."""
        if not self.inside_scope:
            raise ValueError("case should be called inside with")
        check_variable_and_dtype(condition, "condition", ["bool"],
                                 "the member function case of "
                                 "fluid.layers.Switch")
        if self._none_so_far is None:
            self._none_so_far = _logical_not(condition)
            found = condition
        else:
            before = self._none_so_far
            self._none_so_far = _logical_and(before, _logical_not(condition))
            found = _logical_and(before, condition)
        return ConditionalBlock([found], is_scalar_condition=True).block()

    def default(self):
        """What is written inside runs if no condition held."""
        if self._none_so_far is None:
            raise ValueError("there should be at least one condition")
        return ConditionalBlock([self._none_so_far],
                                is_scalar_condition=True).block()

    def __enter__(self):
        self.inside_scope = True
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.inside_scope = False
        return exc_type is None


# --- rows by a mask ------------------------------------------------------------

def split_lod_tensor(input, mask, level=0):
    """Rows, or sequences, where the mask holds, and the others."""
    helper = LayerHelper("split_lod_tensor")
    yes, no = helper.like(input), helper.like(input)
    helper.append_op("split_lod_tensor", inputs={"X": input, "Mask": mask},
                     outputs={"OutTrue": yes, "OutFalse": no},
                     attrs={"level": level})
    return yes, no


def merge_lod_tensor(in_true, in_false, x, mask, level=0):
    """What split_lod_tensor parted, together again."""
    helper = LayerHelper("merge_lod_tensor")
    out = helper.like(in_true)
    helper.append_op("merge_lod_tensor",
                     inputs={"X": x, "Mask": mask, "InTrue": in_true,
                             "InFalse": in_false},
                     outputs={"Out": out}, attrs={"level": level})
    return out


class IfElse:
    """Rows for which a condition holds go through one block, the others
    through another."""

    OUT_IF_ELSE_BLOCKS, IN_IF_ELSE_TRUE_BLOCKS, IN_IF_ELSE_FALSE_BLOCKS = (
        0, 1, 2)

    def __init__(self, cond, name=None):
        check_type(cond, "cond", ir.Variable, "fluid.layers.IfElse")
        check_type(name, "name", (str, type(None)), "fluid.layers.IfElse")
        self.helper = LayerHelper("ifelse", name=name)
        self.cond = cond
        self.input_table = {}
        self.status = self.OUT_IF_ELSE_BLOCKS
        self.conditional_true_block = ConditionalBlock([cond])
        self.conditional_false_block = ConditionalBlock([cond])
        self.output_table = ([], [])  # of the false block, of the true one

    def _parent_block(self):
        program = self.helper.main_program
        return program.block(program.current_block().parent_idx)

    def input(self, x):
        """The rows of x that this block is for."""
        if self.status == self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("input must in true/false blocks")
        found = self.input_table.get(id(x))
        if found is None:
            parent = self._parent_block()
            key = "ifelse_input" + self.helper.name
            found = (parent._temporary(key, x.dtype),
                     parent._temporary(key, x.dtype))
            parent.append_op("split_lod_tensor",
                             inputs={"X": x, "Mask": self.cond},
                             outputs={"OutTrue": found[0],
                                      "OutFalse": found[1]},
                             attrs={"level": 0})
            self.input_table[id(x)] = found
        return found[self.status != self.IN_IF_ELSE_TRUE_BLOCKS]

    def true_block(self):
        """What is written inside sees the rows whose condition holds."""
        return _IfElseGuard(True, self)

    def false_block(self):
        """What is written inside sees the rows whose condition does not
        hold."""
        return _IfElseGuard(False, self)

    def output(self, *outs):
        """What a branch gives."""
        if self.status == self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("output can only be invoked in the sub-block")
        table = self.output_table[self.status == self.IN_IF_ELSE_TRUE_BLOCKS]
        parent = self._parent_block()
        for v in outs:
            check_type(v, "each output", ir.Variable,
                       "fluid.layers.IfElse.output")
            outside = parent._temporary(f"{self.helper.name}_output", v.dtype)
            table.append(outside)
            assign(v, outside)

    def __call__(self):
        if self.status != self.OUT_IF_ELSE_BLOCKS:
            raise ValueError("IfElse::__call__ must be out of sub-block")
        no, yes = self.output_table
        if not no and not yes:
            raise ValueError("Must invoke true_block/false_block before "
                             "__call__")
        if not no or not yes:
            return yes or no
        if len(no) != len(yes):
            raise ValueError("The output side must be same")
        return [merge_lod_tensor(y, n, self.cond, self.cond)
                for n, y in zip(no, yes)]


class _IfElseGuard:
    def __init__(self, is_true, ifelse):
        if ifelse.status != IfElse.OUT_IF_ELSE_BLOCKS:
            raise ValueError("You cannot invoke IfElse.block() inside a block")
        self._is_true, self._ifelse = is_true, ifelse
        self._guard = (ifelse.conditional_true_block if is_true else
                       ifelse.conditional_false_block).block()

    def __enter__(self):
        self._ifelse.status = (IfElse.IN_IF_ELSE_TRUE_BLOCKS if self._is_true
                               else IfElse.IN_IF_ELSE_FALSE_BLOCKS)
        self._guard.__enter__()

    def __exit__(self, exc_type, exc_val, exc_tb):
        if not self._guard.__exit__(exc_type, exc_val, exc_tb):
            return False
        if not self._ifelse.output_table[self._is_true]:
            raise ValueError("Must set output inside block")
        self._ifelse.status = IfElse.OUT_IF_ELSE_BLOCKS
        return True


# --- loops -----------------------------------------------------------------

class While:
    """A block that runs as long as cond, which it changes, is true."""

    BEFORE_WHILE_BLOCK, IN_WHILE_BLOCK, AFTER_WHILE_BLOCK = 0, 1, 2

    def __init__(self, cond, is_test=False, name=None):
        self.helper = LayerHelper("while", name=name)
        check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.While")
        if functools.reduce(lambda a, b: a * b, cond.shape, 1) != 1:
            raise TypeError("condition expected shape as [1], but given shape "
                            f"as {list(cond.shape)}.")
        self.status = self.BEFORE_WHILE_BLOCK
        self.cond_var = cond
        self.is_test = is_test

    def block(self):
        """What is written inside runs as long as the condition holds."""
        self.status = self.IN_WHILE_BLOCK
        return _Completing(self.helper.main_program, self._complete)

    def _complete(self):
        """What the block writes is an input too: a lap begins with it."""
        self.status = self.AFTER_WHILE_BLOCK
        program = self.helper.main_program
        inside = program.current_block()
        parent = program.block(inside.parent_idx)
        read, written = _traffic(inside)
        written = list(dict.fromkeys([self.cond_var.name] + written))
        outs = _outer_vars(parent, written)
        ins = {v.name: v for v in _outer_vars(parent, read) + outs}
        ins.pop(self.cond_var.name, None)
        laps = parent.create_var(type=types.VarType.STEP_SCOPES)
        parent.append_op("while",
                         inputs={"X": list(ins.values()),
                                 "Condition": self.cond_var},
                         outputs={"Out": outs, "StepScopes": laps},
                         attrs={"sub_block": inside, "is_test": self.is_test})


def while_loop(cond, body, loop_vars, is_test=False, name=None):
    """loop_vars = body(*loop_vars) as long as cond(*loop_vars) is true."""
    for what, given in (("cond", cond), ("body", body)):
        if not callable(given):
            raise TypeError(f"{what} in while_loop should be callable")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError("loop_vars in while_loop should be a list or tuple")
    if len(loop_vars) == 0:
        raise ValueError("loop_vars in while_loop should not be empty")
    # What is fed is not written: the loop has a copy of its own.
    loop_vars = nest.apply(lambda v: assign(v) if getattr(v, "is_data", False)
                           else v, loop_vars)
    more = cond(*loop_vars)
    if not isinstance(more, ir.Variable):
        raise TypeError("cond in while_loop should return a variable")
    if more.dtype != types.VarType.BOOL:
        raise TypeError("cond in while_loop should return a boolean variable")
    if functools.reduce(lambda a, b: a * b, more.shape, 1) != 1:
        raise TypeError("the shape of the variable returned by cond should be "
                        f"[],but given shape as {list(more.shape)}.")
    with While(more, is_test, name).block():
        found = body(*nest.copy(loop_vars))
        if not isinstance(found, (list, tuple)):
            found = [found]
        nest.check_same(found, loop_vars, "body in while_loop should return "
                        "the same arity (length and structure) as loop_vars: ")
        again = cond(*found)
        nest.apply(assign, found, loop_vars)
        assign(again, more)
    return loop_vars


# --- looking -----------------------------------------------------------------

def Print(input, first_n=-1, message=None, summarize=20,
          print_tensor_name=True, print_tensor_type=True,
          print_tensor_shape=True, print_tensor_lod=True, print_phase="both"):
    """input, which shows itself as it passes."""
    check_variable_and_dtype(input, "input", ["float32", "float64", "int32",
                                              "int64", "bool"],
                             "fluid.layers.Print")
    helper = LayerHelper(f"print_{input.name}")
    out = helper.like(input)
    helper.append_op("print", inputs={"In": input}, outputs={"Out": out},
                     attrs={"first_n": first_n, "summarize": summarize,
                            "message": message or "",
                            "print_tensor_name": print_tensor_name,
                            "print_tensor_type": print_tensor_type,
                            "print_tensor_shape": print_tensor_shape,
                            "print_tensor_lod": print_tensor_lod,
                            "print_phase": print_phase.upper()})
    return out


def Assert(cond, data=None, summarize=20, name=None):
    """Ends a run in which cond is not true, and shows data."""
    check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.Assert")
    check_type(data, "data", (list, tuple, type(None)), "fluid.layers.Assert")
    helper = LayerHelper(name or f"assert_{cond.name}")
    return helper.append_op("assert",
                            inputs={"Cond": cond, "Data": list(data or [])},
                            attrs={"summarize": summarize})


def is_empty(x, cond=None):
    """Whether x has no elements."""
    check_variable_and_dtype(x, "x", ["float32", "float64", "int32", "int64"],
                             "is_empty")
    check_type(cond, "cond", (ir.Variable, type(None)), "is_empty")
    helper = LayerHelper("is_empty")
    if cond is None:
        cond = helper.create_variable_for_type_inference("bool", True)
    check_variable_and_dtype(cond, "cond", ["bool"], "is_empty")
    helper.append_op("is_empty", inputs={"X": x}, outputs={"Out": cond})
    return cond
