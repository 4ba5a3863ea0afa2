"""Metrics that are counted while a program runs."""
from ..helper import LayerHelper
from ..initializer import ConstantInitializer
from .nn import topk


def accuracy(input, label, k=1, correct=None, total=None):
    helper = LayerHelper("accuracy")
    values, indices = topk(input, k)
    out = helper.create_variable_for_type_inference("float32")
    correct = correct or helper.create_variable_for_type_inference("int32")
    total = total or helper.create_variable_for_type_inference("int32")
    helper.append_op("accuracy",
                     inputs={"Out": values, "Indices": indices,
                             "Label": label},
                     outputs={"Accuracy": out, "Correct": correct,
                              "Total": total})
    return out


def auc(input, label, curve="ROC", num_thresholds=2**12 - 1, topk=1,
        slide_steps=1):
    """The area over the last batches and over all: (auc, batch_auc, states)."""
    helper = LayerHelper("auc")

    def state(shape):
        v = helper.create_global_variable(
            persistable=True, name=None, dtype="int64", shape=shape)
        helper.set_variable_initializer(v, ConstantInitializer(0.0))
        return v

    def area(shape, steps):
        out = helper.create_variable_for_type_inference("float64")
        pos, neg = state(shape), state(shape)
        helper.append_op("auc",
                         inputs={"Predict": input, "Label": label,
                                 "StatPos": pos, "StatNeg": neg},
                         outputs={"AUC": out, "StatPosOut": pos,
                                  "StatNegOut": neg},
                         attrs={"curve": curve, "slide_steps": steps,
                                "num_thresholds": num_thresholds})
        return out, pos, neg

    ring = [(1 + slide_steps) * (num_thresholds + 1) + (1 if slide_steps else 0)]
    batch, batch_pos, batch_neg = area(
        ring if slide_steps else [1, num_thresholds + 1], slide_steps)
    whole, pos, neg = area([1, num_thresholds + 1], 0)
    return whole, batch, [batch_pos, batch_neg, pos, neg]
