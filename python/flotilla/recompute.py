"""Gradients that compute parts of the net again, so that what lies between two
checkpoints need not be kept from the way there.

A segment reaches from the readers of one checkpoint to the maker of the next.
Before the gradients of its operators come, those operators are there once
more, with other names for what nobody outside of the segment reads.
"""
from . import names


def fix_seeds(block):
    """Dropout draws the same numbers again: it takes its seed from an operator
    in front of it."""
    for i, op in reversed(list(enumerate(block.ops))):
        if op.type != "dropout" or op.input("Seed"):
            continue
        attrs = {n: op.attr(n) for n in op.attr_names}
        seed = attrs["seed"] if attrs.pop("fix_seed") else 0
        inputs, outputs = {"X": op.input("X")}, _slots(op, op.output_names,
                                                      op.output)
        block._remove_op(i)
        out = block._temporary(names.generate("seed") + ".tmp", "int32")
        block._insert_op(i, "seed", outputs={"Out": out},
                         attrs={"seed": seed, "op_role": attrs["op_role"]})
        block._insert_op(i + 1, "dropout", inputs={**inputs, "Seed": out},
                         outputs=outputs, attrs=attrs)


def _slots(op, slot_names, of):
    return {slot: of(slot) for slot in slot_names}


def _first_reader(ops, name):
    return min((i for i, op in enumerate(ops) if name in op.input_arg_names),
               default=len(ops))


def _last_maker(ops, name):
    return max((i for i, op in enumerate(ops) if name in op.output_arg_names),
               default=-1)


def _segments(ops, checkpoints):
    """[first, end) of the operators between two checkpoints in turn."""
    checkpoints = sorted(checkpoints, key=lambda c: _last_maker(ops, c))
    if len(checkpoints) == 1:
        last = _last_maker(ops, checkpoints[0])
        return [(0, last + 1)] if last > 0 else []
    pairs = ((_first_reader(ops, a), _last_maker(ops, b))
             for a, b in zip(checkpoints, checkpoints[1:]))
    found = [(first, last + 1) for first, last in pairs if first < last]
    if found and found[0][0] > 0:
        found.insert(0, (0, found[0][0]))
    return found


def _inner(block, ops, segment, checkpoints):
    """Names of what a segment makes for itself alone."""
    first, end = segment
    made = {n for op in ops[first:end] for n in op.output_arg_names}
    outside = {n for op in ops[:first] + ops[end:]
               for n in op.input_arg_names}
    seeds = {n for op in ops if op.type == "dropout" for n in op.input("Seed")}
    return {n for n in made - outside - seeds - set(checkpoints)
            if not block.var(n).persistable}


def _is_gradient_of(grad, op):
    """Whether an operator is the gradient of another: it takes a gradient of
    what that one makes."""
    if grad.type != op.type + "_grad":
        return False
    bases = {n.split("@GRAD")[0] for n in grad.input_arg_names if "@GRAD" in n}
    return bool(bases & set(op.output_arg_names))


def _copy(block, at, op, renamed):
    """The same operator once more, over the new names."""
    def new(found):
        return [renamed.get(n, n) for n in found]

    attrs = {n: op.attr(n) for n in op.attr_names}
    attrs["op_role"] = 1  # backward
    block._insert_op(
        at, op.type, attrs=attrs,
        inputs={s: new(op.input(s)) for s in op.input_names},
        outputs={s: new(op.output(s)) for s in op.output_names})


def _repeat(block, forward, segment, inner, suffix):
    ops = forward[segment[0]:segment[1]]
    grads = [g for g in block.ops[len(forward):]
             if any(_is_gradient_of(g, op) for op in ops)]
    if not grads:
        return
    renamed = {n: n + suffix for n in inner}
    for name, new in renamed.items():
        old = block.var(name)
        block.create_var(name=new, shape=old.shape, dtype=old.dtype,
                         lod_level=old.lod_level)
    at = block.ops.index(grads[0])
    for op in ops:
        if set(op.output_arg_names) & inner:
            _copy(block, at, op, renamed)
            at += 1
    for g in grads:
        for name in set(g.input_arg_names) & inner:
            g._rename_input(name, renamed[name])


def rewrite(block, forward, checkpoints):
    """Segments of the forward operators are computed again among the
    gradients, which are behind them in the block."""
    segments = _segments(forward, checkpoints)
    inner = [_inner(block, forward, s, checkpoints) for s in segments]
    for i, (segment, own) in enumerate(zip(segments[::-1], inner[::-1])):
        _repeat(block, forward, segment, own, f".subprog_{i}")
