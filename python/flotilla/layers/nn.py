"""Layers of networks."""
import numpy as np

from .. import ir
from ..attr import ParamAttr
from ..check import check_dtype, check_type
from ..helper import LayerHelper
from ..initializer import Constant
from .tensor import fill_constant, shape_slots


def _rank_size(shape, start):
    return int(np.prod(shape[start:]))


def fc(input, size, num_flatten_dims=1, param_attr=None, bias_attr=None,
       act=None, name=None):
    """One matrix product per input, their sum, a bias, an activation."""
    helper = LayerHelper("fc", input=input, param_attr=param_attr,
                         bias_attr=bias_attr, act=act, name=name)
    dtype = helper.input_dtype()
    results = []
    for x, attr in helper.iter_inputs_and_params():
        dims = (len(x.shape) - 1 if num_flatten_dims == -1 else
                num_flatten_dims)
        w = helper.create_parameter(attr, [_rank_size(x.shape, dims), size],
                                    dtype)
        out = helper.create_variable_for_type_inference(dtype)
        helper.append_op("mul", inputs={"X": x, "Y": w}, outputs={"Out": out},
                         attrs={"x_num_col_dims": dims, "y_num_col_dims": 1})
        results.append(out)
    if len(results) == 1:
        total = results[0]
    else:
        total = helper.create_variable_for_type_inference(dtype)
        helper.append_op("sum", inputs={"X": results}, outputs={"Out": total})
    with_bias = helper.append_bias_op(
        total, dim_start=len(total.shape) - 1 if num_flatten_dims == -1 else
        num_flatten_dims)
    return helper.append_activation(with_bias)


def _embedding(kind, input, size, is_sparse, is_distributed, padding_idx,
               param_attr, dtype):
    helper = LayerHelper("embedding", param_attr=param_attr)
    w = (helper.create_table(helper.param_attr, size, dtype) if is_distributed
         else helper.create_parameter(helper.param_attr, size, dtype))
    out = helper.create_variable_for_type_inference(dtype)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    helper.append_op(kind, inputs={"Ids": input, "W": w}, outputs={"Out": out},
                     attrs={"is_sparse": is_sparse,
                            "is_distributed": is_distributed,
                            "padding_idx": padding_idx})
    return out


def embedding(input, size, is_sparse=False, is_distributed=False,
              padding_idx=None, param_attr=None, dtype="float32"):
    """Rows of a table by id; ids have a last dimension of 1."""
    return _embedding("lookup_table", input, size, is_sparse, is_distributed,
                      padding_idx, param_attr, dtype)


def embedding_v2(input, size, is_sparse=False, is_distributed=False,
                 padding_idx=None, param_attr=None, dtype="float32"):
    """The same for ids without that dimension (fluid.embedding)."""
    return _embedding("lookup_table_v2", input, size, is_sparse,
                      is_distributed, padding_idx, param_attr, dtype)


def dropout(x, dropout_prob, is_test=False, seed=None, name=None,
            dropout_implementation="downgrade_in_infer"):
    helper = LayerHelper("dropout", name=name)
    out = helper.like(x)
    mask = helper.create_variable_for_type_inference("uint8", True)
    seed = seed or helper.main_program.random_seed
    helper.append_op("dropout", inputs={"X": x},
                     outputs={"Out": out, "Mask": mask},
                     attrs={"dropout_prob": dropout_prob, "is_test": is_test,
                            "fix_seed": bool(seed), "seed": int(seed or 0),
                            "dropout_implementation": dropout_implementation})
    return out


def matmul(x, y, transpose_x=False, transpose_y=False, alpha=1.0, name=None):
    helper = LayerHelper("matmul", name=name)
    out = helper.like(x)
    helper.append_op("matmul", inputs={"X": x, "Y": y}, outputs={"Out": out},
                     attrs={"transpose_X": transpose_x,
                            "transpose_Y": transpose_y, "alpha": float(alpha)})
    return out


def mul(x, y, x_num_col_dims=1, y_num_col_dims=1, name=None):
    helper = LayerHelper("mul", name=name)
    out = helper.like(x)
    helper.append_op("mul", inputs={"X": x, "Y": y}, outputs={"Out": out},
                     attrs={"x_num_col_dims": x_num_col_dims,
                            "y_num_col_dims": y_num_col_dims})
    return out


def mean(x, name=None):
    helper = LayerHelper("mean", name=name)
    out = helper.like(x)
    helper.append_op("mean", inputs={"X": x}, outputs={"Out": out})
    return out


def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    helper = LayerHelper("scale", name=name, act=act)
    out = helper.like(x)
    inputs, attrs = {"X": x}, {"bias": float(bias),
                               "bias_after_scale": bias_after_scale}
    if isinstance(scale, ir.Variable):
        inputs["ScaleTensor"] = scale
    else:
        attrs["scale"] = float(scale)
    helper.append_op("scale", inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return helper.append_activation(out)


def softmax(input, use_cudnn=False, name=None, axis=-1):
    helper = LayerHelper("softmax", name=name)
    out = helper.like(input)
    helper.append_op("softmax", inputs={"X": input}, outputs={"Out": out},
                     attrs={"axis": axis})
    return out


def reshape(x, shape, actual_shape=None, act=None, inplace=False, name=None):
    helper = LayerHelper("reshape2", name=name, act=act)
    out = helper.like(x)
    xshape = helper.create_variable_for_type_inference(x.dtype, True)
    inputs, attrs = {"X": x}, {}
    given = actual_shape if actual_shape is not None else shape
    if isinstance(given, ir.Variable):
        inputs["Shape"] = given
    else:
        attrs["shape"] = [int(n) for n in given]
    helper.append_op("reshape2", inputs=inputs,
                     outputs={"Out": out, "XShape": xshape}, attrs=attrs)
    return helper.append_activation(out)


def _moved(kind, x, name, **attrs):
    """Operators that give their input another shape."""
    helper = LayerHelper(kind, name=name)
    out = helper.like(x)
    xshape = helper.create_variable_for_type_inference(x.dtype, True)
    helper.append_op(kind, inputs={"X": x},
                     outputs={"Out": out, "XShape": xshape}, attrs=attrs)
    return out


def squeeze(input, axes, name=None):
    return _moved("squeeze2", input, name, axes=list(axes))


def unsqueeze(input, axes, name=None):
    return _moved("unsqueeze2", input, name,
                  axes=list(axes) if isinstance(axes, (list, tuple)) else
                  [axes])


def flatten(x, axis=1, name=None):
    return _moved("flatten2", x, name, axis=axis)


def transpose(x, perm, name=None):
    return _moved("transpose2", x, name, axis=list(perm))


def split(input, num_or_sections, dim=-1, name=None):
    helper = LayerHelper("split", name=name)
    dim = dim + len(input.shape) if dim < 0 else dim
    if isinstance(num_or_sections, int):
        n, attrs = num_or_sections, {"num": num_or_sections, "axis": dim}
    else:
        n = len(num_or_sections)
        attrs = {"sections": list(num_or_sections), "axis": dim}
    outs = [helper.like(input)
            for _ in range(n)]
    helper.append_op("split", inputs={"X": input}, outputs={"Out": outs},
                     attrs=attrs)
    return outs


def topk(input, k, name=None):
    helper = LayerHelper("top_k", name=name)
    values = helper.like(input)
    indices = helper.create_variable_for_type_inference("int64", True)
    inputs, attrs = {"X": input}, {}
    if isinstance(k, ir.Variable):
        inputs["K"] = k
    else:
        attrs["k"] = k
    helper.append_op("top_k", inputs=inputs,
                     outputs={"Out": values, "Indices": indices}, attrs=attrs)
    indices.stop_gradient = True
    return values, indices


def cos_sim(X, Y):
    helper = LayerHelper("cos_sim")
    outs = [helper.like(X)
            for _ in range(3)]
    helper.append_op("cos_sim", inputs={"X": X, "Y": Y},
                     outputs=dict(zip(("Out", "XNorm", "YNorm"), outs)))
    return outs[0]


def clip(x, min, max, name=None):
    helper = LayerHelper("clip", name=name)
    out = helper.like(x)
    helper.append_op("clip", inputs={"X": x}, outputs={"Out": out},
                     attrs={"min": float(min), "max": float(max)})
    return out


def _times(times):
    """Numbers, a tensor, or a list of both, as slots and attributes."""
    if isinstance(times, ir.Variable):
        return {"ExpandTimes": times}, {}
    if not any(isinstance(n, ir.Variable) for n in times):
        return {}, {"expand_times": [int(n) for n in times]}
    parts = [n if isinstance(n, ir.Variable) else
             fill_constant([1], "int32", n) for n in times]
    known = [-1 if isinstance(n, ir.Variable) else int(n) for n in times]
    return {"expand_times_tensor": parts}, {"expand_times": known}


def expand(x, expand_times, name=None):
    check_type(x, "x", ir.Variable, "expand")
    check_type(expand_times, "expand_times", (list, tuple, ir.Variable),
               "expand")
    slots, attrs = _times(expand_times)
    return LayerHelper("expand", name=name).apply(
        "expand", {"X": x, **slots}, attrs=attrs)


def expand_as(x, target_tensor, name=None):
    return LayerHelper("expand_as", name=name).apply(
        "expand_as", {"X": x, "target_tensor": target_tensor})


def gather(input, index, overwrite=True):
    return LayerHelper("gather").apply(
        "gather", {"X": input, "Index": index}, attrs={"overwrite": overwrite})


def gather_nd(input, index, name=None):
    return LayerHelper("gather_nd", name=name).apply(
        "gather_nd", {"X": input, "Index": index})


def scatter(input, index, updates, name=None, overwrite=True):
    return LayerHelper("scatter", name=name).apply(
        "scatter", {"X": input, "Ids": index, "Updates": updates},
        attrs={"overwrite": overwrite})


def slice(input, axes, starts, ends):
    """A part of a tensor; starts and ends are numbers, tensors, or lists of
    both."""
    check_type(starts, "starts", (list, tuple, ir.Variable), "slice")
    check_type(ends, "ends", (list, tuple, ir.Variable), "slice")
    inputs, attrs = {"Input": input}, {"axes": list(axes)}
    flags = [1] * len(axes)
    for name, given in (("Starts", starts), ("Ends", ends)):
        if isinstance(given, ir.Variable):
            inputs[name + "Tensor"] = given
            flags = [-1] * len(axes)
            continue
        open_at = [isinstance(n, ir.Variable) for n in given]
        if any(open_at):
            inputs[name + "TensorList"] = [
                n if isinstance(n, ir.Variable) else
                fill_constant([1], "int32", n) for n in given]
            flags = [-1 if is_open else f for is_open, f in
                     zip(open_at, flags)]
        attrs[name.lower()] = [-1 if isinstance(n, ir.Variable) else int(n)
                               for n in given]
    attrs["infer_flags"] = flags
    return LayerHelper("slice").apply("slice", inputs, attrs=attrs)


def stack(x, axis=0):
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return LayerHelper("stack").apply("stack", {"X": x}, ("Y",),
                                      {"axis": axis})


def shape(input):
    out = LayerHelper("shape").apply("shape", {"Input": input}, dtype="int32")
    out.stop_gradient = True
    return out


def one_hot(input, depth, allow_out_of_range=False):
    inputs = {"X": input}
    attrs = {"allow_out_of_range": allow_out_of_range}
    if isinstance(depth, ir.Variable):
        inputs["depth_tensor"] = depth
    else:
        attrs["depth"] = depth
    out = LayerHelper("one_hot").apply("one_hot", inputs, attrs=attrs,
                                       dtype="float32")
    out.stop_gradient = True
    return out


def where(condition):
    """Where a condition holds: the indices."""
    return LayerHelper("where_index").apply(
        "where_index", {"Condition": condition}, dtype="int64")


def l2_normalize(x, axis, epsilon=1e-12, name=None):
    if len(x.shape) == 1:
        axis = 0
    return LayerHelper("l2_normalize", name=name).apply(
        "norm", {"X": x}, ("Out", "Norm"),
        {"axis": 1 if axis is None else axis, "epsilon": epsilon})


def t(input, name=None):
    """A matrix transposed; a vector as it is."""
    if len(input.shape) > 2:
        raise ValueError(f"t takes at most 2 dimensions, not "
                         f"{len(input.shape)}: use transpose")
    return input if len(input.shape) < 2 else transpose(input, [1, 0], name)


def uniform_random(shape, dtype="float32", min=-1.0, max=1.0, seed=0,
                   name=None):
    return _random("uniform_random", shape, dtype, name,
                   {"min": float(min), "max": float(max), "seed": seed})


def gaussian_random(shape, mean=0.0, std=1.0, seed=0, dtype="float32",
                    name=None):
    return _random("gaussian_random", shape, dtype, name,
                   {"mean": float(mean), "std": float(std), "seed": seed})


def _random(kind, shape, dtype, name, attrs):
    check_type(shape, "shape", (list, tuple, ir.Variable), kind)
    helper = LayerHelper(kind, name=name)
    check_dtype(dtype, "dtype", ("float32", "float64"), kind)
    slots, given = shape_slots(shape)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(kind, inputs=slots, outputs={"Out": out},
                     attrs={**attrs, **given, "dtype": dtype})
    out.stop_gradient = True
    return out


# --- normalising -----------------------------------------------------------

def batch_norm(input, act=None, is_test=False, momentum=0.9, epsilon=1e-05,
               param_attr=None, bias_attr=None, data_layout="NCHW",
               in_place=False, name=None, moving_mean_name=None,
               moving_variance_name=None,
               do_model_average_for_mean_and_var=True, use_global_stats=False):
    helper = LayerHelper("batch_norm", param_attr=param_attr,
                         bias_attr=bias_attr, act=act, name=name)
    size = [input.shape[1 if data_layout == "NCHW" else -1]]
    scale_w = helper.create_parameter(helper.param_attr, size, input.dtype,
                                      default_initializer=Constant(1.0))
    bias = helper.create_parameter(helper.bias_attr, size, input.dtype,
                                   is_bias=True)

    def statistic(given, first):
        v = helper.create_parameter(
            ParamAttr(name=given, initializer=Constant(first), trainable=False),
            size, input.dtype)
        v.stop_gradient = True
        return v

    mean_var = statistic(moving_mean_name, 0.0)
    variance = statistic(moving_variance_name, 1.0)
    out = helper.like(input)
    saved = [helper.create_variable_for_type_inference(input.dtype, True)
             for _ in range(2)]
    helper.append_op("batch_norm",
                     inputs={"X": input, "Scale": scale_w, "Bias": bias,
                             "Mean": mean_var, "Variance": variance},
                     outputs={"Y": out, "MeanOut": mean_var,
                              "VarianceOut": variance, "SavedMean": saved[0],
                              "SavedVariance": saved[1]},
                     attrs={"momentum": momentum, "epsilon": epsilon,
                            "is_test": is_test, "data_layout": data_layout,
                            "use_global_stats": use_global_stats})
    return helper.append_activation(out)


def layer_norm(input, scale=True, shift=True, begin_norm_axis=1, epsilon=1e-05,
               param_attr=None, bias_attr=None, act=None, name=None):
    helper = LayerHelper("layer_norm", param_attr=param_attr,
                         bias_attr=bias_attr, act=act, name=name)
    size = [_rank_size(input.shape, begin_norm_axis)]
    inputs = {"X": input}
    if scale:
        inputs["Scale"] = helper.create_parameter(
            helper.param_attr, size, input.dtype,
            default_initializer=Constant(1.0))
    if shift:
        inputs["Bias"] = helper.create_parameter(helper.bias_attr, size,
                                                 input.dtype, is_bias=True)
    out = helper.apply("layer_norm", inputs, ("Y", "Mean", "Variance"),
                       {"epsilon": epsilon,
                        "begin_norm_axis": begin_norm_axis})
    return helper.append_activation(out)


def data_norm(input, act=None, epsilon=1e-05, param_attr=None,
              data_layout="NCHW", in_place=False, name=None,
              moving_mean_name=None, moving_variance_name=None,
              do_model_average_for_mean_and_var=True, slot_dim=-1,
              sync_stats=False, summary_decay_rate=0.9999999,
              enable_scale_and_shift=False):
    helper = LayerHelper("data_norm", act=act, name=name)
    size = [input.shape[1]]
    first = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}
    if isinstance(param_attr, dict):
        first = {k: param_attr.get(k, v) for k, v in first.items()}

    def parameter(suffix, value):
        given = None if name is None else f"{name}.{suffix}"
        return helper.create_parameter(
            ParamAttr(name=given, initializer=Constant(float(value))), size,
            input.dtype)

    inputs = {"X": input, "BatchSize": parameter("batch_size",
                                                 first["batch_size"]),
              "BatchSum": parameter("batch_sum", first["batch_sum"]),
              "BatchSquareSum": parameter("batch_square_sum",
                                          first["batch_square"])}
    if enable_scale_and_shift:
        inputs["scale_w"] = parameter("scale_w", 1.0)
        inputs["bias"] = parameter("bias", 0.0)
    out = helper.apply("data_norm", inputs, ("Y", "Means", "Scales"),
                       {"epsilon": epsilon, "slot_dim": slot_dim,
                        "sync_stats": sync_stats,
                        "summary_decay_rate": summary_decay_rate,
                        "enable_scale_and_shift": enable_scale_and_shift,
                        "data_layout": data_layout})
    return helper.append_activation(out)
