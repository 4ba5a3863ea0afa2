"""What a program of one process does otherwise on servers.

The step of a schedule is the job's there, not a count of how often an operator
ran, which it does once for each part of a parameter; and a power of beta is
advanced where its update is.
"""
COUNTER = "@LR_DECAY_COUNTER@"


def fuse(program, startup):
    """Rewrites the main program of a job in place."""
    block = program.global_block()
    for op in block.ops:
        if op.type == "increment" and op.output("Out") == [COUNTER]:
            _fuse_counter(block, op, startup.global_block())
        elif op.type == "adamax":
            _fuse_power(block, op)


def _writers(block, name):
    return [op for op in block.ops if name in op.output_arg_names]


def _readers(block, name):
    return [op for op in block.ops if name in op.input_arg_names]


def _writer(block, name, kind):
    """The one operator that writes a name, if it is of this kind."""
    found = _writers(block, name)
    return found[0] if len(found) == 1 and found[0].type == kind else None


def _remove(block, ops):
    for op in ops:
        block._remove_op(block.ops.index(op))


# --- the step ----------------------------------------------------------------

def _fuse_counter(block, count, startup):
    """The job's step, from where the counter begins."""
    first = _writer(startup, COUNTER, "fill_constant")
    begin = int(first.attr("value")) + 1 if first is not None else 0
    role = count.attr("op_role")
    at = block.ops.index(count)
    _remove(block, [count])
    step = block._temporary("global_step", "int64")
    block._insert_op(at, "global_step", outputs={"Out": step},
                     attrs={"op_role": role})
    if begin:
        counted = block._temporary("global_step", "int64")
        block._insert_op(at + 1, "scale", inputs={"X": step},
                         outputs={"Out": counted},
                         attrs={"bias": float(begin), "op_role": role})
        step = counted
    for op in _readers(block, COUNTER):
        op._rename_input(COUNTER, step.name)


# --- powers ------------------------------------------------------------------

def _fuse_power(block, update):
    """An update that goes to a server advances the power there."""
    power = update.input("Beta1Pow")
    advances = [op for op in _writers(block, power[0]) if op.type == "scale"]
    if update.output("Beta1PowOut") or len(advances) != 1:
        return
    at = block.ops.index(update)
    inputs = {s: update.input(s) for s in update.input_names}
    outputs = {s: update.output(s) for s in update.output_names}
    attrs = {n: update.attr(n) for n in update.attr_names}
    _remove(block, advances + [update])
    block._insert_op(at, "adamax", inputs=inputs,
                     outputs={**outputs, "Beta1PowOut": power}, attrs=attrs)
