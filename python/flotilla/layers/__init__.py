"""Layers: functions that add operators to the current program."""
from .. import near as _near
from . import arithmetic, subscript
from ..check import checked as _checked
from .arrays import (array_length, array_read, array_to_lod_tensor,
                     array_write, create_array, lod_rank_table,
                     lod_tensor_to_array, max_sequence_len,
                     reorder_lod_tensor_by_rank, shrink_memory,
                     tensor_array_to_tensor)
from .cells import GRUCell, LSTMCell, RNNCell, rnn
from .control import (Assert, BlockGuard, ConditionalBlock, IfElse, Print,
                      Switch, While, case, cond, is_empty, merge_lod_tensor,
                      select_input, select_output, split_lod_tensor,
                      switch_case, while_loop)
from .decode import (beam_search, beam_search_decode, ctc_greedy_decoder,
                     gather_tree)
from .decoders import (BasicDecoder, BeamSearchDecoder, DecodeHelper, Decoder,
                       GreedyEmbeddingHelper, SampleEmbeddingHelper,
                       TrainingHelper, dynamic_decode)
from .distributions import (Categorical, MultivariateNormalDiag, Normal,
                            Uniform)
from .draws import randint, randn, randperm, sampling_id
from .func import py_func
from .generated import describe as _describe, layers as _generated
from .ids import (continuous_value_model, filter_by_instag, hash, lod_append,
                  lod_reset, shard_index, unique, unique_with_counts)
from .image import adaptive_pool2d, conv2d, pool2d
from .io import (create_py_reader_by_data, data, double_buffer, py_reader,
                 read_file)
from .loss import *
from .maths import (addcmul, addmm, allclose, bilinear_tensor_product, cross,
                    dist, kron, label_smooth, log_softmax, logsumexp, prelu,
                    trace)
from .metric import accuracy, auc
from .nn import *
from .places import (crop, crop_tensor, cumsum, diag, diag_embed, eye, flip,
                     has_inf, has_nan, index_select, isfinite, linspace, meshgrid, multiplex, pad,
                     pad_constant_like, reverse, roll, scatter_nd,
                     scatter_nd_add, size, strided_slice, tril, triu, unbind,
                     unstack)
from .recurrent import DynamicRNN, StaticRNN
from .schedule import *
from .sequence import *
from .tagging import chunk_eval, crf_decoding, edit_distance, linear_chain_crf
from .tensor import *

arithmetic.patch()
subscript.patch()
# What is written by hand comes before what follows from a descriptor.
for _name, _layer in _generated.items():
    globals().setdefault(_name, _layer)
for _name, _layer in list(globals().items()):
    if not _name.startswith("_"):
        _describe(_name, _layer)
        globals()[_name] = _checked(_name, _layer)

_near.all_arguments(__name__)
__getattr__ = _near.attributes_of(__name__)
