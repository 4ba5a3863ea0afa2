"""Layers of networks."""
import numpy as np

from .. import ir
from ..helper import LayerHelper


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
    w = helper.create_parameter(helper.param_attr, size, dtype)
    w.is_distributed = is_distributed
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
