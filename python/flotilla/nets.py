"""Small nets that are built often."""
from . import layers
from .check import check_variable_and_dtype


def simple_img_conv_pool(input, num_filters, filter_size, pool_size,
                         pool_stride, pool_padding=0, pool_type="max",
                         global_pooling=False, conv_stride=1, conv_padding=0,
                         conv_dilation=1, conv_groups=1, param_attr=None,
                         bias_attr=None, act=None, use_cudnn=True):
    """A convolution over images, and what windows of it have."""
    conv = layers.conv2d(input=input, num_filters=num_filters,
                         filter_size=filter_size, stride=conv_stride,
                         padding=conv_padding, dilation=conv_dilation,
                         groups=conv_groups, param_attr=param_attr,
                         bias_attr=bias_attr, act=act, use_cudnn=use_cudnn)
    return layers.pool2d(input=conv, pool_size=pool_size, pool_type=pool_type,
                         pool_stride=pool_stride, pool_padding=pool_padding,
                         global_pooling=global_pooling, use_cudnn=use_cudnn)


def _each(value, n, name):
    """One value for all of n convolutions, or one for each."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise AssertionError(f"{name} has {len(value)} values for {n} "
                             "convolutions")
    return value


def img_conv_group(input, conv_num_filter, pool_size, conv_padding=1,
                   conv_filter_size=3, conv_act=None, param_attr=None,
                   conv_with_batchnorm=False, conv_batchnorm_drop_rate=0.0,
                   pool_stride=1, pool_type="max", use_cudnn=True):
    """Convolutions over images, one behind the other, each normed if that is
    wanted, and what windows of the last have."""
    if not isinstance(conv_num_filter, (list, tuple)):
        raise AssertionError("conv_num_filter is a list of numbers of filters, "
                             f"not {conv_num_filter!r}")
    n, out = len(conv_num_filter), input
    each = zip(conv_num_filter,
               _each(conv_filter_size, n, "conv_filter_size"),
               _each(conv_padding, n, "conv_padding"),
               _each(param_attr, n, "param_attr"),
               _each(conv_with_batchnorm, n, "conv_with_batchnorm"),
               _each(conv_batchnorm_drop_rate, n, "conv_batchnorm_drop_rate"))
    for filters, size, padding, attr, is_normed, drop_rate in each:
        out = layers.conv2d(input=out, num_filters=filters, filter_size=size,
                            padding=padding, param_attr=attr,
                            act=None if is_normed else conv_act,
                            use_cudnn=use_cudnn)
        if is_normed:
            out = layers.batch_norm(input=out, act=conv_act)
            if abs(drop_rate) > 1e-5:
                out = layers.dropout(x=out, dropout_prob=drop_rate)
    return layers.pool2d(input=out, pool_size=pool_size, pool_type=pool_type,
                         pool_stride=pool_stride, use_cudnn=use_cudnn)


def sequence_conv_pool(input, num_filters, filter_size, param_attr=None,
                       act="sigmoid", pool_type="max", bias_attr=None):
    """A convolution over sequences, and a number for each filter."""
    check_variable_and_dtype(input, "input", ["float32", "float64"],
                             "sequence_conv_pool")
    conv = layers.sequence_conv(input=input, num_filters=num_filters,
                                filter_size=filter_size, param_attr=param_attr,
                                bias_attr=bias_attr, act=act)
    return layers.sequence_pool(input=conv, pool_type=pool_type)


def glu(input, dim=-1):
    """The first half of a dimension, as far as the second lets it through."""
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64"],
                             "glu")
    a, b = layers.split(input, num_or_sections=2, dim=dim)
    return layers.elementwise_mul(x=a, y=layers.sigmoid(x=b))


def _check_attention(queries, keys, values, num_heads):
    named = {"queries": queries, "keys": keys, "values": values}
    for name, v in named.items():
        check_variable_and_dtype(v, name, ["float32", "float64"],
                                 "scaled_dot_product_attention")
    if len({v.dtype for v in named.values()}) > 1:
        raise TypeError("queries, keys and values have different types")
    shapes = {name: tuple(v.shape) for name, v in named.items()}
    if any(len(s) != 3 for s in shapes.values()):
        raise ValueError(f"attention is over 3 dimensions, not {shapes}")
    if queries.shape[-1] != keys.shape[-1] or keys.shape[-2] != \
            values.shape[-2]:
        raise ValueError("queries are as wide as keys, which are as many as "
                         f"values; here is {shapes}")
    for name in ("keys", "values"):
        if shapes[name][-1] % num_heads:
            raise ValueError(f"{name} of width {shapes[name][-1]} cannot be "
                             f"shared by {num_heads} heads")


def _heads(x, n):
    """[batch, length, width] as [batch, head, length, width of a head]."""
    if n == 1:
        return x
    x = layers.reshape(x=x, shape=list(x.shape[:-1]) + [n, x.shape[-1] // n])
    return layers.transpose(x=x, perm=[0, 2, 1, 3])


def _together(x):
    """The other way round."""
    if len(x.shape) == 3:
        return x
    x = layers.transpose(x, perm=[0, 2, 1, 3])
    return layers.reshape(x=x, shape=[x.shape[0], x.shape[1],
                                      x.shape[2] * x.shape[3]])


def scaled_dot_product_attention(queries, keys, values, num_heads=1,
                                 dropout_rate=0.0):
    """Values, weighted by how well their keys fit each query."""
    _check_attention(queries, keys, values, num_heads)
    parts = [queries, keys, values]
    if num_heads > 1:
        parts = [layers.fc(input=x, size=x.shape[-1], num_flatten_dims=2)
                 for x in parts]
    q, k, v = (_heads(x, num_heads) for x in parts)
    q = layers.scale(x=q, scale=(keys.shape[-1] // num_heads)**-0.5)
    product = layers.matmul(x=q, y=k, transpose_y=True)
    weights = layers.reshape(
        x=layers.reshape(x=product, shape=[-1, product.shape[-1]],
                         act="softmax"),
        shape=product.shape)
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate,
                                 is_test=False)
    return _together(layers.matmul(weights, v))
