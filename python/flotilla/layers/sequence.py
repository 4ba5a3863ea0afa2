"""Layers over sequences of different length."""
from .. import ir
from ..check import check_type, check_variable_and_dtype
from ..helper import LayerHelper
from .nn import fc
from .tensor import concat


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


def row_conv(input, future_context_size, param_attr=None, act=None):
    """Each row with those that follow it, weighed column by column."""
    helper = LayerHelper("row_conv", input=input, param_attr=param_attr,
                         act=act)
    check_variable_and_dtype(input, "input", ["float32"], "row_conv")
    weights = helper.create_parameter(
        helper.param_attr, [future_context_size + 1, input.shape[-1]],
        helper.input_dtype())
    return helper.append_activation(helper.apply(
        "row_conv", {"X": input, "Filter": weights}))


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


def _lstm_inputs(helper, input, dtype, sizes, use_peepholes):
    """Input and weights; sizes: of the cell, of what is handed on."""
    size, handed = sizes
    weight = helper.create_parameter(helper.param_attr, [handed, 4 * size],
                                     dtype)
    inputs = {"Input": input, "Weight": weight}
    if helper.layer_type == "lstmp":
        inputs["ProjWeight"] = helper.create_parameter(
            helper.param_attr, [size, handed], dtype)
    inputs["Bias"] = helper.create_parameter(
        helper.bias_attr, [1, (7 if use_peepholes else 4) * size], dtype,
        is_bias=True)
    return inputs


def _with_first(layer, inputs, h_0, c_0, sizes):
    """First states, where they are given."""
    given = [("h_0", "H0", h_0), ("c_0", "C0", c_0)]
    for what, _, v in given:
        check_type(v, what, (ir.Variable, type(None)), layer)
        if v is not None:
            check_variable_and_dtype(v, what, ["float32", "float64"], layer)
    batch = inputs["Input"].shape[0]
    for (what, slot, v), size in zip(given, sizes):
        if v is None:
            continue
        if tuple(v.shape) != (batch, size):
            raise AssertionError(f"The shape of {what} should be (batch_size, "
                                 f"{size})")
        inputs[slot] = v


def _check_lstm(layer, input, bias_attr):
    if bias_attr is False:
        raise AssertionError(f"bias_attr should not be False in {layer}.")
    check_variable_and_dtype(input, "input", ["float32", "float64"], layer)


def dynamic_lstm(input, size, h_0=None, c_0=None, param_attr=None,
                 bias_attr=None, use_peepholes=True, is_reverse=False,
                 gate_activation="sigmoid", cell_activation="tanh",
                 candidate_activation="tanh", dtype="float32", name=None):
    """A long short-term memory over each sequence; input has its four
    products. Gives hidden and cell."""
    _check_lstm("dynamic_lstm", input, bias_attr)
    helper = LayerHelper("lstm", param_attr=param_attr, bias_attr=bias_attr,
                         name=name)
    size = size // 4
    inputs = _lstm_inputs(helper, input, dtype, (size, size), use_peepholes)
    _with_first("dynamic_lstm", inputs, h_0, c_0, (size, size))
    slots = ("Hidden", "Cell", "BatchGate", "BatchCellPreAct")
    outs = [helper.create_variable_for_type_inference(dtype) for _ in slots]
    helper.append_op("lstm", inputs=inputs, outputs=dict(zip(slots, outs)),
                     attrs={"use_peepholes": use_peepholes,
                            "is_reverse": is_reverse,
                            "gate_activation": gate_activation,
                            "cell_activation": cell_activation,
                            "candidate_activation": candidate_activation})
    return outs[0], outs[1]


def _bound(value, what):
    if value is not None and value < 0:
        raise AssertionError(f"{what} should not be negative.")
    return float(value or 0)


def dynamic_lstmp(input, size, proj_size, param_attr=None, bias_attr=None,
                  use_peepholes=True, is_reverse=False,
                  gate_activation="sigmoid", cell_activation="tanh",
                  candidate_activation="tanh", proj_activation="tanh",
                  dtype="float32", name=None, h_0=None, c_0=None,
                  cell_clip=None, proj_clip=None):
    """dynamic_lstm that hands on a projection of its state. Gives the
    projection and the cell."""
    _check_lstm("dynamic_lstmp", input, bias_attr)
    helper = LayerHelper("lstmp", param_attr=param_attr, bias_attr=bias_attr,
                         name=name)
    size = size // 4
    inputs = _lstm_inputs(helper, input, dtype, (size, proj_size),
                          use_peepholes)
    _with_first("dynamic_lstmp", inputs, h_0, c_0, (proj_size, size))
    # Fluid makes a third variable for nothing; the names count it.
    slots = ("Projection", "Cell", None, "BatchHidden", "BatchGate",
             "BatchCellPreAct")
    outs = [helper.create_variable_for_type_inference(dtype) for _ in slots]
    helper.append_op("lstmp", inputs=inputs,
                     outputs={s: v for s, v in zip(slots, outs) if s},
                     attrs={"use_peepholes": use_peepholes,
                            "cell_clip": _bound(cell_clip, "cell_clip"),
                            "proj_clip": _bound(proj_clip, "proj_clip"),
                            "is_reverse": is_reverse,
                            "gate_activation": gate_activation,
                            "cell_activation": cell_activation,
                            "candidate_activation": candidate_activation,
                            "proj_activation": proj_activation})
    return outs[0], outs[1]


def lstm_unit(x_t, hidden_t_prev, cell_t_prev, forget_bias=0.0,
              param_attr=None, bias_attr=None, name=None):
    """One step of a long short-term memory: (hidden, cell)."""
    helper = LayerHelper("lstm_unit", name=name)
    given = {"x_t": x_t, "hidden_t_prev": hidden_t_prev,
             "cell_t_prev": cell_t_prev}
    for what, v in given.items():
        check_variable_and_dtype(v, what, ["float32", "float64"], "lstm_unit")
    for what, v in given.items():
        if len(v.shape) != 2:
            raise ValueError(f"Rank of {what} must be 2.")
    if len({v.shape[0] for v in given.values()}) > 1:
        raise ValueError("The 1st dimensions of x_t, hidden_t_prev and "
                         "cell_t_prev must be the same.")
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError("The 2nd dimensions of hidden_t_prev and cell_t_prev "
                         "must be the same.")
    products = fc(concat([x_t, hidden_t_prev], axis=1),
                  4 * cell_t_prev.shape[1], param_attr=param_attr,
                  bias_attr=bias_attr)
    cell, hidden = helper.like(x_t), helper.like(x_t)
    helper.append_op("lstm_unit",
                     inputs={"X": products, "C_prev": cell_t_prev},
                     outputs={"C": cell, "H": hidden},
                     attrs={"forget_bias": forget_bias})
    return hidden, cell


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


def sequence_scatter(input, index, updates, name=None):
    return LayerHelper("sequence_scatter", name=name).apply(
        "sequence_scatter", {"X": input, "Ids": index, "Updates": updates})


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


def add_position_encoding(input, alpha, beta, name=None):
    """alpha input + beta times waves that tell the place in a sequence."""
    check_variable_and_dtype(input, "input", ["float32", "float64"],
                             "add_position_encoding")
    return LayerHelper("add_position_encoding", name=name).apply(
        "add_position_encoding", {"X": input},
        attrs={"alpha": float(alpha), "beta": float(beta)})
