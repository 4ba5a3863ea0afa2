/* sequence_expand.c - sequences, or rows, repeated as often as a sequence of Y
 * is long.
 *
 * Sequences of X do not know each other in either direction, so shares take
 * ranges of them; where a share begins in Out it finds by adding up.
 */
#include "kernel/vec.h"
#include "ops/helpers.h"
#include "ops/kit.h"
#include "ops/sequences.h"

enum { X, Y };
enum { OUT };
enum { REF_LEVEL };

typedef struct expand_job {
    const int64_t *off; /* of X; NULL: every row is a sequence */
    const int64_t *ref; /* differences say how often */
    size_t n, width;    /* of X: sequences, numbers of a row */
} expand_job;

/* Rows of sequence s of X. */
static fl_span rows_of(const expand_job *j, size_t s)
{
    if (!j->off)
        return (fl_span){ s, s + 1 };
    return (fl_span){ (size_t)j->off[s], (size_t)j->off[s + 1] };
}

static size_t times(const expand_job *j, size_t s)
{
    return (size_t)(j->ref[s + 1] - j->ref[s]);
}

/* The row of Out where the copies of sequence s begin. */
static size_t first_copy(const expand_job *j, size_t s)
{
    size_t at = 0;

    for (size_t i = 0; i < s; i++)
        at += (rows_of(j, i).hi - rows_of(j, i).lo) * times(j, i);
    return at;
}

static void forward(const expand_job *j, fl_span s, size_t row_bytes,
                    const char *x, char *out)
{
    out += first_copy(j, s.lo) * row_bytes;
    for (size_t i = s.lo; i < s.hi; i++) {
        fl_span r = rows_of(j, i);
        size_t bytes = (r.hi - r.lo) * row_bytes;

        for (size_t k = 0; k < times(j, i); k++, out += bytes)
            memcpy(out, x + r.lo * row_bytes, bytes);
    }
}

#define BACKWARD(T, t)                                                         \
    static void backward_##t(const expand_job *j, fl_span s, const T *dout,    \
                             T *dx)                                            \
    {                                                                          \
        dout += first_copy(j, s.lo) * j->width;                                \
        for (size_t i = s.lo; i < s.hi; i++) {                                 \
            fl_span r = rows_of(j, i);                                         \
            size_t n = (r.hi - r.lo) * j->width;                               \
            T *to = dx + r.lo * j->width;                                      \
                                                                               \
            memset(to, 0, n * sizeof(T));                                      \
            for (size_t k = 0; k < times(j, i); k++, dout += n)                \
                fl_vec_##t()->add(to, to, dout, n);                            \
        }                                                                      \
    }
FL_FLOATS(BACKWARD)

/* The level of Y that says how often; sequence_expand_as takes the first. */
static int ref_level(const fl_op_node *n, const fl_tensor *y)
{
    int64_t level = fl_op_n_attrs(n->def) ? fl_attr_int(n, REF_LEVEL) : 0;

    return level == -1 ? y->n_lod - 1 : (int)level;
}

static expand_job job_of(const fl_op_node *n, const fl_targs *in)
{
    const fl_tensor *x = in[X].t[0], *y = in[Y].t[0];
    bool by_rows = !x->n_lod || !fl_op_n_attrs(n->def);

    return (expand_job){
        .off = by_rows ? NULL : x->lod[0],
        .ref = y->lod[ref_level(n, y)],
        .n = (size_t)(by_rows ? x->shape.dim[0] : x->lod_len[0] - 1),
        .width = (size_t)fl_shape_count(&x->shape, 1, x->shape.rank),
    };
}

/* While running: Y has as many sequences as X. */
static fl_status check_count(const fl_infer *c, const expand_job *j)
{
    const fl_tensor *y = fl_infer_in(c, Y);
    int64_t n = y->lod_len[ref_level(c->node, y)] - 1;
    char tx[FL_SLOT_TEXT_MAX], ty[FL_SLOT_TEXT_MAX];

    if ((int64_t)j->n != n)
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has %zu %s, but %s has %lld sequences at level %d",
                c->node->def->name, fl_infer_text(c, X, tx), j->n,
                j->off ? "sequences" : "rows", fl_infer_text(c, Y, ty),
                (long long)n, ref_level(c->node, y));
    return FL_OK;
}

/* Every copy of a sequence is a sequence. */
static fl_status infer_copies(const fl_infer *c, const expand_job *j)
{
    size_t n = (size_t)j->ref[j->n], at = 0;
    int64_t *off;

    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    for (size_t s = 0; s < j->n; s++)
        for (size_t k = 0; k < times(j, s); k++, at++)
            off[at + 1] =
                off[at] + (int64_t)(rows_of(j, s).hi - rows_of(j, s).lo);
    return FL_OK;
}

static fl_status sequence_expand_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X), *y = fl_infer_in(c, Y);
    fl_tensor *out = fl_infer_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];
    expand_job j;
    int level;

    FL_TRY(fl_infer_seqs(c, Y));
    level = ref_level(c->node, y);
    if (level < 0 || level >= y->n_lod)
        FL_FAIL(FL_ERR_INVAL, "op sequence_expand: %s has no level %lld",
                fl_infer_text(c, Y, buf), (long long)fl_int(c, REF_LEVEL));
    if (x->n_lod)
        FL_TRY(fl_infer_one_level(c, X));
    fl_tensor_like(out, x);
    out->shape.dim[0] = -1;
    if (!c->running)
        return FL_OK;
    j = job_of(c->node, c->in);
    FL_TRY(check_count(c, &j));
    out->shape.dim[0] = (int64_t)first_copy(&j, j.n);
    return x->n_lod ? infer_copies(c, &j) : FL_OK;
}

/* Row i of X for every row of sequence i of Y, whose offsets Out takes. */
static fl_status sequence_expand_as_infer(fl_infer *c)
{
    const fl_tensor *y = fl_infer_in(c, Y);
    fl_tensor *out = fl_infer_out(c, OUT);
    fl_shape shape = fl_infer_in(c, X)->shape;
    expand_job j;

    FL_TRY(fl_infer_one_level(c, Y));
    if (c->running) {
        j = job_of(c->node, c->in);
        FL_TRY(check_count(c, &j));
    }
    fl_tensor_like(out, y);
    out->dtype = fl_infer_in(c, X)->dtype;
    out->shape = shape;
    out->shape.dim[0] = y->shape.dim[0];
    return FL_OK;
}

static fl_status expand_run(fl_op_ctx *c)
{
    expand_job j = job_of(c->node, c->in);

    forward(&j, fl_op_span(c, j.n), fl_row_bytes(fl_in_t(c, X)), fl_in(c, X),
            fl_out(c, OUT));
    return FL_OK;
}

static fl_status expand_back(fl_op_ctx *c)
{
    expand_job j = job_of(c->node, c->in);

    if (!fl_din_t(c, X))
        return FL_OK;
    if (fl_dout_t(c, OUT))
        FL_BY_FLOAT(c, X, backward, &j, fl_op_span(c, j.n), fl_dout(c, OUT),
                    fl_din(c, X));
    else
        fl_share_zero(c, fl_din_t(c, X));
    return FL_OK;
}

static const fl_op_case sequence_expand_cases[] = {
    { .in = { "f32[4,5]", "f32[10,1] lod=[0,3,4,8,10]" } },
    { .in = { "f32[5,5]", "i64[6,1] lod=[0,2,2,5,5,6]" } },
    { .in = { "f32[6,2] lod=[0,1,4,6]", "f32[6,1] lod=[0,1,3,6]" } },
    { .in = { "f32[6,2] lod=[0,1,1,6]", "f32[6,1] lod=[0,1,3,6]" } },
    { .in = { "f32[4,5] lod=[0,2,4]", "f32[8,1] lod=[0,2,4] lod=[0,3,6,7,8]" },
      .attrs = "{ref_level=0}" },
    { .in = { "i64[4,1]", "f32[8,1] lod=[0,2,4] lod=[0,3,6,7,8]" } },
    { .in = { "f32[1,3]", "f32[1,1] lod=[0,1]" } },
    { .in = { "f32[0,3]", "f32[0,1] lod=[0]" } },
    { .in = { "f32[0,3] lod=[0]", "f32[0,1] lod=[0]" } },
    { .in = { "f32[2,3]", "f32[0,1] lod=[0,0,0]" } },
    { .in = { "f32[20,2]", "f32[33,1] lod=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,"
                           "15,16,17,18,18,33]" } },
};

const fl_op fl_op_sequence_expand = {
    .name = "sequence_expand",
    .doc = "Out = each sequence of X (each row, when X has no offsets) as "
           "often as the sequence of Y with its number is long, at level "
           "ref_level (-1: the innermost); each copy is a sequence",
    .in = { { "X", 0 }, { "Y", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "ref_level", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_SLICED,
    .infer = sequence_expand_infer,
    .run = expand_run,
    .back = expand_back,
    .cases = sequence_expand_cases,
    .n_cases = FL_LEN(sequence_expand_cases),
};

static const fl_op_case sequence_expand_as_cases[] = {
    { .in = { "f32[4,5]", "f32[10,1] lod=[0,3,4,8,10]" } },
    { .in = { "f32[5,2,3]", "i64[6,1] lod=[0,2,2,5,5,6]" } },
    { .in = { "i64[1,1]", "f32[1,3] lod=[0,1]" } },
    { .in = { "f32[2,3] lod=[0,2]", "f32[3,3] lod=[0,1,3]" } },
    { .in = { "f32[0,3]", "f32[0,1] lod=[0]" } },
    { .in = { "f32[2,3]", "f32[0,1] lod=[0,0,0]" } },
};

const fl_op fl_op_sequence_expand_as = {
    .name = "sequence_expand_as",
    .doc = "Out = row i of X for each row of sequence i of Y, with the offsets "
           "of Y",
    .in = { { "X", 0 }, { "Y", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .flags = FL_OP_SLICED,
    .infer = sequence_expand_as_infer,
    .run = expand_run,
    .back = expand_back,
    .cases = sequence_expand_as_cases,
    .n_cases = FL_LEN(sequence_expand_as_cases),
};
