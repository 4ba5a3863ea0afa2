"""What is fed."""
from .. import ir


def data(name, shape, append_batch_size=True, dtype="float32", lod_level=0,
         type=None, stop_gradient=True):
    """An input of the program; its first dimension is the batch unless
    append_batch_size is false or the shape has an open one."""
    shape = list(shape)
    for i, n in enumerate(shape):
        if n is None:
            shape[i] = -1
        if shape[i] < 0:
            append_batch_size = False
    if append_batch_size:
        shape = [-1] + shape
    return ir.default_main_program().global_block().create_var(
        name=name, shape=shape, dtype=dtype, lod_level=lod_level,
        stop_gradient=stop_gradient, is_data=True)
