"""Programs and blocks to look at: as text, and as a drawing for Graphviz."""
from . import _core


def pprint_program_codes(program_desc):
    """Prints the text of a program; gives it, too."""
    text = str(program_desc)
    print(text)
    return text


def _expect_skipped(skip_op_callstack):
    if not skip_op_callstack:
        raise NotImplementedError(
            "skip_op_callstack=False: a text has no lines of the script; "
            "op.attr('op_callstack') has those of an operator")


def program_to_code(prog, fout=None, skip_op_callstack=True):
    """Prints the text of a program, or writes it to a file."""
    _expect_skipped(skip_op_callstack)
    print(str(prog), file=fout)


def op_to_code(op, skip_op_callstack=True):
    """The text of an operator."""
    _expect_skipped(skip_op_callstack)
    return str(op)


def pprint_block_codes(block_desc, show_backward=False):
    """Prints the operators of a block, those of gradients and updates only if
    they are wanted."""
    ops = [op for op in block_desc.ops
           if show_backward or not _is_of_training(op)]
    text = "\n".join([f"# block {block_desc.idx}"] + [str(op) for op in ops])
    print(text)
    return text


def _is_of_training(op):
    return op.attr("op_role") != 0


def draw_block_graphviz(block, highlights=None, path="./temp.dot"):
    """Writes the drawing of the program of a block, in the language of dot."""
    if highlights:
        raise NotImplementedError("draw_block_graphviz: highlights are not "
                                  "drawn; operators stand apart by what they "
                                  "are for")
    with open(path, "w", encoding="utf-8") as f:
        f.write(_core.program_dot(block.program._handle))
