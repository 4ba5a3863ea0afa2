"""Recurrent nets whose step is a block: over sequences of one length, and of
any."""
import contextlib

from .. import ir, names
from ..check import check_type
from ..helper import LayerHelper
from ..types import VarType
from .arrays import (array_read, array_to_lod_tensor, array_write,
                     shrink_memory)
from .control import While, _Completing, _traffic
from .generated import layers as _generated
from .tensor import fill_constant, increment

_less_than = _generated["less_than"]


def _outside(helper):
    program = helper.main_program
    return program.block(program.current_block().parent_idx)


class _Link:
    """A state: its first value, what a step finds, what it makes."""

    def __init__(self, init, pre_mem):
        self.init, self.pre_mem, self.mem = init, pre_mem, None


class StaticRNN:
    """A block that runs for each step of inputs [steps, batch, ...]."""

    BEFORE_RNN_BLOCK, IN_RNN_BLOCK, AFTER_RNN_BLOCK = 0, 1, 2

    def __init__(self, name=None):
        check_type(name, "name", (str, type(None)), "fluid.layers.StaticRNN")
        self.helper = LayerHelper("static_rnn", name=name)
        self.memories = {}
        self.inputs, self.outputs = [], []
        self.status = self.BEFORE_RNN_BLOCK
        self.seq_len = None

    def step(self):
        """What is written inside runs once for each step."""
        self.status = self.IN_RNN_BLOCK
        return _Completing(self.helper.main_program, self._complete_op)

    def _assert_in_rnn_block_(self, method):
        if self.status != self.IN_RNN_BLOCK:
            raise ValueError(f"You must invoke {method} in rnn block")

    def memory(self, init=None, shape=None, batch_ref=None, init_value=0.0,
               init_batch_dim_idx=0, ref_batch_dim_idx=1):
        """A state, which begins as init or as init_value in that shape."""
        self._assert_in_rnn_block_("memory")
        layer = "fluid.layers.StaticRNN.memory"
        check_type(init, "init", (ir.Variable, type(None)), layer)
        check_type(shape, "shape", (list, tuple, type(None)), layer)
        check_type(batch_ref, "batch_ref", (ir.Variable, type(None)), layer)
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape "
                                 "and batch_ref")
            init = self._first_value(shape, batch_ref, init_value,
                                     init_batch_dim_idx, ref_batch_dim_idx)
        pre_mem = self.helper.create_variable(
            name=names.generate(f"{self.helper.name}@mem"), dtype=init.dtype,
            shape=init.shape)
        self.memories[pre_mem.name] = _Link(init, pre_mem)
        return pre_mem

    def _first_value(self, shape, like, value, out_dim, in_dim):
        parent = _outside(self.helper)
        # Inside, the step of an input has the name of the whole.
        whole = parent._find_var_recursive(like.name) or like
        out = parent._temporary(f"{self.helper.name}@memory_boot", like.dtype)
        parent.append_op("fill_constant_batch_size_like",
                         inputs={"Input": whole}, outputs={"Out": out},
                         attrs={"value": float(value), "shape": list(shape),
                                "dtype": like.dtype, "input_dim_idx": in_dim,
                                "output_dim_idx": out_dim})
        return out

    def step_input(self, x):
        """The step of an input."""
        self._assert_in_rnn_block_("step_input")
        check_type(x, "x", ir.Variable, "fluid.layers.StaticRNN.step_input")
        if self.seq_len is None:
            self.seq_len = x.shape[0]
        elif x.shape[0] != -1 and self.seq_len != x.shape[0]:
            raise ValueError("Static RNN only take fix seq_len input")
        step = self.helper.create_variable(name=x.name, dtype=x.dtype,
                                           shape=list(x.shape[1:]),
                                           type=x.type)
        self.inputs.append(step)
        return step

    def step_output(self, o):
        """What a step gives."""
        self._assert_in_rnn_block_("step_output")
        check_type(o, "o", ir.Variable, "fluid.layers.StaticRNN.step_output")
        inside = self.helper.create_variable_for_type_inference(o.dtype)
        self.helper.append_op("rnn_memory_helper", inputs={"X": o},
                              outputs={"Out": inside},
                              attrs={"dtype": o.dtype})
        self.outputs.append(_outside(self.helper).create_var(
            name=inside.name, dtype=inside.dtype,
            shape=[self.seq_len] + list(inside.shape)))

    def output(self, *outputs):
        """What a step gives, each of several."""
        for each in outputs:
            self.step_output(each)

    def update_memory(self, mem, var):
        """What the step makes of a state."""
        layer = "fluid.layers.StaticRNN.update_memory"
        check_type(mem, "mem", ir.Variable, layer)
        check_type(var, "var", ir.Variable, layer)
        self.memories[mem.name].mem = var

    def __call__(self, *args, **kwargs):
        if self.status != self.AFTER_RNN_BLOCK:
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self.outputs:
            raise ValueError("RNN has no output")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _states(self, block):
        """The names under which the step leaves its states."""
        left = []
        for link in self.memories.values():
            if link.mem is None:
                raise AssertionError(f"{link.init.name} should be updated in "
                                     "every step.")
            made = block._temporary(f"{self.helper.name}.tmp", link.mem.dtype)
            block.append_op("rnn_memory_helper", inputs={"X": link.mem},
                            outputs={"Out": made},
                            attrs={"dtype": link.mem.dtype})
            left.append(made.name)
        return left

    def _complete_op(self):
        self.status = self.AFTER_RNN_BLOCK
        program = self.helper.main_program
        block, parent = program.current_block(), _outside(self.helper)
        own = {v.name for v in self.inputs} | set(self.memories)
        read, _ = _traffic(block)
        params = [parent._var_recursive(n) for n in read if n not in own]
        states = self._states(block)
        parent.append_op(
            "recurrent",
            inputs={"inputs": [parent._var_recursive(v.name)
                               for v in self.inputs],
                    "initial_states": [m.init for m in self.memories.values()],
                    "parameters": params},
            outputs={"outputs": self.outputs,
                     "step_scopes": parent.create_var(
                         type=VarType.STEP_SCOPES)},
            attrs={"has_states": bool(states),
                   "ex_states": list(self.memories), "states": states,
                   "sub_block": block})


class DynamicRNN:
    """A block that runs for each step of sequences; the shorter ones end
    before the longer ones."""

    BEFORE_RNN, IN_RNN, AFTER_RNN = 0, 1, 2

    def __init__(self, name=None):
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = self.BEFORE_RNN
        self.lod_rank_table = self.max_seq_len = None
        self.step_idx = self.zero_idx = None
        self.mem_dict = {}
        self.output_array, self.outputs = [], []
        self.input_array, self.mem_link = [], []
        self.cond = self.helper.create_variable_for_type_inference("bool")
        self.while_op = While(self.cond)

    def _assert_in_rnn_block_(self, method):
        if self.status != self.IN_RNN:
            raise ValueError(f"{method} can only be invoked inside rnn block.")

    def _rank(self, parent, x, level):
        """The first input says how long the sequences are."""
        self.lod_rank_table = parent.create_var(
            name=names.generate("lod_rank_table"), dtype="int64",
            stop_gradient=True, type=VarType.LOD_RANK_TABLE)
        parent.append_op("lod_rank_table", inputs={"X": x},
                         outputs={"Out": self.lod_rank_table},
                         attrs={"level": level})
        self.max_seq_len = parent.create_var(
            name=names.generate("dynamic_rnn_max_seq_len"), dtype="int64")
        parent.append_op("max_sequence_len",
                         inputs={"RankTable": self.lod_rank_table},
                         outputs={"Out": self.max_seq_len})
        self.cond.stop_gradient = True
        parent.append_op("less_than", inputs={"X": self.step_idx,
                                              "Y": self.max_seq_len},
                         outputs={"Out": self.cond},
                         attrs={"force_cpu": True})

    def step_input(self, x, level=0):
        """The step of an input."""
        self._assert_in_rnn_block_("step_input")
        if not isinstance(x, ir.Variable):
            raise TypeError("step_input() can only take a Variable as its "
                            "input.")
        parent = _outside(self.helper)
        if self.lod_rank_table is None:
            self._rank(parent, x, level)
        array = parent.create_var(
            name=names.generate("dynamic_rnn_input_array"), dtype=x.dtype,
            type=VarType.LOD_TENSOR_ARRAY)
        self.input_array.append((array, x.dtype))
        parent.append_op("lod_tensor_to_array",
                         inputs={"X": x, "RankTable": self.lod_rank_table},
                         outputs={"Out": array})
        return array_read(array, self.step_idx)

    def _reordered(self, parent, x, key):
        out = parent._temporary(key, x.dtype)
        parent.append_op("reorder_lod_tensor_by_rank",
                         inputs={"X": x, "RankTable": self.lod_rank_table},
                         outputs={"Out": out})
        return out

    def static_input(self, x):
        """All of x, of those sequences that go on, in every step."""
        self._assert_in_rnn_block_("static_input")
        if not isinstance(x, ir.Variable):
            raise TypeError("static_input() can only take a Variable as its "
                            "input")
        if self.lod_rank_table is None:
            raise RuntimeError("static_input() must be called after "
                               "step_input().")
        x = self._reordered(_outside(self.helper), x,
                            "dynamic_rnn_static_input_reordered")
        return shrink_memory(x, self.step_idx, self.lod_rank_table)

    @contextlib.contextmanager
    def block(self):
        """What is written inside runs once for each step of the sequences."""
        if self.status != self.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        self.step_idx = fill_constant([1], "int64", 0, force_cpu=True)
        self.step_idx.stop_gradient = False
        self.status = self.IN_RNN
        with self.while_op.block():
            yield
            increment(self.step_idx, 1.0, in_place=True)
            for new, array in self.mem_link:
                array_write(new, self.step_idx, array)
            _less_than(self.step_idx, self.max_seq_len, cond=self.cond)
        self.status = self.AFTER_RNN
        self.outputs = [array_to_lod_tensor(a, self.lod_rank_table)
                        for a in self.output_array]

    def __call__(self, *args, **kwargs):
        if self.status != self.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited "
                             "outside the rnn block.")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def memory(self, init=None, shape=None, value=0.0, need_reorder=False,
               dtype="float32"):
        """A state, which begins as init or as value in that shape."""
        self._assert_in_rnn_block_("memory")
        parent = _outside(self.helper)
        self._init_zero_idx_(parent)
        if init is None:
            init = self._first_value(parent, shape, value, dtype)
        elif not isinstance(init, ir.Variable):
            raise TypeError("The input arg `init` of memory() must be a "
                            "Variable")
        elif need_reorder:
            if self.lod_rank_table is None:
                raise ValueError("If set need_reorder to True, make sure "
                                 "step_input be invoked before memory(init="
                                 "init, need_reordered=True, ...).")
            init = self._reordered(parent, init,
                                   "dynamic_rnn_mem_init_reordered")
        array = parent.create_var(name=names.generate("dynamic_rnn_mem_array"),
                                  dtype=init.dtype,
                                  type=VarType.LOD_TENSOR_ARRAY)
        parent.append_op("write_to_array",
                         inputs={"X": init, "I": self.zero_idx},
                         outputs={"Out": array})
        found = shrink_memory(array_read(array, self.step_idx), self.step_idx,
                              self.lod_rank_table)
        self.mem_dict[found.name] = array
        return found

    def _first_value(self, parent, shape, value, dtype):
        if not self.input_array:
            raise ValueError("step_input should be invoked before memory("
                             "shape=..., value=...)")
        array, kind = self.input_array[0]
        first = parent._temporary("in0", kind)
        parent.append_op("read_from_array",
                         inputs={"X": array, "I": self.zero_idx},
                         outputs={"Out": first})
        out = parent._temporary("mem_init", dtype)
        parent.append_op("fill_constant_batch_size_like",
                         inputs={"Input": first}, outputs={"Out": out},
                         attrs={"shape": [-1] + list(shape),
                                "value": float(value), "dtype": dtype})
        return out

    def update_memory(self, ex_mem, new_mem):
        """What the step makes of a state."""
        self._assert_in_rnn_block_("update_memory")
        for name, given in (("ex_mem", ex_mem), ("new_mem", new_mem)):
            if not isinstance(given, ir.Variable):
                raise TypeError(f"The input arg `{name}` of update_memory() "
                                "must be a Variable")
        array = self.mem_dict.get(ex_mem.name)
        if array is None:
            raise ValueError("Please invoke memory before update_memory")
        if self.lod_rank_table is None:
            raise ValueError("Please invoke step_input before update_memory")
        self.mem_link.append((new_mem, array))

    def output(self, *outputs):
        """What a step gives."""
        self._assert_in_rnn_block_("output")
        parent = _outside(self.helper)
        for each in outputs:
            array = parent.create_var(
                name=names.generate(f"{self.helper.name}_output_array_"
                                    f"{each.name}"),
                dtype=each.dtype, type=VarType.LOD_TENSOR_ARRAY)
            array_write(each, self.step_idx, array)
            self.output_array.append(array)

    def _init_zero_idx_(self, parent):
        if self.zero_idx is None:
            self.zero_idx = parent._temporary("zero_idx", "int64")
            parent.append_op("fill_constant", outputs={"Out": self.zero_idx},
                             attrs={"shape": [1], "dtype": "int64",
                                    "value": 0.0, "force_cpu": True})
