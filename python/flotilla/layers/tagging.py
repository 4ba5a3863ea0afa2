"""Tags of texts: chains of them, pieces that they mark, and how far one
sequence is from another."""
from ..check import check_variable_and_dtype
from ..helper import LayerHelper


def linear_chain_crf(input, label, param_attr=None, length=None):
    """How unlikely the tags of a sequence are, each of which depends on its
    neighbours."""
    check_variable_and_dtype(input, "input", ["float32", "float64"],
                             "linear_chain_crf")
    check_variable_and_dtype(label, "label", ["int64"], "linear_chain_crf")
    helper = LayerHelper("linear_chain_crf", input=input,
                         param_attr=param_attr)
    n = input.shape[1 if length is None else 2]
    weights = helper.create_parameter(helper.param_attr, [n + 2, n],
                                      helper.input_dtype())
    slots = ("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood")
    made = {slot: helper.like(input) for slot in slots}
    helper.append_op("linear_chain_crf",
                     inputs={"Emission": input, "Transition": weights,
                             "Label": label, "Length": length}, outputs=made)
    return made["LogLikelihood"]


def crf_decoding(input, param_attr, label=None, length=None):
    """The likeliest tags by the weights of a linear_chain_crf, or whether they
    are those of label."""
    check_variable_and_dtype(input, "input", ["float32", "float64"],
                             "crf_decoding")
    helper = LayerHelper("crf_decoding")
    path = helper.create_variable_for_type_inference("int64")
    helper.append_op("crf_decoding",
                     inputs={"Emission": input,
                             "Transition":
                                 helper.get_parameter(param_attr.name),
                             "Label": label, "Length": length},
                     outputs={"ViterbiPath": path})
    return path


def chunk_eval(input, label, chunk_scheme, num_chunk_types,
               excluded_chunk_types=None, seq_length=None):
    """Precision, recall and F1 of the pieces that tags mark, and how many were
    found, are there, and are right."""
    check_variable_and_dtype(input, "input", ["int64"], "chunk_eval")
    check_variable_and_dtype(label, "label", ["int64"], "chunk_eval")
    helper = LayerHelper("chunk_eval")
    slots = {"Precision": "float32", "Recall": "float32",
             "F1-Score": "float32", "NumInferChunks": "int64",
             "NumLabelChunks": "int64", "NumCorrectChunks": "int64"}
    made = {slot: helper.create_variable_for_type_inference(dtype)
            for slot, dtype in slots.items()}
    helper.append_op("chunk_eval",
                     inputs={"Inference": input, "Label": label,
                             "SeqLength": seq_length}, outputs=made,
                     attrs={"num_chunk_types": num_chunk_types,
                            "chunk_scheme": chunk_scheme,
                            "excluded_chunk_types":
                                excluded_chunk_types or []})
    return tuple(made.values())


def edit_distance(input, label, normalized=True, ignored_tokens=None,
                  input_length=None, label_length=None):
    """How many ids are changed until one sequence is the other, and how many
    sequences there are."""
    check_variable_and_dtype(input, "input", ["int64"], "edit_distance")
    check_variable_and_dtype(label, "label", ["int64"], "edit_distance")
    helper = LayerHelper("edit_distance")
    if ignored_tokens:
        both = input, label
        kept = [helper.like(v) for v in both]
        for v, out in zip(both, kept):
            helper.append_op("sequence_erase", inputs={"X": v},
                             outputs={"Out": out},
                             attrs={"tokens": list(ignored_tokens)})
        input, label = kept
    inputs = {"Hyps": input, "Refs": label}
    if input_length is not None and label_length is not None:
        inputs.update(HypsLength=input_length, RefsLength=label_length)
    out, count = (helper.create_variable_for_type_inference("int64")
                  for _ in range(2))
    helper.append_op("edit_distance", inputs=inputs,
                     outputs={"Out": out, "SequenceNum": count},
                     attrs={"normalized": normalized})
    return out, count
