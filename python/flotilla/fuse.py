"""What a program of one process does otherwise on servers: a power of beta is
advanced where its update is."""


def fuse(program):
    """Rewrites the main program of a job in place."""
    block = program.global_block()
    for op in block.ops:
        if op.type == "adamax":
            _fuse_power(block, op)


def _writers(block, name):
    return [op for op in block.ops if name in op.output_arg_names]


def _remove(block, ops):
    for op in ops:
        block._remove_op(block.ops.index(op))


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
