"""Arrays of tensors, and sequences as arrays of their steps."""
from .. import ir, names
from ..check import check_type
from ..helper import LayerHelper
from ..types import VarType
from .tensor import fill_constant, joined


def create_array(dtype):
    """An empty array; array_write fills it."""
    helper = LayerHelper("array")
    return _new_array(helper, f"{helper.name}.out", dtype)


def _new_array(helper, name, dtype, block=None):
    block = block or helper.main_program.current_block()
    return block.create_var(name=name, dtype=dtype,
                            type=VarType.LOD_TENSOR_ARRAY)


def _check_index(i, layer):
    check_type(i, "i", ir.Variable, layer)
    if i.dtype != VarType.INT64:
        raise TypeError(f"The data type of 'i' in {layer} must be int64, but "
                        f"received {i.dtype}.")


def _check_array(array, layer):
    if (not isinstance(array, ir.Variable) or
            array.type != VarType.LOD_TENSOR_ARRAY):
        raise TypeError(f"array should be tensor array vairable in {layer}")


def array_write(x, i, array=None):
    """Puts x at place i of the array, or of a new one."""
    check_type(x, "x", ir.Variable, "array_write")
    _check_index(i, "array_write")
    helper = LayerHelper("array_write")
    inputs = {"X": x, "I": i}
    if array is None:
        array = _new_array(helper, f"{helper.name}.out", x.dtype)
    else:
        _check_array(array, "array_write")
        # What it holds already: gradients find their way through it.
        inputs["Array"] = array
    helper.append_op("write_to_array", inputs=inputs, outputs={"Out": array})
    return array


def array_read(array, i):
    """The value at place i."""
    helper = LayerHelper("array_read")
    _check_array(array, "array_read")
    _check_index(i, "array_read")
    out = helper.create_variable_for_type_inference(array.dtype)
    helper.append_op("read_from_array", inputs={"X": array, "I": i},
                     outputs={"Out": out})
    return out


def array_length(array):
    """How many tensors an array has."""
    helper = LayerHelper("array_length")
    _check_array(array, "array_length")
    out = helper.create_variable_for_type_inference("int64", True)
    helper.append_op("lod_array_length", inputs={"X": array},
                     outputs={"Out": out})
    return out


def _array_of(vars):
    """A new array that holds these."""
    array = create_array(vars[0].dtype)
    for i, v in enumerate(vars):
        array_write(v, fill_constant([1], "int64", i), array)
    return array


def tensor_array_to_tensor(input, axis=1, name=None, use_stack=False):
    """All values of an array as one tensor, and the size of each."""
    check_type(input, "input", (list, ir.Variable), "tensor_array_to_tensor")
    if isinstance(input, list):
        for i, v in enumerate(input):
            check_type(v, f"input[{i}]", ir.Variable, "tensor_array_to_tensor")
        input = _array_of(input)
    helper = LayerHelper("tensor_array_to_tensor", name=name)
    return joined(helper, input, axis, use_stack)


# --- sequences by their steps ------------------------------------------------

def _check_list(x, layer):
    check_type(x, "x", (ir.Variable, list), layer)
    for i, v in enumerate(x if isinstance(x, list) else []):
        check_type(v, f"input[{i}]", ir.Variable, layer)


def _check_table(table, name, layer):
    check_type(table, name, (ir.Variable, list), layer)
    if isinstance(table, list):
        _check_list(table, layer)
    elif table.type != VarType.LOD_RANK_TABLE:
        raise TypeError(f"{name} of {layer} must be what lod_rank_table makes")


def lod_rank_table(x, level=0):
    """The sequences of a level, the longest first."""
    helper = LayerHelper("lod_rank_table")
    _check_list(x, "lod_rank_table")
    table = helper.create_variable(name=names.generate("lod_rank_table"),
                                   dtype="int64", stop_gradient=True,
                                   type=VarType.LOD_RANK_TABLE)
    helper.append_op("lod_rank_table", inputs={"X": x},
                     outputs={"Out": table}, attrs={"level": level})
    return table


def max_sequence_len(rank_table):
    helper = LayerHelper("max_seqence_len")
    out = helper.create_variable_for_type_inference("int64")
    helper.append_op("max_sequence_len", inputs={"RankTable": rank_table},
                     outputs={"Out": out})
    return out


def lod_tensor_to_array(x, table):
    helper = LayerHelper("lod_tensor_to_array")
    _check_list(x, "lod_tensor_to_array")
    _check_table(table, "table", "lod_tensor_to_array")
    array = _new_array(helper, names.generate("lod_tensor_to_array"), x.dtype)
    helper.append_op("lod_tensor_to_array",
                     inputs={"X": x, "RankTable": table},
                     outputs={"Out": array})
    return array


def array_to_lod_tensor(x, table):
    helper = LayerHelper("array_to_lod_tensor")
    _check_list(x, "array_to_lod_tensor")
    _check_table(table, "table", "array_to_lod_tensor")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("array_to_lod_tensor",
                     inputs={"X": x, "RankTable": table},
                     outputs={"Out": out})
    return out


def shrink_memory(x, i, table):
    """The memory of the sequences that go on at step i."""
    helper = LayerHelper("shrink_memory")
    out = helper.like(x)
    helper.append_op("shrink_rnn_memory",
                     inputs={"X": x, "I": i, "RankTable": table},
                     outputs={"Out": out})
    return out


def reorder_lod_tensor_by_rank(x, rank_table):
    helper = LayerHelper("reorder_lod_tensor_by_rank")
    check_type(x, "x", ir.Variable, "reorder_lod_tensor_by_rank")
    _check_table(rank_table, "rank_table", "reorder_lod_tensor_by_rank")
    out = helper.like(x)
    helper.append_op("reorder_lod_tensor_by_rank",
                     inputs={"X": x, "RankTable": rank_table},
                     outputs={"Out": out})
    return out
