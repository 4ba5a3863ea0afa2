"""Ids of features: hashed, sorted out, shared; and what is counted of them."""
from .. import ir, types
from ..check import check_type
from ..helper import LayerHelper


def hash(input, hash_size, num_hash=1, name=None):
    """num_hash numbers below hash_size for each row of ids."""
    check_type(hash_size, "hash_size", int, "hash")
    check_type(num_hash, "num_hash", int, "hash")
    return LayerHelper("hash", name=name).apply(
        "hash", {"X": input}, attrs={"num_hash": num_hash,
                                     "mod_by": hash_size})


def _different(kind, x, outputs, dtype):
    if types.name_of(dtype) not in ("int32", "int64"):
        raise TypeError(f"{kind}: dtype {dtype!r} is not int32 or int64")
    helper = LayerHelper(kind)
    made = [helper.like(x)]
    made += [helper.create_variable_for_type_inference(dtype)
             for _ in outputs[1:]]
    helper.append_op(kind, inputs={"X": x}, outputs=dict(zip(outputs, made)),
                     attrs={"dtype": types.var_type(dtype)})
    return tuple(made)


def unique(x, dtype="int32"):
    """The different ids, and for each place which one it has."""
    return _different("unique", x, ("Out", "Index"), dtype)


def unique_with_counts(x, dtype="int32"):
    """The same, and how often each occurs."""
    return _different("unique_with_counts", x, ("Out", "Index", "Count"),
                      dtype)


def shard_index(input, index_num, nshards, shard_id, ignore_value=-1):
    """The place of each id in one of several parts of a range."""
    if not 0 <= shard_id < nshards:
        raise ValueError(f"The shard_id({shard_id}) should be in "
                         f"[0, {nshards})")
    out = LayerHelper("shard_index").apply(
        "shard_index", {"X": input},
        attrs={"index_num": index_num, "nshards": nshards,
               "shard_id": shard_id, "ignore_value": ignore_value})
    out.stop_gradient = True
    return out


def continuous_value_model(input, cvm, use_cvm=True):
    """Shows and clicks, the first two numbers of a row, as features or left
    out."""
    helper = LayerHelper("cvm")
    out = helper.create_variable(dtype=input.dtype)
    helper.append_op("cvm", inputs={"X": input, "CVM": cvm},
                     outputs={"Y": out}, attrs={"use_cvm": use_cvm})
    return out


def lod_reset(x, y=None, target_lod=None):
    """The same rows in other sequences."""
    helper = LayerHelper("lod_reset")
    if y is not None:
        check_type(y, "y", ir.Variable, "lod_reset")
        return helper.apply("lod_reset", {"X": x, "Y": y})
    if target_lod is None:
        raise ValueError("y and target_lod should not be both none.")
    return helper.apply("lod_reset", {"X": x},
                        attrs={"target_lod": list(target_lod)})


def lod_append(x, level):
    """The same rows, each a sequence of its own below those that x has."""
    if x is None:
        raise ValueError("Input(x) can't be None.")
    helper = LayerHelper("lod_append")
    if isinstance(level, ir.Variable):
        return helper.apply("lod_reset", {"X": x, "Y": level},
                            attrs={"append": True})
    if not isinstance(level, (list, tuple)):
        raise ValueError("Input(level) must be list, tuple or Variable, not "
                         f"{level!r}")
    return helper.apply("lod_reset", {"X": x},
                        attrs={"append": True, "target_lod": list(level)})


def filter_by_instag(ins, ins_tag, filter_tag, is_lod, out_val_if_empty=0):
    """The rows that have one of some tags, and what each counts in a loss."""
    helper = LayerHelper("filter_by_instag")
    out = helper.like(ins)
    weight = helper.create_variable_for_type_inference("float64")
    helper.append_op("filter_by_instag",
                     inputs={"Ins": ins, "Ins_tag": ins_tag,
                             "Filter_tag": filter_tag},
                     outputs={"Out": out, "LossWeight": weight,
                              "IndexMap": helper.like(ins_tag)},
                     attrs={"is_lod": is_lod,
                            "out_val_if_empty": out_val_if_empty})
    return [out, weight]
