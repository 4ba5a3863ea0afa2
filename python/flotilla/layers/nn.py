"""Layers of networks."""
import sys

import numpy as np

from .. import ir, types
from ..attr import ParamAttr
from ..check import check_dtype, check_type
from ..helper import LayerHelper
from ..initializer import Constant
from .tensor import (assign, counts, is_array, is_open, joined, numbers_known,
                     shape_slots, tensors_of)


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
    """Rows of a parameter for ids of any shape (fluid.embedding)."""
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


def bmm(x, y, name=None):
    return LayerHelper("bmm", name=name).apply("bmm", {"X": x, "Y": y})


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
    check_type(shape, "shape", (list, tuple, ir.Variable), "reshape")
    check_type(actual_shape, "actual_shape", (ir.Variable, type(None)),
               "reshape")
    helper = LayerHelper("reshape2", name=name, act=act)
    inputs, attrs = {"X": x}, {}
    if isinstance(shape, ir.Variable):
        inputs["Shape"] = counts(shape)
    else:
        attrs["shape"] = _new_shape(shape, x)
        if is_open(shape):
            inputs["ShapeTensor"] = tensors_of(helper, shape)
        elif actual_shape is not None:
            inputs["Shape"] = counts(actual_shape)
    out = helper.like(x)
    xshape = helper.create_variable_for_type_inference(x.dtype, True)
    helper.append_op("reshape2", inputs=inputs,
                     outputs={"Out": out, "XShape": xshape}, attrs=attrs)
    return helper.append_activation(out)


def _new_shape(shape, x):
    """What is known of a shape; it must make sense."""
    assert len(shape) > 0, "reshape: the shape has no dimensions"
    known = numbers_known(shape)
    open_at = [i for i, n in enumerate(shape)
               if not isinstance(n, ir.Variable) and n == -1]
    assert len(open_at) < 2, f"reshape: shape {known} has two open dimensions"
    for i, n in enumerate(known):
        assert n > 0 or n == -1 or (n == 0 and i < len(x.shape)), (
            f"reshape: dimension {i} of shape {known} is {n}; x has shape "
            f"{tuple(x.shape)}")
    return known


def _moved(helper, kind, x, slots=None, **attrs):
    """Operators that give their input another shape."""
    out = helper.like(x)
    xshape = helper.create_variable_for_type_inference(x.dtype, True)
    helper.append_op(kind, inputs={"X": x, **(slots or {})},
                     outputs={"Out": out, "XShape": xshape}, attrs=attrs)
    return out


def squeeze(input, axes, name=None):
    return _moved(LayerHelper("squeeze", name=name), "squeeze2", input,
                  axes=list(axes))


def unsqueeze(input, axes, name=None):
    helper = LayerHelper("unsqueeze2", name=name)
    if isinstance(axes, ir.Variable):
        axes.stop_gradient = True
        return _moved(helper, "unsqueeze2", input, {"AxesTensor": axes})
    axes = [axes] if isinstance(axes, int) else list(axes)
    if is_open(axes):
        return _moved(helper, "unsqueeze2", input,
                      {"AxesTensorList": tensors_of(helper, axes)})
    return _moved(helper, "unsqueeze2", input, axes=axes)


def flatten(x, axis=1, name=None):
    check_type(x, "x", ir.Variable, "flatten")
    if not isinstance(axis, int) or not 0 <= axis <= len(x.shape):
        raise ValueError(f"flatten: axis {axis} is not from 0 to "
                         f"{len(x.shape)}, the dimensions of x")
    return _moved(LayerHelper("flatten", name=name), "flatten2", x, axis=axis)


def transpose(x, perm, name=None):
    if len(perm) != len(x.shape):
        raise ValueError(f"transpose: perm {list(perm)} does not name each of "
                         f"the {len(x.shape)} dimensions of x once")
    for i in perm:
        if i >= len(x.shape):
            raise ValueError(f"transpose: perm {list(perm)} names dimension "
                             f"{i}; x has {len(x.shape)}")
    return _moved(LayerHelper("transpose", name=name), "transpose2", x,
                  axis=list(perm))


def split(input, num_or_sections, dim=-1, name=None):
    check_type(num_or_sections, "num_or_sections", (list, int, tuple), "split")
    check_type(dim, "dim", (int, ir.Variable), "split")
    helper = LayerHelper("split", name=name)
    inputs, attrs = {"X": input}, {}
    if isinstance(dim, ir.Variable):
        dim.stop_gradient = True
        inputs["AxisTensor"] = dim
    else:
        dim = dim + len(input.shape) if dim < 0 else dim
        attrs["axis"] = dim
    if isinstance(num_or_sections, int):
        n = attrs["num"] = num_or_sections
        assert n > 1, f"split: {n} is no number of parts"
        _check_parts(input, n, dim)
    else:
        n = len(num_or_sections)
        attrs["sections"] = numbers_known(num_or_sections)
        if is_open(num_or_sections):
            inputs["SectionsTensorList"] = tensors_of(helper, num_or_sections)
    outs = [helper.like(input) for _ in range(n)]
    helper.append_op("split", inputs=inputs, outputs={"Out": outs},
                     attrs=attrs)
    return outs


def _check_parts(x, n, dim):
    if isinstance(dim, int) and x.shape[dim] > 0:
        assert x.shape[dim] % n == 0, (
            f"split: dimension {dim} has {x.shape[dim]} numbers, which {n} "
            "parts cannot share")


def topk(input, k, name=None):
    """The k largest numbers of each row, and where they stand."""
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


def clamp(input, min=None, max=None, output=None, name=None):
    """clip with one limit or two, which may be variables."""
    assert min is not None or max is not None, "clamp: there is no limit"
    helper = LayerHelper("clamp", name=name)
    inputs = {"X": input}
    attrs = {"min": sys.float_info.min, "max": sys.float_info.max}
    for slot, given in (("Min", min), ("Max", max)):
        if isinstance(given, ir.Variable):
            given.stop_gradient = True
            inputs[slot] = given
        elif given is not None:
            check_type(given, slot.lower(), float, "clamp")
            attrs[slot.lower()] = given
    output = helper.like(input) if output is None else output
    helper.append_op("clip", inputs=inputs, outputs={"Out": output},
                     attrs=attrs)
    return output


def clip_by_norm(x, max_norm, name=None):
    return LayerHelper("clip_by_norm", name=name).apply(
        "clip_by_norm", {"X": x}, attrs={"max_norm": max_norm})


def expand(x, expand_times, name=None):
    check_type(expand_times, "expand_times", (list, tuple, ir.Variable),
               "expand")
    if types.name_of(x.dtype) == "bool" and x.stop_gradient:
        raise ValueError("expand: x of type bool is expanded when its "
                         "stop_gradient is False")
    helper = LayerHelper("expand", name=name)
    inputs, attrs = {"X": x}, {}
    if isinstance(expand_times, ir.Variable):
        inputs["ExpandTimes"] = counts(expand_times)
    else:
        attrs["expand_times"] = numbers_known(expand_times)
        for n in expand_times:
            assert isinstance(n, ir.Variable) or n > 0, (
                f"expand: {n} is no number of times")
        if is_open(expand_times):
            inputs["expand_times_tensor"] = tensors_of(helper, expand_times)
    return helper.apply("expand", inputs, attrs=attrs)


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
    helper = LayerHelper("slice")
    inputs, attrs = {"Input": input}, {"axes": list(axes)}
    flags = [1] * len(axes)
    for name, given in (("Starts", starts), ("Ends", ends)):
        if isinstance(given, ir.Variable):
            inputs[name + "Tensor"] = counts(given)
            flags = [-1] * len(axes)
            continue
        attrs[name.lower()] = numbers_known(given)
        if is_open(given):
            inputs[name + "TensorList"] = tensors_of(helper, given)
            flags = [-1 if isinstance(n, ir.Variable) else f
                     for n, f in zip(given, flags)]
    attrs["infer_flags"] = flags
    return helper.apply("slice", inputs, attrs=attrs)


def stack(x, axis=0):
    helper = LayerHelper("stack")
    if is_array(x):
        return joined(helper, x, axis, use_stack=True)[0]
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    return helper.apply("stack", {"X": x}, ("Y",), {"axis": axis})


def shape(input):
    out = LayerHelper("shape").apply("shape", {"Input": input}, dtype="int32")
    out.stop_gradient = True
    return out


def rank(input):
    """The number of dimensions, as a tensor."""
    return assign(np.array(len(input.shape), "int32"))


def _one_hot(kind, input, depth, allow_out_of_range):
    inputs = {"X": input}
    attrs = {"allow_out_of_range": allow_out_of_range}
    if isinstance(depth, ir.Variable):
        depth.stop_gradient = True
        inputs["depth_tensor"] = depth
    else:
        attrs["depth"] = depth
    out = LayerHelper(kind).apply(kind, inputs, attrs=attrs, dtype="float32")
    out.stop_gradient = True
    return out


def one_hot(input, depth, allow_out_of_range=False):
    """A row of zeros with a one for each id; ids have a last dimension of
    1."""
    return _one_hot("one_hot", input, depth, allow_out_of_range)


def one_hot_v2(input, depth, allow_out_of_range=False):
    """A one at the place of each id of any shape (fluid.one_hot)."""
    return _one_hot("one_hot_v2", input, depth, allow_out_of_range)


def index_sample(x, index):
    """Of each row, the numbers at the places that its row of index names."""
    return LayerHelper("index_sample").apply("index_sample",
                                             {"X": x, "Index": index})


def where(condition):
    """Where a condition holds: the indices."""
    return LayerHelper("where_index").apply(
        "where_index", {"Condition": condition}, dtype="int64")


def nonzero(input, as_tuple=False):
    """Where numbers are not 0: their places, or one list a dimension."""
    found = where(input)
    rank = len(input.shape)
    if not as_tuple:
        return found
    if rank == 1:
        return (found,)
    return tuple(slice(found, axes=[rank - 1], starts=[i], ends=[i + 1])
                 for i in range(rank))


def autoincreased_step_counter(counter_name=None, begin=1, step=1):
    """A number that every run of the program raises before all else."""
    helper = LayerHelper("global_step_counter")
    counter, is_new = helper.create_or_get_global_variable(
        name=counter_name or "@STEP_COUNTER@", dtype="int64", shape=[1],
        persistable=True)
    if is_new:
        helper.set_variable_initializer(counter, Constant(begin - 1,
                                                          force_cpu=True))
        helper.main_program.global_block()._prepend_op(
            "increment", inputs={"X": counter}, outputs={"Out": counter},
            attrs={"step": float(step)})
        counter.stop_gradient = True
    return counter


def l2_normalize(x, axis, epsilon=1e-12, name=None):
    """x divided by its norm along an axis, at least epsilon."""
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
    if len(input.shape) < 2:
        return input
    return _moved(LayerHelper("t", name=name), "transpose2", input,
                  axis=[1, 0])


def uniform_random(shape, dtype="float32", min=-1.0, max=1.0, seed=0):
    return _random("uniform_random", shape, dtype,
                   {"min": float(min), "max": float(max), "seed": seed})


def gaussian_random(shape, mean=0.0, std=1.0, seed=0, dtype="float32"):
    return _random("gaussian_random", shape, dtype,
                   {"mean": float(mean), "std": float(std), "seed": seed})


def uniform_random_batch_size_like(input, shape, dtype="float32",
                                   input_dim_idx=0, output_dim_idx=0, min=-1.0,
                                   max=1.0, seed=0):
    return LayerHelper("uniform_random_batch_size_like").apply(
        "uniform_random_batch_size_like", {"Input": input}, dtype=dtype,
        attrs={"shape": list(shape), "input_dim_idx": input_dim_idx,
               "output_dim_idx": output_dim_idx, "min": float(min),
               "max": float(max), "seed": seed, "dtype": dtype})


def gaussian_random_batch_size_like(input, shape, input_dim_idx=0,
                                    output_dim_idx=0, mean=0.0, std=1.0,
                                    seed=0, dtype="float32"):
    return LayerHelper("gaussian_random_batch_size_like").apply(
        "gaussian_random_batch_size_like", {"Input": input}, dtype=dtype,
        attrs={"shape": list(shape), "input_dim_idx": input_dim_idx,
               "output_dim_idx": output_dim_idx, "mean": float(mean),
               "std": float(std), "seed": seed, "dtype": dtype})


def _random_shape(helper, shape, kind):
    if kind != "uniform_random" or isinstance(shape, ir.Variable) or \
            not is_open(shape):
        return shape_slots(shape, kind)
    return ({"ShapeTensorList": tensors_of(helper, shape, "int64")},
            {"shape": numbers_known(shape)})


def _random(kind, shape, dtype, attrs):
    check_type(shape, "shape", (list, tuple, ir.Variable), kind)
    helper = LayerHelper(kind)
    check_dtype(dtype, "dtype", ("float32", "float64"), kind)
    slots, given = _random_shape(helper, shape, kind)
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
    size = [_channels(input, data_layout)]
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
    saved = [helper.create_variable_for_type_inference(input.dtype, True)
             for _ in range(2)]
    out = helper.like(input)
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
    mean, variance = (helper.create_variable_for_type_inference(input.dtype,
                                                                True)
                      for _ in range(2))
    out = helper.like(input)
    helper.append_op("layer_norm", inputs=inputs,
                     outputs={"Y": out, "Mean": mean, "Variance": variance},
                     attrs={"epsilon": epsilon,
                            "begin_norm_axis": begin_norm_axis})
    return helper.append_activation(out)


# First values of what data_norm counts, and of its own scale and bias, by the
# names of param_attr.
_COUNTS = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}
_SHIFTS = {"scale_w": 1.0, "bias": 0.0}


def _channels(input, data_layout):
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"data_layout {data_layout!r} is neither NCHW nor "
                         "NHWC")
    return input.shape[1 if data_layout == "NCHW" else -1]


def _data_norm_parameters(helper, shape, dtype, name, first):
    made = {}
    for suffix, value in first.items():
        full = "batch_square_sum" if suffix == "batch_square" else suffix
        made[full] = helper.create_parameter(
            ParamAttr(name=f"{name}.{full}",
                      initializer=Constant(float(value))), shape, dtype)
    return made


def data_norm(input, act=None, epsilon=1e-05, param_attr=None,
              data_layout="NCHW", in_place=False, name=None,
              moving_mean_name=None, moving_variance_name=None,
              do_model_average_for_mean_and_var=True, slot_dim=-1,
              sync_stats=False, summary_decay_rate=0.9999999,
              enable_scale_and_shift=False):
    """Numbers less their mean, over their deviation, as counted so far."""
    helper = LayerHelper("data_norm", act=act, name=name)
    given = param_attr if isinstance(param_attr, dict) else {}
    attrs = {"epsilon": epsilon, "sync_stats": sync_stats,
             "summary_decay_rate": summary_decay_rate}
    if slot_dim > 0:
        attrs["slot_dim"] = slot_dim

    def parameters(first):
        return _data_norm_parameters(
            helper, [_channels(input, data_layout)], input.dtype, name or "dn",
            {k: given.get(k, v) for k, v in first.items()})

    inputs = {"X": input}
    if enable_scale_and_shift:
        attrs["enable_scale_and_shift"] = True
        inputs.update(parameters(_SHIFTS))
    counted = parameters(_COUNTS)
    inputs.update(BatchSize=counted["batch_size"],
                  BatchSum=counted["batch_sum"],
                  BatchSquareSum=counted["batch_square_sum"])
    means, scales = (helper.create_variable(dtype=input.dtype,
                                            stop_gradient=True)
                     for _ in range(2))
    out = input if in_place else helper.create_variable(dtype=input.dtype)
    helper.append_op("data_norm", inputs=inputs,
                     outputs={"Y": out, "Means": means, "Scales": scales},
                     attrs=attrs)
    return helper.append_activation(out)
