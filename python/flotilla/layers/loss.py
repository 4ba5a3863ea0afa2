"""Losses."""
import numpy as np

from .. import ir
from ..attr import ParamAttr
from ..check import check_type, check_variable_and_dtype
from ..helper import LayerHelper
from ..initializer import Constant, NumpyArrayInitializer
from .generated import equal, reduce_mean, reduce_sum, square
from .nn import expand, matmul, one_hot, reshape, transpose


def cross_entropy(input, label, soft_label=False, ignore_index=-100):
    if soft_label:
        return LayerHelper("cross_entropy").apply(
            "cross_entropy", {"X": input, "Label": label}, ("Y",),
            {"soft_label": True, "ignore_index": ignore_index})
    helper = LayerHelper("cross_entropy2")
    out, xshape, match = (helper.like(input) for _ in range(3))
    helper.append_op("cross_entropy2", inputs={"X": input, "Label": label},
                     outputs={"Y": out, "MatchX": match, "XShape": xshape},
                     attrs={"ignore_index": ignore_index})
    return out


def softmax_with_cross_entropy(logits, label, soft_label=False,
                               ignore_index=-100, numeric_stable_mode=True,
                               return_softmax=False, axis=-1):
    helper = LayerHelper("softmax_with_cross_entropy")
    softmax = helper.like(logits)
    loss = helper.like(logits)
    helper.append_op("softmax_with_cross_entropy",
                     inputs={"Logits": logits, "Label": label},
                     outputs={"Softmax": softmax, "Loss": loss},
                     attrs={"soft_label": soft_label,
                            "ignore_index": ignore_index, "axis": axis,
                            "numeric_stable_mode": numeric_stable_mode})
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(x, label, ignore_index=-100, name=None,
                                      normalize=False):
    helper = LayerHelper("sigmoid_cross_entropy_with_logits", name=name)
    out = helper.like(x)
    helper.append_op("sigmoid_cross_entropy_with_logits",
                     inputs={"X": x, "Label": label}, outputs={"Out": out},
                     attrs={"ignore_index": ignore_index,
                            "normalize": normalize})
    return out


def log_loss(input, label, epsilon=1e-4, name=None):
    helper = LayerHelper("log_loss", name=name)
    out = helper.like(input)
    helper.append_op("log_loss", inputs={"Predicted": input, "Labels": label},
                     outputs={"Loss": out}, attrs={"epsilon": epsilon})
    return out


def square_error_cost(input, label):
    """(input - label)^2, element by element."""
    helper = LayerHelper("square_error_cost")
    off = helper.like(input)
    helper.append_op("elementwise_sub", inputs={"X": input, "Y": label},
                     outputs={"Out": off})
    out = helper.like(input)
    helper.append_op("square", inputs={"X": off}, outputs={"Out": out})
    return out


def mse_loss(input, label):
    """The mean of squares."""
    return reduce_mean(square_error_cost(input, label))


def dice_loss(input, label, epsilon=1e-05, name=None):
    """How little two sets have in common."""
    label = one_hot(label, depth=input.shape[-1])
    inner = list(range(1, len(input.shape)))
    both = reduce_sum(input * label, dim=inner)
    each = reduce_sum(input, dim=inner) + reduce_sum(label, dim=inner)
    return reduce_mean(1 - both * 2 / (each + epsilon))


def npair_loss(anchor, positive, labels, l2_reg=0.002):
    """Anchors are near what has the same label, and far from the rest."""
    n = labels.shape[0]
    labels = expand(reshape(labels, shape=[n, 1], inplace=True),
                    expand_times=[1, n])
    same = equal(labels, transpose(labels, perm=[1, 0])).astype("float32")
    same = same / reduce_sum(same, dim=1, keep_dim=True)
    sizes = (reduce_mean(reduce_sum(square(anchor), 1)) +
             reduce_mean(reduce_sum(square(positive), 1)))
    sizes = sizes * 0.25 * l2_reg
    likeness = matmul(anchor, positive, transpose_x=False, transpose_y=True)
    entropy = softmax_with_cross_entropy(logits=likeness, label=same,
                                         soft_label=True)
    return sizes + reduce_mean(reduce_sum(same * entropy, 0))


def huber_loss(input, label, delta):
    helper = LayerHelper("huber_loss")
    residual = helper.like(input)
    out = helper.like(input)
    helper.append_op("huber_loss", inputs={"X": input, "Y": label},
                     outputs={"Out": out, "Residual": residual},
                     attrs={"delta": float(delta)})
    return out


def bpr_loss(input, label, name=None):
    helper = LayerHelper("bpr_loss", name=name)
    out = helper.like(input)
    helper.append_op("bpr_loss", inputs={"X": input, "Label": label},
                     outputs={"Y": out})
    return out


def margin_rank_loss(label, left, right, margin=0.1, name=None):
    for value, given in ((label, "label"), (left, "left"), (right, "right")):
        check_type(value, given, ir.Variable, "margin_rank_loss")
    return LayerHelper("margin_rank_loss", name=name).apply(
        "margin_rank_loss", {"X1": left, "X2": right, "Label": label},
        ("Out", "Activated"), {"margin": margin})


def teacher_student_sigmoid_loss(input, label, soft_max_up_bound=15.0,
                                 soft_max_lower_bound=-15.0):
    """The loss of a click and of another model's score, which a label has."""
    helper = LayerHelper("teacher_student_sigmoid_loss")
    out = helper.create_variable(dtype=input.dtype)
    helper.append_op("teacher_student_sigmoid_loss",
                     inputs={"X": input, "Label": label}, outputs={"Y": out},
                     attrs={"soft_max_up_bound": float(soft_max_up_bound),
                            "soft_max_lower_bound":
                                float(soft_max_lower_bound)})
    return out


def rank_loss(label, left, right, name=None):
    return LayerHelper("rank_loss", name=name).apply(
        "rank_loss", {"Left": left, "Right": right, "Label": label})


def kldiv_loss(x, target, reduction="mean", name=None):
    return LayerHelper("kldiv_loss", name=name).apply(
        "kldiv_loss", {"X": x, "Target": target}, ("Loss",),
        {"reduction": reduction})


def smooth_l1(x, y, inside_weight=None, outside_weight=None, sigma=None):
    """Per row, the sum of 0.5 (sigma d)^2 where |d| < 1 / sigma^2 and of |d| -
    0.5 / sigma^2 elsewhere, d = x - y."""
    helper = LayerHelper("smooth_l1_loss")
    diff, out = helper.like(x), helper.like(x)
    helper.append_op("smooth_l1_loss",
                     inputs={"X": x, "Y": y, "InsideWeight": inside_weight,
                             "OutsideWeight": outside_weight},
                     outputs={"Diff": diff, "Out": out},
                     attrs={"sigma": 1.0 if sigma is None else float(sigma)})
    return out


def center_loss(input, label, num_classes, alpha, param_attr,
                update_center=True):
    """Half the square of how far a row is from the centre of its class, a
    parameter that follows the rows at the rate alpha."""
    helper = LayerHelper("center_loss", input=input)
    dtype = helper.input_dtype()
    centers = helper.create_parameter(param_attr,
                                      [num_classes, input.shape[1]], dtype)
    centers.stop_gradient = True
    if not isinstance(alpha, ir.Variable):
        check_type(alpha, "alpha", float, "center_loss")
        alpha = helper.create_variable(
            name="centerloss_alpha", shape=[1], dtype="float32",
            persistable=True, stop_gradient=True, initializer=Constant(alpha))
    diff, loss = helper.like(input), helper.like(input)
    helper.append_op("center_loss",
                     inputs={"X": input, "Label": label, "Centers": centers,
                             "CenterUpdateRate": alpha},
                     outputs={"SampleCenterDiff": diff, "Loss": loss,
                              "CentersOut": centers},
                     attrs={"cluster_num": num_classes,
                            "need_update": update_center})
    return loss


def sampled_softmax_with_cross_entropy(
        logits, label, num_samples, num_true=1, remove_accidental_hits=True,
        use_customized_samples=False, customized_samples=None,
        customized_probabilities=None, seed=0):
    """Cross entropy over the true classes and num_samples drawn ones instead
    of over all."""
    helper = LayerHelper("sample_logits")

    def made(dtype):
        return helper.create_variable_for_type_inference(dtype)

    # What is given is copied: a program does not write what is fed.
    samples, shares = made("int64"), made(logits.dtype)
    sampled, places = made(logits.dtype), made("int64")
    soft = made(logits.dtype)
    helper.append_op("sample_logits",
                     inputs={"Logits": logits, "Labels": label,
                             "CustomizedSamples": customized_samples,
                             "CustomizedProbabilities":
                                 customized_probabilities},
                     outputs={"Samples": samples, "Probabilities": shares,
                              "SampledLabels": places,
                              "SampledLogits": sampled,
                              "LogitsDim": made(logits.dtype),
                              "LabelsDim": made(label.dtype)},
                     attrs={"use_customized_samples": use_customized_samples,
                            "uniq": True, "num_samples": num_samples,
                            "remove_accidental_hits": remove_accidental_hits,
                            "seed": seed})
    loss, softmax = made(logits.dtype), made(logits.dtype)
    helper.append_op("one_hot", inputs={"X": places}, outputs={"Out": soft},
                     attrs={"depth": num_samples + 1})
    helper.append_op("softmax_with_cross_entropy",
                     inputs={"Logits": sampled, "Label": soft},
                     outputs={"Softmax": softmax, "Loss": loss},
                     attrs={"soft_label": True, "ignore_index": 0,
                            "numeric_stable_mode": False})
    return loss / num_true


# Fluid's numbers of samplers.
_SAMPLERS = {"uniform": 0, "log_uniform": 1, "custom_dist": 2}


def _alias_table(probs):
    """For each class the share of its place that is its own, and the class
    that has the rest (Walker's method): one draw of a place and one of a
    number give a class."""
    n = len(probs)
    share, alias = [p * n for p in probs], list(range(n))
    small = [i for i in range(n) if share[i] < 1]
    large = [i for i in range(n) if share[i] > 1]
    while small and large:
        i, k = small.pop(), large.pop()
        alias[i] = k
        share[k] -= 1 - share[i]
        if share[k] != 1:
            (small if share[k] < 1 else large).append(k)
    for i in small + large:  # off 1 by rounding
        share[i] = 1.0
    return share, alias


def _given_shares(helper, probs, n_classes):
    """The slots of nce for classes that are drawn by shares of one's own."""
    if probs is None or len(probs) != n_classes:
        raise ValueError("nce: sampler custom_dist needs custom_dist, a share "
                         f"for each of the {n_classes} classes")
    share, alias = _alias_table(probs)

    def kept(values, dtype):
        v = helper.create_parameter(
            ParamAttr(), [n_classes], dtype,
            default_initializer=NumpyArrayInitializer(
                np.array(values, dtype)))
        v.stop_gradient = True
        return v

    return {"CustomDistProbs": kept(probs, "float32"),
            "CustomDistAlias": kept(alias, "int32"),
            "CustomDistAliasProbs": kept(share, "float32")}



def nce(input, label, num_total_classes, sample_weight=None, param_attr=None,
        bias_attr=None, num_neg_samples=None, name=None, sampler="uniform",
        custom_dist=None, seed=0, is_sparse=False):
    """The loss of the true classes against drawn ones, a number a row."""
    if sampler not in _SAMPLERS:
        raise ValueError(f"nce: sampler {sampler!r} is not there; "
                         f"{', '.join(_SAMPLERS)} are")
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr,
                         name=name)
    w = helper.create_parameter(helper.param_attr,
                                [num_total_classes, input.shape[1]],
                                input.dtype)
    b = helper.create_parameter(helper.bias_attr, [num_total_classes, 1],
                                input.dtype, is_bias=True)
    n = 10 if num_neg_samples is None else int(num_neg_samples)
    slots = {"Input": input, "Label": label, "Weight": w, "Bias": b,
             "SampleWeight": sample_weight}
    if sampler == "custom_dist":
        slots.update(_given_shares(helper, custom_dist, num_total_classes))
    cost = helper.apply("nce", slots,
                        ("Cost", "SampleLogits", "SampleLabels"),
                        {"num_total_classes": num_total_classes,
                         "num_neg_samples": n, "seed": seed,
                         "sampler": _SAMPLERS[sampler],
                         "is_sparse": is_sparse})
    return cost / (n + 1)


def _check_tree(num_classes, path_table, path_code, is_custom):
    if is_custom:
        for what, given in (("path_code", path_code),
                            ("path_table", path_table),
                            ("num_classes", num_classes)):
            if given is None:
                raise ValueError(f"{what} should not be None with custom tree")
        return
    if num_classes is None or num_classes < 2:
        raise ValueError("num_classes must not be less than 2 with default "
                         "tree")
    if path_table is not None or path_code is not None:
        raise ValueError("only num_classes should be passed without custom "
                         "tree")


def hsigmoid(input, label, num_classes, param_attr=None, bias_attr=None,
             name=None, path_table=None, path_code=None, is_custom=False,
             is_sparse=False):
    """The loss of a class as that of its path through a binary tree: that of
    the numbers of the classes, or one whose paths are given."""
    check_variable_and_dtype(input, "input", ["float32", "float64"],
                             "hsigmoid")
    check_variable_and_dtype(label, "label", ["int64"], "hsigmoid")
    _check_tree(num_classes, path_table, path_code, is_custom)
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr,
                         bias_attr=bias_attr, name=name)
    outs = {"Out": helper.like(input), "PreOut": helper.like(input)}
    nodes = num_classes if is_custom else num_classes - 1
    inputs = {"X": input, "Label": label, "PathTable": path_table,
              "PathCode": path_code,
              "W": helper.create_parameter(helper.param_attr,
                                           [nodes, input.shape[1]],
                                           input.dtype)}
    if helper.bias_attr:
        inputs["Bias"] = helper.create_parameter(
            helper.bias_attr, [nodes, 1], input.dtype, is_bias=True)
    helper.append_op("hierarchical_sigmoid", inputs=inputs, outputs=outs,
                     attrs={"num_classes": num_classes,
                            "is_sparse": is_sparse})
    return outs["Out"]
