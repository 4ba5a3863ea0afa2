"""Layers over sequences of different length."""
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
    return sequence_pool(input, "first")


def sequence_last_step(input):
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
    hidden = helper.like(input)
    helper.append_op("gru", inputs=inputs, outputs={"Hidden": hidden},
                     attrs={"is_reverse": is_reverse,
                            "gate_activation": gate_activation,
                            "activation": candidate_activation,
                            "origin_mode": origin_mode})
    return hidden
