"""Texts from the likeliest words of each step."""
from ..helper import LayerHelper
from .nn import squeeze, topk


def beam_search(pre_ids, pre_scores, ids, scores, beam_size, end_id, level=0,
                is_accumulated=True, name=None, return_parent_idx=False):
    """One step of a search: of what may follow the beginnings of each source,
    the beam_size likeliest."""
    helper = LayerHelper("beam_search", name=name)
    made = {"selected_scores": helper.like(pre_scores),
            "selected_ids": helper.like(pre_ids),
            "parent_idx": helper.create_variable_for_type_inference("int32")}
    helper.append_op("beam_search",
                     inputs={"pre_ids": pre_ids, "pre_scores": pre_scores,
                             "ids": ids, "scores": scores},
                     outputs=made,
                     attrs={"level": level, "beam_size": beam_size,
                            "end_id": end_id,
                            "is_accumulated": is_accumulated})
    found = made["selected_ids"], made["selected_scores"]
    return found + (made["parent_idx"],) if return_parent_idx else found


def beam_search_decode(ids, scores, beam_size, end_id, name=None):
    """Whole texts from the arrays of what beam_search kept in each step."""
    helper = LayerHelper("beam_search_decode", name=name)
    made = {"SentenceIds": helper.like(ids),
            "SentenceScores": helper.like(scores)}
    helper.append_op("beam_search_decode",
                     inputs={"Ids": ids, "Scores": scores}, outputs=made,
                     attrs={"beam_size": beam_size, "end_id": end_id})
    return made["SentenceIds"], made["SentenceScores"]


def gather_tree(ids, parents):
    """Whole texts from the ids of each step and the beams that they follow."""
    return LayerHelper("gather_tree").apply(
        "gather_tree", {"Ids": ids, "Parents": parents})


def ctc_greedy_decoder(input, blank, input_length=None, padding_value=0,
                       name=None):
    """The likeliest class of each step, without repetitions and blanks; with
    input_length of padded sequences, and how long they are then."""
    helper = LayerHelper("ctc_greedy_decoder", name=name)
    ids = topk(input, k=1)[1]
    attrs = {"merge_repeated": True, "blank": blank}
    if input_length is None:
        out = helper.create_variable_for_type_inference("int64")
        helper.append_op("ctc_align", inputs={"Input": ids},
                         outputs={"Output": out}, attrs=attrs)
        return out
    made = {slot: helper.create_variable_for_type_inference("int64")
            for slot in ("Output", "OutputLength")}
    helper.append_op("ctc_align",
                     inputs={"Input": squeeze(ids, [2]),
                             "InputLength": input_length}, outputs=made,
                     attrs={**attrs, "padding_value": padding_value})
    return made["Output"], made["OutputLength"]
