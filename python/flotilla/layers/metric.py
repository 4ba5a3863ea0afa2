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
    """The area over all batches and over the last ones: (auc, batch_auc,
    states). One bucket a batch of the last ones, one for their sum, and the
    number of the batch."""
    helper = LayerHelper("auc")
    whole, batch = (helper.create_variable_for_type_inference("float64")
                    for _ in range(2))
    buckets = num_thresholds + 1
    shapes = [[(1 + slide_steps) * buckets + 1]] * 2 + [[1, buckets]] * 2
    states = [helper.create_global_variable(persistable=True, dtype="int64",
                                            shape=s) for s in shapes]
    for v in states:
        helper.set_variable_initializer(v, ConstantInitializer(0.0))
    for out, (pos, neg), steps in ((batch, states[:2], slide_steps),
                                   (whole, states[2:], 0)):
        helper.append_op("auc",
                         inputs={"Predict": input, "Label": label,
                                 "StatPos": pos, "StatNeg": neg},
                         outputs={"AUC": out, "StatPosOut": pos,
                                  "StatNegOut": neg},
                         attrs={"curve": curve, "slide_steps": steps,
                                "num_thresholds": num_thresholds})
    return whole, batch, states
