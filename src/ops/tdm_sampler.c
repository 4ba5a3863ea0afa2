/* tdm_sampler.c - for each item its path through the layers of a tree, and
 * beside each node of it other nodes of the same layer, drawn by counter.
 *
 * A row of Travel is the path of an item, a node per layer; it may end early,
 * with 0. Layer has the nodes of all layers behind one another, that of layer
 * i at [layer_offset_lod[i], layer_offset_lod[i+1]).
 */
#include <inttypes.h>

#include "base/rng.h"
#include "ops/helpers.h"

enum { X, TRAVEL, LAYER };
enum { OUT, LABELS, MASK };
enum { OUTPUT_POSITIVE, NEG_SAMPLES, OFFSETS, SEED, DTYPE };

/* Numbers of a row of Out: per layer its negatives and, if wanted, itself. */
static int64_t row_len(const fl_op_node *n)
{
    size_t layers;
    const int64_t *negatives = fl_attr_ints(n, NEG_SAMPLES, &layers);
    int64_t len = fl_attr_bool(n, OUTPUT_POSITIVE) ? (int64_t)layers : 0;

    for (size_t i = 0; i < layers; i++)
        len += negatives[i];
    return len;
}

/* A layer has more nodes than are drawn from it: one is the path's own. */
static fl_status check_layers(const fl_infer *c)
{
    size_t n, n_offsets;
    const int64_t *negatives = fl_attr_ints(c->node, NEG_SAMPLES, &n);
    const int64_t *offsets = fl_attr_ints(c->node, OFFSETS, &n_offsets);
    const fl_shape *layer = &fl_infer_in(c, LAYER)->shape;
    int64_t whole = fl_shape_numel(layer);
    char buf[FL_SLOT_TEXT_MAX];

    if (!n || n_offsets != n + 1 || offsets[0] != 0 ||
        (whole >= 0 && offsets[n] != whole))
        FL_FAIL(FL_ERR_INVAL,
                "op tdm_sampler: layer_offset_lod must go from 0 to the nodes "
                "of %s, in a step for each of the %zu layers",
                fl_infer_text(c, LAYER, buf), n);
    for (size_t i = 0; i < n; i++)
        if (negatives[i] < 0 || negatives[i] >= offsets[i + 1] - offsets[i])
            FL_FAIL(FL_ERR_INVAL,
                    "op tdm_sampler: %" PRId64 " negatives of layer %zu, which "
                    "has %" PRId64 " nodes",
                    negatives[i], i, offsets[i + 1] - offsets[i]);
    return FL_OK;
}

static fl_status tdm_sampler_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, X)->shape;
    const fl_shape *travel = &fl_infer_in(c, TRAVEL)->shape;
    char buf[FL_SLOT_TEXT_MAX];
    fl_dtype dtype;
    size_t n;

    for (int s = X; s <= LAYER; s++)
        FL_TRY(fl_infer_ids(c, s));
    FL_TRY(fl_infer_dtype(c, DTYPE, &dtype));
    if (dtype != FL_DTYPE_I32 && dtype != FL_DTYPE_I64)
        FL_FAIL(FL_ERR_INVAL, "op tdm_sampler: dtype %s is not int32 or int64",
                fl_str_attr(c, DTYPE));
    FL_TRY(check_layers(c));
    fl_attr_ints(c->node, NEG_SAMPLES, &n);
    if (travel->rank != 2 || travel->dim[1] != (int64_t)n)
        FL_FAIL(FL_ERR_INVAL,
                "op tdm_sampler: %s must be [items, %zu], a node "
                "per layer",
                fl_infer_text(c, TRAVEL, buf), n);
    for (int s = OUT; s <= MASK; s++)
        fl_infer_dense(c, s, dtype, 2,
                       (int64_t[]){ fl_shape_numel(x), row_len(c->node) });
    return FL_OK;
}

/* One row of the outputs while it is written; Labels may be left out. */
typedef struct writer {
    fl_op_ctx *c;
    int64_t at;
    uint64_t stream, row;
} writer;

static void give(writer *w, int64_t node, int64_t label)
{
    fl_id_put(fl_out_t(w->c, OUT), w->at, node);
    fl_id_put(fl_out_t(w->c, MASK), w->at, node != 0);
    if (fl_out_t(w->c, LABELS))
        fl_id_put(fl_out_t(w->c, LABELS), w->at, label);
    w->at++;
}

static bool is_drawn(const writer *w, int64_t first, int64_t node)
{
    for (int64_t i = first; i < w->at; i++)
        if (fl_id_at(fl_out_t(w->c, OUT), i) == node)
            return true;
    return false;
}

/* Draws until there are n that are neither the positive nor one another. So
   many draws that find nothing new mean that the layer repeats its nodes. */
#define DRAWS_PER_NODE 64

static fl_status draw_layer(writer *w, int layer, int64_t positive, int64_t n)
{
    size_t len;
    const int64_t *offsets = fl_attr_ints(w->c->node, OFFSETS, &len);
    int64_t size = offsets[layer + 1] - offsets[layer], first = w->at;
    uint64_t column = (uint64_t)layer << 32;
    uint64_t end = column + DRAWS_PER_NODE * (uint64_t)size;

    for (; w->at < first + n && column < end; column++) {
        double u = fl_rng_unit(w->stream, w->row, column);
        int64_t node = fl_id_at(fl_in_t(w->c, LAYER),
                                offsets[layer] + (int64_t)(u * (double)size));

        if (node != positive && !is_drawn(w, first, node))
            give(w, node, 0);
    }
    if (w->at < first + n)
        FL_FAIL(FL_ERR_INVAL,
                "Layer: layer %d has no %" PRId64
                " different nodes besides %" PRId64,
                layer, n, positive);
    return FL_OK;
}

static fl_status sample_row(writer *w, int64_t item)
{
    size_t n;
    const int64_t *negatives = fl_attr_ints(w->c->node, NEG_SAMPLES, &n);

    for (int i = 0; i < (int)n; i++) {
        int64_t own = fl_id_at(fl_in_t(w->c, TRAVEL), item * (int64_t)n + i);

        if (fl_bool(w->c, OUTPUT_POSITIVE))
            give(w, own, own != 0);
        for (int64_t k = 0; !own && k < negatives[i]; k++)
            give(w, 0, 0);
        if (own)
            FL_TRY(draw_layer(w, i, own, negatives[i]));
    }
    return FL_OK;
}

static fl_status tdm_sampler_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    int64_t items = fl_in_t(c, TRAVEL)->shape.dim[0];
    uint64_t stream = fl_op_stream(c, fl_int(c, SEED), FL_STREAM_MOVING);
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    for (size_t i = s.lo; i < s.hi; i++) {
        int64_t item = fl_id_at(x, (int64_t)i);
        writer w = { c, (int64_t)i * row_len(c->node), stream, i };

        if (item < 0 || item >= items)
            FL_FAIL(FL_ERR_INVAL,
                    "X: item %" PRId64 " at place %zu is not in 0..%" PRId64
                    ", the rows of Travel",
                    item, i, items - 1);
        FL_TRY(sample_row(&w, item));
    }
    return FL_OK;
}

static const fl_op_case tdm_sampler_cases[] = {
    { .in = { "i64[33,1] below=2", "i32[2,2] is=[1,3,2,0]",
              "i32[6,1] is=[1,2,3,4,5,6]" },
      .attrs = "{neg_samples_num_list=[1,3], layer_offset_lod=[0,2,6]}" },
    { .in = { "i32[3] below=2", "i64[2,2] is=[1,3,2,0]",
              "i64[6] is=[1,2,3,4,5,6]" },
      .attrs = "{neg_samples_num_list=[0,2], layer_offset_lod=[0,2,6], "
               "output_positive=false, dtype=int64, seed=7}" },
    { .in = { "i64[0,1]", "i32[2,2] is=[1,3,2,0]",
              "i32[6,1] is=[1,2,3,4,5,6]" },
      .attrs = "{neg_samples_num_list=[1,3], layer_offset_lod=[0,2,6]}" },
};

const fl_op fl_op_tdm_sampler = {
    .name = "tdm_sampler",
    .doc = "Out = for each item of X and each layer the node of its path "
           "(unless output_positive is false) and neg_samples_num_list[layer] "
           "other nodes of Layer, all different; Labels = 1 for the path; "
           "Mask = 0 where a path has ended and Out is 0",
    .in = { { "X", FL_SLOT_NO_GRAD },
            { "Travel", FL_SLOT_NO_GRAD },
            { "Layer", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 }, { "Labels", FL_OP_SLOT_BYPRODUCT }, { "Mask", 0 } },
    .attrs = { { "output_positive", FL_ATTR_BOOL, "true" },
               { "neg_samples_num_list", FL_ATTR_INTS, "[]" },
               { "layer_offset_lod", FL_ATTR_INTS, "[]" },
               { "seed", FL_ATTR_INT, "0" },
               { "dtype", FL_ATTR_STRING, "int32" } },
    .flags = FL_OP_SLICED,
    .infer = tdm_sampler_infer,
    .run = tdm_sampler_run,
    .cases = tdm_sampler_cases,
    .n_cases = FL_LEN(tdm_sampler_cases),
};
