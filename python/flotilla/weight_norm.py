"""Weights as a direction and a length, w = g v / |v|: what is learned are g and
v, and a layer gets w. The norm is over all of v, or over all axes but one."""
import copy

from . import names


class _Steps:
    """Operators in one block, whose results have names of one helper."""

    def __init__(self, helper, block, dtype):
        self.helper = helper
        self.block = block
        self.dtype = dtype

    def result(self, what):
        return self.block.create_var(
            name=names.generate(f"{self.helper.name}.weight_norm_{what}"),
            dtype=self.dtype, persistable=False)

    def append(self, kind, x, what, out=None, **attrs):
        out = self.result(what) if out is None else out
        self.block.append_op(kind, inputs={"X": x}, outputs={"Out": out},
                             attrs=attrs)
        return out

    def norm(self, x, out=None, dim=None):
        """The root of the sum of squares over the axes in dim, or all."""
        out = self.result("norm") if out is None else out
        size = self.append("abs", x, "abs")
        square = self.append("pow", size, "pow", factor=2.0)
        total = self.append("reduce_sum", square, "sum", dim=dim,
                            keep_dim=False, reduce_all=dim is None)
        return self.append("pow", total, "norm", out, factor=0.5)

    def reshape(self, x, shape, out=None):
        return self.append("reshape", x, "reshape", out, shape=shape)

    def transpose(self, x, axis, out=None):
        return self.append("transpose", x, "transpose", out, axis=axis)

    def norm_except(self, x, dim, out=None):
        """The norm over all axes but dim, in a shape of 1 along those."""
        out = self.result("norm") if out is None else out
        last, ones = len(x.shape) - 1, [1] * (len(x.shape) - 1)
        if dim is None:
            return self.norm(x, out)
        if dim == 0:
            flat = self.reshape(x, [x.shape[0], -1])
            return self.reshape(self.norm(flat, dim=[1]),
                                [x.shape[0]] + ones, out)
        if dim == last:
            flat = self.reshape(x, [-1, x.shape[-1]])
            return self.reshape(self.norm(flat, dim=[0]),
                                ones + [x.shape[-1]], out)
        swap = list(range(len(x.shape)))
        swap[0], swap[dim] = dim, 0
        turned = self.transpose(x, swap)
        flat = self.reshape(turned, [turned.shape[0], -1])
        norm = self.reshape(self.norm(flat, dim=[1]),
                            [turned.shape[0]] + ones)
        return self.transpose(norm, swap, out)


def _part(attr, suffix):
    part = copy.deepcopy(attr)
    part.name = attr.name + suffix
    return part


def create(helper, attr, shape, dtype):
    """The weight; its length and its direction are parameters of both
    programs, and the length begins as that of the direction."""
    from .layers import elementwise_div, elementwise_mul, reshape

    g_shape = [n if i == attr.dim else 1 for i, n in enumerate(shape)]
    g_attr, v_attr = _part(attr, "_g"), _part(attr, "_v")
    startup = helper.startup_program.global_block()
    g = startup.create_parameter(g_shape, dtype, **g_attr._to_kwargs())
    v = startup.create_parameter(shape, dtype,
                                 **v_attr._to_kwargs(with_initializer=True))
    first = _Steps(helper, startup, dtype)
    # Of all of v, the norm is one number, whatever the rank of g.
    norm = first.norm_except(v, attr.dim, None if attr.dim is None else g)
    first.reshape(norm, g_shape, out=g)

    main = helper.main_program
    g = main.global_block().create_parameter(g_shape, dtype,
                                             **g_attr._to_kwargs())
    v = main.global_block().create_parameter(shape, dtype,
                                             **v_attr._to_kwargs())
    norm = _Steps(helper, main.current_block(), dtype).norm_except(v, attr.dim)
    scale = elementwise_div(x=g, y=norm)
    if attr.dim is None:
        return elementwise_mul(x=v, y=scale, axis=-1)
    return elementwise_mul(x=v, y=reshape(x=scale, shape=[v.shape[attr.dim]]),
                           axis=attr.dim)
