"""Layers over images [batch, channels, height, width]."""
from .. import ir
from ..check import check_type, check_variable_and_dtype
from ..helper import LayerHelper
from ..initializer import NormalInitializer

_FORMATS = ("NCHW", "NHWC")


def _pair(value, name):
    """One number for both sides, or one for each."""
    if isinstance(value, (list, tuple)):
        if len(value) != 2 or not all(isinstance(n, int) for n in value):
            raise ValueError(f"{name} must be one integer or two, not {value}")
        return list(value)
    if not isinstance(value, int):
        raise TypeError(f"{name} must be one integer or two, not {value!r}")
    return [value, value]


def _check_format(data_format, layer):
    if data_format not in _FORMATS:
        raise ValueError("Attr(data_format) should be 'NCHW' or 'NHWC'. "
                         f"Received Attr(data_format): {data_format} in "
                         f"{layer}.")


def _sides(padding, data_format, layer):
    """Of four pairs, those of height and width."""
    first = 2 if data_format == "NCHW" else 1
    rest = [p for i, p in enumerate(padding) if i not in (first, first + 1)]
    if any(list(p) != [0, 0] for p in rest):
        raise ValueError(f"Non-zero padding({padding}) in the batch or channel "
                         f"dimensions is not supported in {layer}.")
    return [n for p in padding[first:first + 2] for n in p]


def _padding(padding, data_format, layer):
    """(numbers, algorithm)."""
    if isinstance(padding, str):
        word = padding.upper()
        if word not in ("SAME", "VALID"):
            raise ValueError(f"Unknown padding: '{padding}'. It can only be "
                             "'SAME' or 'VALID'.")
        return [0, 0], word
    if isinstance(padding, (list, tuple)) and len(padding) == 4:
        if isinstance(padding[0], (list, tuple)):
            padding = _sides(padding, data_format, layer)
        padding = list(padding)
        if padding[0] == padding[1] and padding[2] == padding[3]:
            padding = [padding[0], padding[2]]
        return padding, "EXPLICIT"
    return _pair(padding, "padding"), "EXPLICIT"


def conv2d(input, num_filters, filter_size, stride=1, padding=0, dilation=1,
           groups=None, param_attr=None, bias_attr=None, use_cudnn=True,
           act=None, name=None, data_format="NCHW"):
    """num_filters channels of what windows of filter_size see."""
    check_variable_and_dtype(input, "input", ["float16", "float32", "float64"],
                             "conv2d")
    if not isinstance(use_cudnn, bool):
        raise ValueError("Attr(use_cudnn) should be True or False. Received "
                         f"Attr(use_cudnn): {use_cudnn}. ")
    _check_format(data_format, "conv2d")
    last = data_format == "NHWC"
    channels = input.shape[3] if last else input.shape[1]
    if channels < 0:
        raise ValueError("The channel dimmention of the input("
                         f"{input.shape}) should be defined. Received: "
                         f"{channels}.")
    groups = 1 if groups is None else groups
    if channels % groups:
        raise ValueError("the channel of input must be divisible by groups,"
                         f"received: the channel of input is {channels}, the "
                         f"shape of input is {input.shape}, the groups is "
                         f"{groups}")
    helper = LayerHelper("conv2d", bias_attr=bias_attr, act=act, name=name,
                         param_attr=param_attr)
    size = _pair(filter_size, "filter_size")
    numbers, algorithm = _padding(padding, data_format, "conv2d")
    weights = helper.create_parameter(
        helper.param_attr, [num_filters, channels // groups] + size,
        input.dtype, default_initializer=NormalInitializer(
            0.0, (2.0 / (size[0] * size[1] * channels)) ** 0.5, 0))
    depthwise = (channels == groups and num_filters % channels == 0 and
                 not use_cudnn)
    out = helper.like(input)
    helper.append_op(
        "depthwise_conv2d" if depthwise else "conv2d",
        inputs={"Input": input, "Filter": weights}, outputs={"Output": out},
        attrs={"strides": _pair(stride, "stride"), "paddings": numbers,
               "dilations": _pair(dilation, "dilation"), "groups": groups,
               "use_cudnn": use_cudnn, "use_mkldnn": False,
               "fuse_relu_before_depthwise_conv": False,
               "padding_algorithm": algorithm, "data_format": data_format})
    at = 3 if last else 1
    return helper.append_activation(
        helper.append_bias_op(out, dim_start=at, dim_end=at + 1))


def pool2d(input, pool_size=-1, pool_type="max", pool_stride=1, pool_padding=0,
           global_pooling=False, use_cudnn=True, ceil_mode=False, name=None,
           exclusive=True, data_format="NCHW"):
    """The largest or the mean of what windows of pool_size see."""
    if pool_type not in ("max", "avg"):
        raise ValueError("Unknown Attr(pool_type): '%s'. It can only be 'max' "
                         "or 'avg'." % str(pool_type))
    if global_pooling is False and pool_size == -1:
        raise ValueError("When Attr(global_pooling) is False, Attr(pool_size) "
                         "must be passed and be a valid value. Received "
                         f"pool_size: {pool_size}.")
    if not isinstance(use_cudnn, bool):
        raise TypeError("Attr(use_cudnn) should be True or False. Received "
                        f"Attr(use_cudnn): {use_cudnn}.")
    _check_format(data_format, "pool2d")
    check_type(input, "input", ir.Variable, "pool2d")
    if (isinstance(pool_padding, str) and pool_padding.upper() == "VALID" and
            ceil_mode):
        raise ValueError("When Attr(pool_padding) is \"VALID\", Attr(ceil_mode)"
                         " must be False. Received ceil_mode: True.")
    numbers, algorithm = _padding(pool_padding, data_format, "pool2d")
    helper = LayerHelper("pool2d", name=name)
    return helper.apply(
        "pool2d", {"X": input},
        attrs={"pooling_type": pool_type, "ksize": _pair(pool_size,
                                                         "pool_size"),
               "global_pooling": global_pooling,
               "strides": _pair(pool_stride, "pool_stride"),
               "paddings": numbers, "padding_algorithm": algorithm,
               "use_cudnn": use_cudnn, "ceil_mode": ceil_mode,
               "use_mkldnn": False, "exclusive": exclusive,
               "data_format": data_format})


def adaptive_pool2d(input, pool_size, pool_type="max", require_index=False,
                    name=None):
    """As many windows as pool_size says, over all of the image."""
    check_type(input, "input", ir.Variable, "adaptive_pool2d")
    check_type(pool_type, "pool_type", str, "adaptive_pool2d")
    if pool_type not in ("max", "avg"):
        raise ValueError("Unknown pool_type: '%s'. It can only be 'max' or "
                         "'avg'." % str(pool_type))
    if pool_type == "avg" and require_index:
        raise ValueError("invalid setting 'require_index' true when "
                         "'pool_type' is 'avg'.")
    if require_index:
        raise NotImplementedError("adaptive_pool2d: places of the largest are "
                                  "not given; leave require_index out")
    helper = LayerHelper("adaptive_pool2d", name=name)
    return helper.apply("pool2d", {"X": input},
                        attrs={"pooling_type": pool_type, "adaptive": True,
                               "ksize": _pair(pool_size, "pool_size")})
