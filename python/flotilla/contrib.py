"""What Fluid has under `contrib`: layers of trees and of CTR networks, and decay
beside an optimizer."""
import itertools
import os
import random

from . import ir, layers, names, types
from .helper import LayerHelper
from .initializer import Constant


def shuffle_batch(x, seed=None):
    """The rows of x in another order in each step."""
    helper = LayerHelper("shuffle_batch")
    out = helper.like(x)
    index = helper.create_variable_for_type_inference("int64")
    attrs = {}
    if isinstance(seed, ir.Variable):
        state = seed
    else:
        first = random.randint(-65536, 65535) if seed is None else int(seed)
        attrs["startup_seed"] = first
        state = helper.create_variable(
            name=names.generate("shuffle_batch_seed"), dtype="int64",
            shape=[1], persistable=True)
        helper.set_variable_initializer(state, Constant(first))
    helper.append_op("shuffle_batch", inputs={"X": x, "Seed": state},
                     outputs={"Out": out, "ShuffleIdx": index,
                              "SeedOut": state}, attrs=attrs)
    return out


def _tree(helper, attr, shape, dtype):
    """A tree's numbers, which nothing learns."""
    made = helper.create_parameter(attr, shape, dtype,
                                   default_initializer=Constant(0))
    made.stop_gradient = True
    return made


def tdm_child(x, node_nums, child_nums, param_attr=None, dtype="int32"):
    """The children of nodes of a tree, and which of them are leaves."""
    helper = LayerHelper("tdm_child", param_attr=param_attr)
    tree = _tree(helper, helper.param_attr, [node_nums, 3 + child_nums],
                 "int32")
    child, leaf = (helper.create_variable_for_type_inference(dtype)
                   for _ in range(2))
    helper.append_op("tdm_child", inputs={"X": x, "TreeInfo": tree},
                     outputs={"Child": child, "LeafMask": leaf},
                     attrs={"child_nums": child_nums,
                            "dtype": types.var_type(dtype)})
    return child, leaf


def _offsets(counts):
    """[2, 3] is [0, 2, 5]."""
    found = [0]
    for n in counts:
        found.append(found[-1] + n)
    return found


def tdm_sampler(x, neg_samples_num_list, layer_node_num_list, leaf_node_num,
                tree_travel_attr=None, tree_layer_attr=None,
                output_positive=True, output_list=True, seed=0,
                tree_dtype="int32", dtype="int32"):
    """On each layer of a tree the node above a leaf and nodes beside it:
    samples, labels and a mask."""
    helper = LayerHelper("tdm_sampler")
    counts, negatives = list(layer_node_num_list), list(neg_samples_num_list)
    assert leaf_node_num < sum(counts), (
        "leaf_node_num must be less than total node nums.")
    for layer, (n, wanted) in enumerate(zip(counts, negatives)):
        assert n > wanted, (f"tdm_sampler: layer {layer} has {n} nodes, not "
                            f"{wanted} beside another")
    travel = helper.create_parameter(
        _attr(tree_travel_attr), [leaf_node_num, len(counts)], tree_dtype,
        default_initializer=Constant(0))
    nodes = helper.create_parameter(
        _attr(tree_layer_attr), [sum(counts), 1], tree_dtype,
        default_initializer=Constant(0))
    outs = [helper.create_variable_for_type_inference(dtype)
            for _ in range(3)]
    for v in outs:
        v.stop_gradient = True
    helper.append_op("tdm_sampler",
                     inputs={"X": x, "Travel": travel, "Layer": nodes},
                     outputs=dict(zip(("Out", "Labels", "Mask"), outs)),
                     attrs={"neg_samples_num_list": negatives,
                            "output_positive": output_positive,
                            "layer_offset_lod": _offsets(counts),
                            "seed": seed, "dtype": types.var_type(dtype)})
    if not output_list:
        return tuple(outs)
    return _by_layer(outs, [n + int(output_positive) for n in negatives])


def _attr(given):
    return LayerHelper("tdm_sampler", param_attr=given).param_attr


def _by_layer(outs, counts):
    """Each of the outputs as a list, with a tensor for each layer."""
    lists = [[] for _ in outs]
    ends = _offsets(counts)
    for start, end in zip(ends, ends[1:]):
        parts = [layers.slice(v, axes=[1], starts=[start], ends=[end])
                 for v in outs]
        for found, part in zip(lists, parts):
            part = layers.reshape(part, [-1, end - start, 1])
            part.stop_gradient = True
            found.append(part)
    return tuple(lists)


def distributed_batch_reader(batch_reader):
    """Of the batches of a reader those of this trainer: one of as many as
    there are trainers, and as many for each of them."""
    n = int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
    mine = int(os.environ.get("PADDLE_TRAINER_ID", 0))
    if not 0 <= mine < n:
        raise ValueError(f"distributed_batch_reader: PADDLE_TRAINER_ID={mine} "
                         f"is none of PADDLE_TRAINERS_NUM={n}")

    def batches():
        found = iter(batch_reader())
        while True:
            group = list(itertools.islice(found, n))
            if len(group) < n:
                return
            yield group[mine]

    return batches


def _columns(kind, input, start_index, length):
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    return LayerHelper(kind).apply(
        kind, {"X": inputs}, attrs={"start_index": start_index,
                                    "length": length})


def partial_concat(input, start_index=0, length=-1):
    """The same columns of several matrices, side by side."""
    return _columns("partial_concat", input, start_index, length)


def partial_sum(input, start_index=0, length=-1):
    """The same columns of several matrices, added up."""
    return _columns("partial_sum", input, start_index, length)


def fused_embedding_seq_pool(input, size, is_sparse=False, padding_idx=None,
                             combiner="sum", param_attr=None,
                             dtype="float32"):
    """Rows of a table by id, added up over each sequence; the library makes
    one operator of both."""
    if combiner != "sum":
        raise ValueError(f"fused_embedding_seq_pool: combiner {combiner!r} is "
                         "not sum")
    helper = LayerHelper("fused_embedding_seq_pool", param_attr=param_attr)
    attr = helper.param_attr
    if attr.name is None:
        attr.name = names.generate(helper.name + ".w")
    rows = layers.embedding(input, size, is_sparse=is_sparse,
                            padding_idx=padding_idx, param_attr=attr,
                            dtype=dtype)
    return layers.sequence_pool(rows, "sum")


def match_matrix_tensor(x, y, channel_num, act=None, param_attr=None,
                        dtype="float32", name=None):
    """How each word of one text matches each of another, in channel_num ways
    that are learned; and the words of x by these ways."""
    helper = LayerHelper("match_matrix_tensor", act=act, name=name,
                         param_attr=param_attr)
    assert len(x.shape) == len(y.shape) == 2 and x.shape[1] == y.shape[1], (
        f"x {x.shape} and y {y.shape} must be [-1, h] both")
    w = helper.create_parameter(helper.param_attr,
                                [x.shape[1], channel_num, y.shape[1]], dtype)
    made = {"Out": helper.create_variable_for_type_inference(dtype),
            "Tmp": helper.create_variable_for_type_inference(dtype, True)}
    helper.append_op("match_matrix_tensor", inputs={"X": x, "Y": y, "W": w},
                     outputs=made, attrs={"dim_t": channel_num})
    return helper.append_activation(made["Out"]), made["Tmp"]


def sequence_topk_avg_pooling(input, row, col, topks, channel_num):
    """The means of the largest numbers of each row of matrices that have a row
    for each of row and a column for each of col."""
    return LayerHelper("sequence_topk_avg_pooling").apply(
        "sequence_topk_avg_pooling",
        {"X": input, "ROW": row, "COLUMN": col}, outputs=("Out", "pos"),
        attrs={"topks": list(topks), "channel_num": channel_num})


def ctr_metric_bundle(input, label):
    """Sums over all batches so far: squared errors, errors, predictions, q
    (sigmoid of predictions), clicks, instances."""
    assert tuple(input.shape) == tuple(label.shape), (
        f"ctr_metric_bundle: input has shape {tuple(input.shape)}, label "
        f"{tuple(label.shape)}")
    helper = LayerHelper("ctr_metric_bundle")

    def kept():
        return helper.create_global_variable(persistable=True,
                                             dtype="float32", shape=[1])

    local_abs, local_sqr, prob, q, pos, ins = (kept() for _ in range(6))
    error, likely, ones = (
        helper.create_global_variable(persistable=False, dtype="float32",
                                      shape=[-1]) for _ in range(3))
    batch = [kept() for _ in range(6)]
    batch_prob, batch_abs, batch_sqr, batch_q, batch_pos, batch_ins = batch
    for v in (local_abs, batch_abs, local_sqr, batch_sqr, prob, batch_prob, q,
              batch_q, batch_pos, batch_ins, pos, ins):
        helper.set_variable_initializer(v, Constant(0.0))

    def append(kind, out, **slots):
        helper.append_op(kind, inputs=slots, outputs={"Out": out})

    def add(of_batch, total):
        append("elementwise_add", total, X=of_batch, Y=total)

    append("elementwise_sub", error, X=input, Y=label)
    append("squared_l2_norm", batch_sqr, X=error)
    add(batch_sqr, local_sqr)
    append("l1_norm", batch_abs, X=error)
    add(batch_abs, local_abs)
    append("reduce_sum", batch_prob, X=input)
    add(batch_prob, prob)
    append("sigmoid", likely, X=input)
    append("reduce_sum", batch_q, X=likely)
    add(batch_q, q)
    append("reduce_sum", batch_pos, X=label)
    add(batch_pos, pos)
    helper.append_op("fill_constant_batch_size_like", inputs={"Input": label},
                     outputs={"Out": ones},
                     attrs={"shape": [-1, 1], "dtype": ones.dtype,
                            "value": 1.0})
    append("reduce_sum", batch_ins, X=ones)
    add(batch_ins, ins)
    return local_sqr, local_abs, prob, q, pos, ins


def extend_with_decoupled_weight_decay(base_optimizer):
    """The optimizer with a parameter weight_decay more, by whose share
    parameters shrink before each update."""
    class OptimizerWithDecoupledWeightDecay(base_optimizer):
        """The optimizer, and decay beside it."""

        def __init__(self, weight_decay, apply_decay_param_fun=None,
                     **kwargs):
            if not isinstance(weight_decay, (float, ir.Variable)):
                raise TypeError("coeff should be float or Variable.")
            super().__init__(**kwargs)
            self._weight_decay = weight_decay
            self._is_decayed = apply_decay_param_fun or (lambda name: True)

        def minimize(self, loss, startup_program=None, parameter_list=None,
                     no_grad_set=None):
            with ir.program_guard(loss.block.program, startup_program):
                pairs = self.backward(loss, startup_program, parameter_list,
                                      no_grad_set)
                self._shrink([(p, g) for p, g in pairs
                              if self._is_decayed(p.name)])
                ops = self.apply_optimize(loss, startup_program, pairs)
            return ops, pairs

        def _shrink(self, pairs):
            shares = []
            for p, g in pairs:
                with p.block.program._optimized_guard([p, g]):
                    shares.append(p * self._weight_decay)
            for (p, g), share in zip(pairs, shares):
                with p.block.program._optimized_guard([p, g]):
                    layers.assign(layers.elementwise_sub(p, share), p)

    OptimizerWithDecoupledWeightDecay.__name__ = (
        base_optimizer.__name__ + "WithDecoupledWeightDecay")
    return OptimizerWithDecoupledWeightDecay


def op_freq_statistic(program):
    """How often each operator occurs, and each pair of neighbours: two lists,
    the most frequent first."""
    if not isinstance(program, ir.Program):
        raise TypeError("op_freq_statistic takes a Program. "
                        f"But received {type(program)}")
    one, two = {}, {}
    made_by = {}
    for op in program.global_block().ops:
        one[op.type] = one.get(op.type, 0) + 1
        for name in op.input_arg_names:
            if name in made_by:
                pair = f"{made_by[name]}->{op.type}"
                two[pair] = two.get(pair, 0) + 1
        made_by.update((n, op.type) for n in op.output_arg_names)
    return [sorted(d.items(), key=lambda kv: kv[1], reverse=True)
            for d in (one, two)]
