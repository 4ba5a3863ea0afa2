"""Layers over sequences of different length."""
from .. import ir
from ..helper import LayerHelper


def sequence_pool(input, pool_type, is_test=False, pad_value=0.0):
    helper = LayerHelper("sequence_pool")
    out = helper.like(input)
    index = helper.create_variable_for_type_inference("int32", True)
    helper.append_op("sequence_pool", inputs={"X": input},
                     outputs={"Out": out, "MaxIndex": index},
                     attrs={"pooltype": pool_type.upper(), "is_test": is_test,
                            "pad_value": pad_value})
    return out


def sequence_first_step(input):
    """The first row of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input):
    """The last row of each sequence."""
    return sequence_pool(input, "last")


def sequence_softmax(input, use_cudnn=False, name=None):
    helper = LayerHelper("sequence_softmax", name=name)
    out = helper.like(input)
    helper.append_op("sequence_softmax", inputs={"X": input},
                     outputs={"Out": out})
    return out


def sequence_expand(x, y, ref_level=-1, name=None):
    helper = LayerHelper("sequence_expand", name=name)
    out = helper.like(x)
    helper.append_op("sequence_expand", inputs={"X": x, "Y": y},
                     outputs={"Out": out}, attrs={"ref_level": ref_level})
    return out


def sequence_conv(input, num_filters, filter_size=3, filter_stride=1,
                  padding=True, padding_start=None, bias_attr=None,
                  param_attr=None, act=None, name=None):
    helper = LayerHelper("sequence_conv", input=input, param_attr=param_attr,
                         bias_attr=bias_attr, act=act, name=name)
    w = helper.create_parameter(helper.param_attr,
                                [filter_size * input.shape[1], num_filters],
                                input.dtype)
    out = helper.like(input)
    start = -int(filter_size // 2) if padding_start is None else padding_start
    helper.append_op("sequence_conv", inputs={"X": input, "Filter": w},
                     outputs={"Out": out},
                     attrs={"contextStride": filter_stride,
                            "contextStart": start,
                            "contextLength": filter_size})
    return helper.append_activation(helper.append_bias_op(out))


def dynamic_gru(input, size, param_attr=None, bias_attr=None, is_reverse=False,
                gate_activation="sigmoid", candidate_activation="tanh",
                h_0=None, origin_mode=False):
    """A gated recurrent unit over each sequence; input has its three
    products."""
    helper = LayerHelper("gru", param_attr=param_attr, bias_attr=bias_attr)
    w = helper.create_parameter(helper.param_attr, [size, 3 * size],
                                input.dtype)
    b = helper.create_parameter(helper.bias_attr, [1, 3 * size], input.dtype,
                                is_bias=True)
    inputs = {"Input": input, "Weight": w}
    if b is not None:
        inputs["Bias"] = b
    if h_0 is not None:
        inputs["H0"] = h_0
    outs = [helper.like(input) for _ in range(4)]
    helper.append_op("gru", inputs=inputs,
                     outputs=dict(zip(("Hidden", "BatchGate",
                                       "BatchResetHiddenPrev", "BatchHidden"),
                                      outs)),
                     attrs={"is_reverse": is_reverse,
                            "gate_activation": gate_activation,
                            "activation": candidate_activation,
                            "origin_mode": origin_mode})
    return outs[0]


def sequence_concat(input, name=None):
    return LayerHelper("sequence_concat", name=name).apply(
        "sequence_concat", {"X": list(input)})


def sequence_expand_as(x, y, name=None):
    return LayerHelper("sequence_expand_as", name=name).apply(
        "sequence_expand_as", {"X": x, "Y": y})


def sequence_reverse(x, name=None):
    return LayerHelper("sequence_reverse", name=name).apply(
        "sequence_reverse", {"X": x}, ("Y",))


def sequence_pad(x, pad_value, maxlen=None, name=None):
    helper = LayerHelper("sequence_pad", name=name)
    out = helper.like(x)
    length = helper.create_variable_for_type_inference("int64", True)
    helper.append_op("sequence_pad", inputs={"X": x, "PadValue": pad_value},
                     outputs={"Out": out, "Length": length},
                     attrs={"padded_length": -1 if maxlen is None else maxlen})
    return out, length


def sequence_unpad(x, length, name=None):
    return LayerHelper("sequence_unpad", name=name).apply(
        "sequence_unpad", {"X": x, "Length": length})


def sequence_reshape(input, new_dim):
    return LayerHelper("sequence_reshape").apply(
        "sequence_reshape", {"X": input}, attrs={"new_dim": new_dim})


def sequence_slice(input, offset, length, name=None):
    return LayerHelper("sequence_slice", name=name).apply(
        "sequence_slice", {"X": input, "Offset": offset, "Length": length})


def sequence_enumerate(input, win_size, pad_value=0, name=None):
    return LayerHelper("sequence_enumerate", name=name).apply(
        "sequence_enumerate", {"X": input},
        attrs={"win_size": win_size, "pad_value": pad_value})


def sequence_mask(x, maxlen=None, dtype="int64", name=None):
    inputs, attrs = {"X": x}, {"out_dtype": dtype}
    if isinstance(maxlen, ir.Variable):
        inputs["MaxLenTensor"] = maxlen
    else:
        attrs["maxlen"] = -1 if maxlen is None else maxlen
    out = LayerHelper("sequence_mask", name=name).apply(
        "sequence_mask", inputs, ("Y",), attrs, dtype)
    out.stop_gradient = True
    return out


# Fluid's numbers of activations of gru_unit.
_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def gru_unit(input, hidden, size, param_attr=None, bias_attr=None,
             activation="tanh", gate_activation="sigmoid", origin_mode=False):
    """One step of a gated unit: (hidden, reset hidden, gate)."""
    helper = LayerHelper("gru_unit", param_attr=param_attr,
                         bias_attr=bias_attr)
    size = size // 3
    w = helper.create_parameter(helper.param_attr, [size, 3 * size],
                                input.dtype)
    b = helper.create_parameter(helper.bias_attr, [1, 3 * size], input.dtype,
                                is_bias=True)
    gate, reset, new = (helper.like(input) for _ in range(3))
    helper.append_op("gru_unit",
                     inputs={"Input": input, "HiddenPrev": hidden, "Weight": w,
                             "Bias": b},
                     outputs={"Gate": gate, "ResetHiddenPrev": reset,
                              "Hidden": new},
                     attrs={"activation": _ACTIVATIONS[activation],
                            "gate_activation": _ACTIVATIONS[gate_activation],
                            "origin_mode": origin_mode})
    return new, reset, gate
