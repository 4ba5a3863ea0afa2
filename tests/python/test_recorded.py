"""What layers, optimizers, clips, decays, schedules and initializers append:
the operators of PaddlePaddle 1.8.5, as recorded.txt has them.

    python3 test_recorded.py --record >recorded.txt

under PaddlePaddle 1.8.5 writes the answers; so does it here, to be compared.
"""
import os
import sys
import unittest

import numpy as np

try:
    import flotilla.compat
    flotilla.compat.install()
except ImportError:
    pass  # under PaddlePaddle itself
import paddle.fluid as fluid

L, O, I = fluid.layers, fluid.optimizer, fluid.initializer
CLIP, DECAY = fluid.clip, fluid.regularizer

CASES = {}

# Attributes that other attributes or the device decide.
UNTOLD = {"op_role", "op_role_var", "op_namescope", "op_callstack",
          "op_device", "use_mkldnn", "use_cudnn", "force_cpu", "str_value",
          "fp32_values", "use_quantizer", "mkldnn_data_type", "int8_values",
          "int32_values", "int64_values", "bool_values", "scale_x", "scale_y",
          "scale_out", "force_fp32_output", "x_data_format", "y_data_format",
          "Scale_x", "Scale_y", "Scale_out", "remote_prefetch", "trainer_id",
          "height_sections", "epmap", "table_names", "grad_inplace",
          "head_number", "fuse_with_relu", "decrease_axis", "data_format",
          "multi_precision", "sub_block", "skip_eager_deletion_vars"}


def case(name):
    def keep(build):
        CASES[name] = build
        return build

    return keep


def x(name="x", shape=(4,), dtype="float32", **rest):
    return L.data(name, list(shape), dtype=dtype, **rest)


def net():
    return L.mean(L.fc(x(), 1))


def minimized(optimizer):
    return lambda: optimizer().minimize(net())


# --- optimizers ---

OPTIMIZERS = {
    "sgd": lambda **k: O.SGD(.1, **k),
    "momentum": lambda **k: O.Momentum(.1, .9, use_nesterov=True, **k),
    "lars_momentum": lambda **k: O.LarsMomentum(.1, .9, **k),
    "adagrad": lambda **k: O.Adagrad(.1, initial_accumulator_value=.5, **k),
    "adam": lambda **k: O.Adam(.1, lazy_mode=True, **k),
    "adamax": lambda **k: O.Adamax(.1, **k),
    "decayed_adagrad": lambda **k: O.DecayedAdagrad(.1, **k),
    "adadelta": lambda **k: O.Adadelta(.1, **k),
    "rmsprop": lambda **k: O.RMSPropOptimizer(.1, centered=True, **k),
    "ftrl": lambda **k: O.Ftrl(.1, **k),
}
for _name, _make in OPTIMIZERS.items():
    CASES["optimizer " + _name] = minimized(_make)
CASES["optimizer adam with a name"] = minimized(
    lambda: OPTIMIZERS["adam"](name="mine"))
CASES["optimizer dpsgd"] = minimized(
    lambda: O.Dpsgd(.1, clip=1., batch_size=16., sigma=1.))
CASES["optimizer of a variable"] = lambda: O.SGD(
    L.fill_constant([1], "float32", .1)).minimize(net())
CASES["optimizer adam of variables"] = lambda: O.Adam(
    .1, beta1=L.create_global_var([1], .9, "float32", persistable=True),
    beta2=L.create_global_var([1], .99, "float32",
                              persistable=True)).minimize(net())


@case("rates and decay of parameters")
def _():
    w = fluid.ParamAttr(learning_rate=.5, regularizer=DECAY.L1Decay(.2))
    b = fluid.ParamAttr(trainable=False)
    O.SGD(.1, regularization=DECAY.L2Decay(.1)).minimize(
        L.mean(L.fc(x(), 1, param_attr=w, bias_attr=b)))


@case("a window of models")
def _():
    O.SGD(.1).minimize(net())
    average = O.ModelAverage(.15, min_average_window=2, max_average_window=4)
    return average.apply_program, average.restore_program


@case("parts computed again")
def _():
    h = L.fc(x(), 3, act="relu")
    g = L.dropout(L.fc(h, 3, act="relu"), .5)
    optimizer = O.RecomputeOptimizer(O.SGD(.1))
    optimizer._set_checkpoints([h, g])
    optimizer.minimize(L.mean(L.fc(g, 1)))


# --- clips and decay ---

OPTIONS = {
    "decay l2": lambda: dict(regularization=DECAY.L2Decay(.1)),
    "decay l1": lambda: dict(regularization=DECAY.L1Decay(.1)),
    "clip by value": lambda: dict(grad_clip=CLIP.GradientClipByValue(1.)),
    "clip by norm": lambda: dict(grad_clip=CLIP.GradientClipByNorm(1.)),
    "clip by global norm": lambda: dict(
        grad_clip=CLIP.GradientClipByGlobalNorm(1.)),
    "clip and decay": lambda: dict(
        grad_clip=CLIP.GradientClipByGlobalNorm(1.),
        regularization=DECAY.L2Decay(.1)),
    "clip some": lambda: dict(grad_clip=CLIP.GradientClipByNorm(
        1., need_clip=lambda p: p.name.endswith("w_0"))),
}
for _name, _options in OPTIONS.items():
    CASES[_name] = minimized(lambda options=_options: O.SGD(.1, **options()))


def sparse(**options):
    rows = L.embedding(x("ids", (1,), "int64"), [10, 3], is_sparse=True)
    O.SGD(.1, **options).minimize(L.mean(L.fc(rows, 1)))


CASES["rows"] = sparse
CASES["rows with decay"] = lambda: sparse(regularization=DECAY.L2Decay(.1))
CASES["rows clipped"] = lambda: sparse(
    grad_clip=CLIP.GradientClipByGlobalNorm(1.))


def set_clip(clip):
    loss = net()
    CLIP.set_gradient_clip(clip)
    O.SGD(.1).minimize(loss)


CASES["set clip by value"] = lambda: set_clip(CLIP.GradientClipByValue(1.))
CASES["set clip by norm"] = lambda: set_clip(CLIP.GradientClipByNorm(1.))
CASES["set clip by global norm"] = lambda: set_clip(
    CLIP.GradientClipByGlobalNorm(1.))


@case("error clip")
def _():
    h = L.fc(x(), 3)
    h.error_clip = CLIP.ErrorClipByValue(1.)
    O.SGD(.1).minimize(L.mean(L.fc(h, 1)))


# --- schedules ---

SCHEDULES = {
    "exponential": lambda: L.exponential_decay(.1, 10, .5),
    "exponential in steps": lambda: L.exponential_decay(.1, 10, .5, True),
    "natural": lambda: L.natural_exp_decay(.1, 10, .5),
    "inverse": lambda: L.inverse_time_decay(.1, 10, .5, True),
    "noam": lambda: L.noam_decay(16, 100),
    "polynomial": lambda: L.polynomial_decay(.1, 10),
    "polynomial again": lambda: L.polynomial_decay(.1, 10, .01, 2., True),
    "cosine": lambda: L.cosine_decay(.1, 10, 3),
    "piecewise": lambda: L.piecewise_decay([5, 10], [.5, .25, .1]),
    "warmup": lambda: L.linear_lr_warmup(.5, 8, .1, .5),
    "warmup of a schedule": lambda: L.linear_lr_warmup(
        L.exponential_decay(.1, 10, .5), 8, .1, .5),
}
for _name, _rate in SCHEDULES.items():
    CASES["schedule " + _name] = lambda rate=_rate: O.SGD(rate()).minimize(
        L.mean(L.fc(x(), 1, bias_attr=False)))

# --- first values ---

INITIALIZERS = {
    "constant": lambda: I.Constant(3.),
    "uniform": lambda: I.Uniform(-2., 2., 7),
    "uniform with a diagonal": lambda: I.Uniform(diag_num=2, diag_step=2,
                                                 diag_val=3.),
    "normal": lambda: I.Normal(1., 2.),
    "truncated": lambda: I.TruncatedNormal(),
    "xavier": lambda: I.Xavier(),
    "xavier normal": lambda: I.Xavier(uniform=False, fan_in=3),
    "msra": lambda: I.MSRA(),
    "msra normal": lambda: I.MSRA(uniform=False),
    "array": lambda: I.NumpyArrayInitializer(
        np.arange(6).reshape(2, 3).astype("float32")),
}
for _name, _first in INITIALIZERS.items():
    CASES["first " + _name] = lambda first=_first: L.create_parameter(
        [2, 3], "float32", default_initializer=first())
CASES["first bilinear"] = lambda: L.create_parameter(
    [2, 1, 4, 4], "float32", default_initializer=I.Bilinear())


@case("first with the seed of a program")
def _():
    fluid.default_startup_program().random_seed = 9
    L.fc(x(), 2)


# --- layers ---

def sequence(name="s", shape=(4,), dtype="float32"):
    return x(name, shape, dtype, lod_level=1)


def n(value, dtype="int32"):
    return L.fill_constant([1], dtype, value)


def y(shape=(1,), dtype="int64"):
    return x("y", shape, dtype)


def array():
    return L.array_write(x(), n(0, "int64"))


LAYERS = {
    "fc": lambda: L.fc([x(), x("z")], 3, act="relu", name="named"),
    "embedding": lambda: L.embedding(x("i", (1,), "int64"), [10, 3],
                                     padding_idx=-1),
    "dropout": lambda: L.dropout(x(), .3, seed=3),
    "split": lambda: L.split(x(shape=(6,)), [2, n(3), 1], dim=1),
    "split at an axis": lambda: L.split(x(shape=(6,)), 2, dim=n(1)),
    "topk": lambda: L.topk(x(), n(2)),
    "reshape": lambda: L.reshape(x(shape=(4, 6)), [-1, n(3), 8], act="relu"),
    "squeeze": lambda: L.squeeze(x(shape=(1, 6)), [1]),
    "unsqueeze": lambda: L.unsqueeze(x(), [n(1)]),
    "transpose": lambda: L.transpose(x(shape=(3, 4)), [0, 2, 1]),
    "flatten": lambda: L.flatten(x(shape=(2, 3)), axis=2),
    "expand": lambda: L.expand(x(), [1, n(2)]),
    "slice": lambda: L.slice(x(shape=(4, 5)), [1, 2], [0, n(1)], [3, 4]),
    "concat": lambda: L.concat([x(), x("z")], axis=n(1)),
    "fill_constant": lambda: L.fill_constant([2, n(3, "int64")], "float32",
                                             1.5),
    "uniform_random": lambda: L.uniform_random([n(2, "int64"), 3]),
    "scale": lambda: L.scale(x(), n(3., "float32"), bias_after_scale=False),
    "pow": lambda: L.pow(x(), n(3., "float32")),
    "one_hot": lambda: L.one_hot(x("i", (1,), "int64"), n(5)),
    "layer_norm": lambda: L.layer_norm(x(), act="relu"),
    "batch_norm": lambda: L.batch_norm(x(), act="relu"),
    "data_norm": lambda: L.data_norm(x(), name="dn"),
    "cross_entropy": lambda: L.cross_entropy(x(), y()),
    "cross_entropy of shares": lambda: L.cross_entropy(
        x(), y((4,), "float32"), soft_label=True),
    "square_error_cost": lambda: L.square_error_cost(x(), y((4,), "float32")),
    "smooth_l1": lambda: L.smooth_l1(x(), y((4,), "float32")),
    "dice_loss": lambda: L.dice_loss(x(), y()),
    "nce": lambda: L.nce(x(), y(), 20, num_neg_samples=5,
                         sampler="log_uniform", name="n", seed=3),
    "nce by shares": lambda: L.nce(
        x(), y(), 5, num_neg_samples=2, sampler="custom_dist",
        custom_dist=[.1, .2, .3, .2, .2]),
    "concat of an array": lambda: L.concat(array(), 1),
    "stack of an array": lambda: L.stack(array(), 1),
    "accuracy": lambda: L.accuracy(x(), y(), k=2),
    "auc": lambda: L.auc(x(shape=(2,)), y()),
    "sequence_conv": lambda: L.sequence_conv(sequence(), 3, act="tanh"),
    "sequence_pool": lambda: L.sequence_pool(sequence(), "max"),
    "sequence_pad": lambda: L.sequence_pad(sequence(), n(0., "float32")),
    "sequence_mask": lambda: L.sequence_mask(x("i", (1,), "int64"), n(5)),
    "dynamic_gru": lambda: L.dynamic_gru(sequence(shape=(12,)), 4),
    "gru_unit": lambda: L.gru_unit(x(shape=(12,)), x("h"), 12),
    "bmm": lambda: L.bmm(x(shape=(3, 4)), x("y", (4, 5))),
    "randint": lambda: L.randint(3, 9, [2, 5], dtype="int32", seed=7),
    "randperm": lambda: L.randperm(9),
    "sampling_id": lambda: L.sampling_id(x(), seed=3),
    "row_conv": lambda: L.row_conv(sequence(), 2, act="relu"),
    "bilinear_tensor_product": lambda: L.bilinear_tensor_product(
        x(), x("z", (3,)), 5, act="relu"),
    "center_loss": lambda: L.center_loss(x(), y(), 3, .1, I.Constant(.5)),
    "filter_by_instag": lambda: L.filter_by_instag(
        x(), sequence("tags", (1,), "int64"),
        x("f", (2,), "int64", append_batch_size=False), False, 3),
    "sampled_softmax_with_cross_entropy": lambda:
        L.sampled_softmax_with_cross_entropy(x(), y(), 2, seed=3),
    "fc of a length and rows": lambda: L.fc(
        x(), 3, param_attr=fluid.WeightNormParamAttr(0, "w")),
    "fc of a length and columns": lambda: L.fc(
        x(), 3, param_attr=fluid.WeightNormParamAttr(1, "w")),
    "linear_chain_crf": lambda: [
        L.linear_chain_crf(sequence(), sequence("t", (1,), "int64"),
                           fluid.ParamAttr("w")),
        L.crf_decoding(sequence(), fluid.ParamAttr("w"))],
    "chunk_eval": lambda: L.chunk_eval(
        sequence("a", (1,), "int64"), sequence("b", (1,), "int64"), "IOB", 3),
    "edit_distance": lambda: L.edit_distance(
        sequence("a", (1,), "int64"), sequence("b", (1,), "int64"),
        ignored_tokens=[0, 1]),
    "add_position_encoding": lambda: L.add_position_encoding(
        sequence(), .5, 2.),
    "addmm": lambda: L.addmm(
        x("i", (1, 4), append_batch_size=False), x("y", (3,)),
        x("z", (3, 4), append_batch_size=False), 2., .5),
    "allclose": lambda: L.allclose(x(), x("y")),
    "cross": lambda: L.cross(x(shape=(3,)), x("y", (3,)), 1),
    "kron": lambda: L.kron(x(), x("y", (2,))),
    "dist": lambda: L.dist(x(), x("y"), 3),
    "trace": lambda: L.trace(x(shape=(3, 4)), offset=1, dim1=1, dim2=2),
    "diag_embed": lambda: L.diag_embed(x(), offset=-1),
    "meshgrid": lambda: L.meshgrid(
        [x("a", (3,), append_batch_size=False),
         x("b", (2,), append_batch_size=False)]),
    "beam_search": lambda: L.beam_search(
        x("a", (1,), "int64", lod_level=2), x("b", (1,), lod_level=2),
        x("c", (3,), "int64", lod_level=2), x("d", (3,), lod_level=2), 2, 0,
        return_parent_idx=True),
    "beam_search_decode": lambda: L.beam_search_decode(
        L.create_array("int64"), L.create_array("float32"), 2, 0),
    "gather_tree": lambda: L.gather_tree(
        x("a", (2, 3), "int64"), x("b", (2, 3), "int64")),
    "ctc_greedy_decoder": lambda: L.ctc_greedy_decoder(
        x(shape=(6, 5)), 0, x("n", (1,), "int64"), 7),
    "crop": lambda: L.crop(x(shape=(4,), append_batch_size=False), [2], [1]),
    "match_matrix_tensor": lambda: fluid.contrib.layers.match_matrix_tensor(
        sequence("a"), sequence("b"), 2, act="tanh"),
    "sequence_topk_avg_pooling":
        lambda: fluid.contrib.layers.sequence_topk_avg_pooling(
            sequence("x", (1,)), sequence("r"), sequence("c"), [1, 3], 2),
    "crop_tensor": lambda: L.crop_tensor(
        x(shape=(4, 5), append_batch_size=False), [2, -1], [1, 0]),
    "a part in steps": lambda: x(shape=(6, 5))[:, 1:5:2, 3:0:-1],
    "sequence_scatter": lambda: L.sequence_scatter(
        x(), sequence("ids", (1,), "int64"), sequence("more", (1,))),
    "dynamic_lstm": lambda: L.dynamic_lstm(sequence(shape=(12,)), 12),
    "dynamic_lstm without peepholes": lambda: L.dynamic_lstm(
        sequence(shape=(12,)), 12, use_peepholes=False, is_reverse=True,
        candidate_activation="relu"),
    "dynamic_lstmp": lambda: L.dynamic_lstmp(
        sequence(shape=(12,)), 12, 2, proj_clip=.5, cell_clip=3.,
        proj_activation="identity"),
    "lstm_unit": lambda: L.lstm_unit(x(), x("h", (3,)), x("c", (3,)), .5),
    "GRUCell": lambda: L.GRUCell(3)(x(), x("h", (3,))),
    "LSTMCell": lambda: L.LSTMCell(3, forget_bias=.5)(
        x(), [x("h", (3,)), x("c", (3,))]),
    "GRUCell with names": lambda: L.GRUCell(
        3, fluid.ParamAttr("w"), fluid.ParamAttr("b"), L.relu, L.sigmoid,
        name="mine")(x(), x("h", (3,))),
    "strided_slice": lambda: L.strided_slice(
        x(shape=(4, 5)), [1, 2], [0, n(1)], [3, 4], [1, 2]),
    "reverse": lambda: L.reverse(x(), 1),
    "flip": lambda: L.flip(x(), [1]),
    "pad": lambda: L.pad(x(), [0, 1, 2, 0], .5),
    "pad_constant_like": lambda: L.pad_constant_like(x(), x("z", (3,)), .5),
    "unstack": lambda: L.unstack(x(shape=(2, 3)), 1),
    "multiplex": lambda: L.multiplex([x(), x("z")], y(dtype="int32")),
    "index_select": lambda: L.index_select(
        x(), x("i", (5,), "int64", append_batch_size=False), 1),
    "scatter_nd": lambda: L.scatter_nd(
        x("i", (3, 1), "int64", append_batch_size=False),
        x("u", (3, 4), append_batch_size=False), [9, 4]),
    "size": lambda: L.size(x()),
    "has_nan": lambda: [L.has_nan(x()), L.has_inf(x()), L.isfinite(x())],
    "diag": lambda: L.diag(np.arange(3, 6, dtype="int32")),
    "eye": lambda: L.eye(3, 4, [1, 2]),
    "linspace": lambda: L.linspace(0, 10, 5, "float32"),
    "tril": lambda: [L.tril(x(), 1), L.triu(x())],
    "cumsum": lambda: L.cumsum(x(), 1, True),
    "label_smooth": lambda: L.label_smooth(x(), epsilon=.2),
    "log_softmax": lambda: L.log_softmax(x(), 1, "float64"),
    "logsumexp": lambda: L.logsumexp(x(), [1], True),
    "addcmul": lambda: L.addcmul(x(), x("z"), x("w"), 2.),
    "prelu": lambda: L.prelu(x(shape=(3, 4, 5)), "channel"),
    "selu": lambda: [L.selu(x()), L.mish(x()), L.atan(x()), L.erf(x())],
    "dot": lambda: L.dot(x(), x("z")),
    "unique": lambda: L.unique_with_counts(
        x("i", (5,), "int64", append_batch_size=False)),
    "shard_index": lambda: L.shard_index(x("i", (1,), "int64"), 20, 2, 1),
    "lod_reset": lambda: [L.lod_reset(x(), target_lod=[0, 2]),
                          L.lod_append(sequence(), [0, 1])],
    "teacher_student_sigmoid_loss": lambda: L.teacher_student_sigmoid_loss(
        x(shape=(1,)), y(dtype="float32")),
    "continuous_value_model": lambda: L.continuous_value_model(
        x(), x("c", (2,)), False),
    "convolutions": lambda: fluid.nets.img_conv_group(
        fluid.nets.simple_img_conv_pool(x(shape=(3, 8, 8)), 4, 3, 2, 2,
                                        act="relu"), [4, 5], 2,
        conv_act="relu", conv_with_batchnorm=[True, False],
        conv_batchnorm_drop_rate=[.3, 0.], pool_stride=2),
    "attention": lambda: fluid.nets.scaled_dot_product_attention(
        x("q", (5, 8)), x("k", (6, 8)), x("v", (6, 10)), num_heads=2,
        dropout_rate=.1),
}
for _name, _layer in LAYERS.items():
    CASES["layer " + _name] = _layer

CONTRIB = {
    "tdm_child": lambda c: c.tdm_child(x("i", (1,), "int32"), 10, 2),
    "tdm_sampler": lambda c: c.tdm_sampler(x("i", (1,), "int32"), [0, 1, 2],
                                           [2, 3, 4], 4),
    "tdm_sampler in one": lambda c: c.tdm_sampler(
        x("i", (1,), "int32"), [1, 1], [2, 4], 4, output_positive=False,
        output_list=False, seed=3),
    "partial_concat": lambda c: c.partial_concat([x(), x("z")], 1, 2),
    "partial_sum": lambda c: c.partial_sum([x(), x("z")], 1, 2),
    "ctr_metric_bundle": lambda c: c.ctr_metric_bundle(
        x(shape=(1,)), y(dtype="float32")),
    "decay beside": lambda c: fluid.contrib.extend_with_decoupled_weight_decay(
        O.SGD)(weight_decay=.01, learning_rate=.1).minimize(net()),
}
for _name, _layer in CONTRIB.items():
    CASES["contrib " + _name] = lambda of=_layer: of(fluid.contrib.layers)

ARITHMETIC = {
    "1 - a": lambda a: 1 - a, "a - 1.5": lambda a: a - 1.5,
    "2 * a": lambda a: 2 * a, "a / 2": lambda a: a / 2,
    "1 / a": lambda a: 1 / a, "a ** 2": lambda a: a**2,
    "2 ** a": lambda a: 2.0**a, "a == a": lambda a: a == a,
    "a >= 0": lambda a: a >= 0, "-a": lambda a: -a,
    "a + i": lambda a: a + x("i", dtype="int64"),
    "i // 2": lambda a: x("i", dtype="int64") // 2,
}
for _name, _of in ARITHMETIC.items():
    CASES["arithmetic " + _name] = lambda of=_of: of(x("a"))


# --- programs as lines ---

def number(v):
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(map(number, v)) + "]"
    if isinstance(v, float):
        return f"{v:.6g}"
    return str(v if isinstance(v, (bool, str)) else int(v))


def slots(op, names, of):
    return [f"{s}={','.join(of(s))}" for s in sorted(names) if of(s)]


def is_told(op, name):
    return name not in UNTOLD and not op.type.endswith("_grad")


def attributes(op):
    return {n: number(op.attr(n)) for n in op.attr_names if is_told(op, n)}


def line(op):
    """An operator; of a gradient, what it makes."""
    ins = ([] if op.type.endswith("_grad") else
           slots(op, op.input_names, op.input))
    return " ".join([op.type] + ins + ["->"] +
                    slots(op, op.output_names, op.output))


def blocks(program):
    """The blocks that run: 1.8.5 leaves some that nobody does."""
    yield program.global_block()
    for op in (op for block in program.blocks for op in block.ops):
        if op.has_attr("sub_block"):
            found = op.attr("sub_block")
            yield program.block(getattr(found, "id", found))


def built(build):
    """(program, line, attributes) of each operator of a case."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        more = build()
    named = [("main", main), ("startup", startup)]
    if isinstance(more, tuple) and isinstance(more[0], fluid.Program):
        named += [("apply", more[0]), ("restore", more[1])]
    return [(name, line(op), attributes(op)) for name, program in named
            for block in blocks(program) for op in block.ops]


def record():
    for name, build in CASES.items():
        print("case", name)
        for program, text, attrs in built(build):
            told = " ".join(f"{k}={v}" for k, v in sorted(attrs.items()))
            print(program, text, "{", told, "}")


def recorded():
    """{case: [(program, line, attributes), ...]}."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "recorded.txt")
    found = {}
    with open(path, encoding="utf-8") as f:
        for text in f:
            if text.startswith("case "):
                rows = found[text[len("case "):].strip()] = []
                continue
            program, rest = text.rstrip("\n").split(" ", 1)
            op, _, told = rest.rpartition(" { ")
            pairs = (w.split("=", 1) for w in told[:-1].split())
            rows.append((program, op, dict(pairs)))
    return found


class Recorded(unittest.TestCase):
    def test_programs_are_those_of_1_8_5(self):
        answers = recorded()
        self.assertEqual(sorted(answers), sorted(CASES))
        for name, build in CASES.items():
            with self.subTest(case=name):
                self.compare(answers[name], built(build))

    def compare(self, want, got):
        self.assertEqual([(p, text) for p, text, _ in want],
                         [(p, text) for p, text, _ in got])
        for (_, text, told), (_, _, mine) in zip(want, got):
            both = {k: v for k, v in told.items() if k in mine}
            self.assertEqual(both, {k: mine[k] for k in both}, text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()
