/* filter_by_instag.c - the rows, or sequences, that have one of some tags.
 *
 * Every entry of Ins has the tags of one sequence of Ins_tag. What is kept is
 * written down in IndexMap: a row of three for each entry, where it begins in
 * Out and in Ins, and how many rows it has. When nothing is kept, Out has one
 * row of out_val_if_empty, whose LossWeight is 0, so that what follows has
 * something to compute with.
 */
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { INS, INS_TAG, FILTER_TAG };
enum { OUT, LOSS_WEIGHT, INDEX_MAP };
enum { IS_LOD, OUT_VAL_IF_EMPTY };
enum { AT_OUT, AT_INS, N_ROWS, MAP_WIDTH };

/* --- what is kept --------------------------------------------------------- */

typedef struct filter {
    const fl_tensor *ins, *tags, *wanted;
    bool is_lod;
} filter;

static size_t count_entries(const filter *f)
{
    return fl_seqs_of(f->tags).n;
}

static bool is_wanted(const filter *f, int64_t tag)
{
    for (int64_t i = 0; i < fl_tensor_numel(f->wanted); i++)
        if (fl_id_at(f->wanted, i) == tag)
            return true;
    return false;
}

static bool is_kept(const filter *f, size_t entry)
{
    fl_seqs q = fl_seqs_of(f->tags);

    for (int64_t i = q.off[entry]; i < q.off[entry + 1]; i++)
        if (is_wanted(f, fl_id_at(f->tags, i)))
            return true;
    return false;
}

/* The rows of an entry of Ins. */
static fl_span rows_of(const filter *f, size_t entry)
{
    const int64_t *off = f->is_lod ? f->ins->lod[0] : NULL;

    if (!off)
        return (fl_span){ entry, entry + 1 };
    return (fl_span){ (size_t)off[entry], (size_t)off[entry + 1] };
}

/* --- shapes --------------------------------------------------------------- */

static fl_status check_entries(const fl_infer *c)
{
    const fl_tensor *ins = fl_infer_in(c, INS), *tag = fl_infer_in(c, INS_TAG);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];
    int64_t n;

    FL_TRY(fl_infer_one_level(c, INS_TAG));
    if (fl_bool(c, IS_LOD))
        FL_TRY(fl_infer_one_level(c, INS));
    n = fl_bool(c, IS_LOD) ? ins->lod_len[0] - 1 : ins->shape.dim[0];
    if (tag->lod_len[0] - 1 != n)
        FL_FAIL(FL_ERR_INVAL,
                "op filter_by_instag: %s has %lld entries, and %s tags for "
                "%lld",
                fl_infer_text(c, INS, a), (long long)n,
                fl_infer_text(c, INS_TAG, b), (long long)tag->lod_len[0] - 1);
    return FL_OK;
}

static fl_status check_inputs(const fl_infer *c)
{
    fl_dtype dtype = fl_infer_in(c, INS)->dtype;
    char buf[FL_SLOT_TEXT_MAX];

    if (dtype != FL_DTYPE_F32 && dtype != FL_DTYPE_F64)
        FL_TRY(fl_infer_ids(c, INS));
    FL_TRY(fl_infer_ids(c, INS_TAG));
    FL_TRY(fl_infer_ids(c, FILTER_TAG));
    if (fl_infer_in(c, INS)->shape.rank < 2)
        FL_FAIL(FL_ERR_INVAL,
                "op filter_by_instag: %s must have two dimensions or more",
                fl_infer_text(c, INS, buf));
    return c->running ? check_entries(c) : FL_OK;
}

/* Offsets of what is kept, and of one row for each; gives how many. */
static int64_t write_offsets(const filter *f, int64_t *off, int64_t *ones)
{
    int64_t n = 0;

    off[0] = ones[0] = 0;
    for (size_t i = 0; i < count_entries(f); i++) {
        fl_span rows = rows_of(f, i);

        if (!is_kept(f, i))
            continue;
        off[n + 1] = off[n] + (int64_t)(rows.hi - rows.lo);
        ones[n + 1] = n + 1;
        n++;
    }
    if (n)
        return n;
    off[1] = ones[1] = 1;
    return 1;
}

static void infer_ragged(const fl_infer *c, int slot, int64_t *off, int64_t n)
{
    fl_tensor *t = fl_infer_out(c, slot);

    t->kind = FL_KIND_RAGGED;
    t->n_lod = 1;
    t->lod[0] = off;
    t->lod_len[0] = off ? n + 1 : 0;
    t->shape.dim[0] = off ? off[n] : -1;
}

static fl_status infer_offsets(const fl_infer *c)
{
    filter f = { fl_infer_in(c, INS), fl_infer_in(c, INS_TAG),
                 fl_infer_in(c, FILTER_TAG), fl_bool(c, IS_LOD) };
    int64_t *off = NULL, *ones = NULL, n = 0;
    void *memory;

    if (c->running) {
        size_t room = count_entries(&f) + 2;

        FL_TRY(fl_infer_workspace(c, 2 * room * sizeof(*off), &memory));
        off = memory;
        ones = off + room;
        n = write_offsets(&f, off, ones);
    }
    infer_ragged(c, OUT, off, n);
    infer_ragged(c, LOSS_WEIGHT, ones, n);
    infer_ragged(c, INDEX_MAP, ones, n);
    return FL_OK;
}

static fl_status filter_infer(fl_infer *c)
{
    FL_TRY(check_inputs(c));
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, INS));
    fl_infer_dense(c, LOSS_WEIGHT, FL_DTYPE_F32, 2, (int64_t[]){ -1, 1 });
    fl_infer_dense(c, INDEX_MAP, FL_DTYPE_I64, 2, (int64_t[]){ -1, MAP_WIDTH });
    return infer_offsets(c);
}

/* --- running -------------------------------------------------------------- */

/* Copies entry number n of what is kept, and writes it down. */
static void keep_entry(const fl_op_ctx *c, fl_span rows, int64_t n)
{
    const fl_tensor *ins = fl_in_t(c, INS);
    int64_t at = fl_out_t(c, OUT)->lod[0][n];
    int64_t *map = (int64_t *)fl_out(c, INDEX_MAP) + n * MAP_WIDTH;
    size_t row = fl_row_bytes(ins);

    memcpy((char *)fl_out(c, OUT) + (size_t)at * row,
           (const char *)ins->data + rows.lo * row, (rows.hi - rows.lo) * row);
    map[AT_OUT] = at;
    map[AT_INS] = (int64_t)rows.lo;
    map[N_ROWS] = (int64_t)(rows.hi - rows.lo);
    ((float *)fl_out(c, LOSS_WEIGHT))[n] = 1;
}

static void put_number(fl_tensor *t, int64_t i, int64_t value)
{
    if (t->dtype == FL_DTYPE_F32)
        ((float *)t->data)[i] = (float)value;
    else if (t->dtype == FL_DTYPE_F64)
        ((double *)t->data)[i] = (double)value;
    else
        fl_id_put(t, i, value);
}

static void keep_nothing(const fl_op_ctx *c)
{
    fl_tensor *out = fl_out_t(c, OUT);

    for (int64_t i = 0; i < fl_tensor_numel(out); i++)
        put_number(out, i, fl_int(c, OUT_VAL_IF_EMPTY));
    memcpy(fl_out(c, INDEX_MAP), (int64_t[MAP_WIDTH]){ 0, 1, 1 },
           MAP_WIDTH * sizeof(int64_t));
    *(float *)fl_out(c, LOSS_WEIGHT) = 0;
}

static fl_status filter_run(fl_op_ctx *c)
{
    filter f = { fl_in_t(c, INS), fl_in_t(c, INS_TAG), fl_in_t(c, FILTER_TAG),
                 fl_bool(c, IS_LOD) };
    int64_t n = 0;

    for (size_t i = 0; i < count_entries(&f); i++)
        if (is_kept(&f, i))
            keep_entry(c, rows_of(&f, i), n++);
    if (!n)
        keep_nothing(c);
    return FL_OK;
}

static fl_status filter_back(fl_op_ctx *c)
{
    const fl_tensor *map = fl_saved_out_t(c, INDEX_MAP);
    const float *weight = fl_saved_out(c, LOSS_WEIGHT);
    size_t row = fl_row_bytes(fl_in_t(c, INS));
    const char *g = fl_dout(c, OUT);
    char *to = fl_din(c, INS);

    fl_din_zero(c, INS);
    if (!to || !g)
        return FL_OK;
    for (int64_t i = 0; i < map->shape.dim[0]; i++) {
        const int64_t *entry = (const int64_t *)map->data + i * MAP_WIDTH;

        if (weight[i] != 0)
            memcpy(to + (size_t)entry[AT_INS] * row,
                   g + (size_t)entry[AT_OUT] * row,
                   (size_t)entry[N_ROWS] * row);
    }
    return FL_OK;
}

static const fl_op_case filter_cases[] = {
    { .in = { "f32[7,3] lod=[0,2,2,7]", "i64[4,1] lod=[0,1,2,4] is=[1,2,3,1]",
              "i64[1] is=[1]" },
      .attrs = "{is_lod=true}" },
    { .in = { "f32[4,5]", "i64[4,1] lod=[0,1,2,3,4] is=[2,1,2,1]",
              "i64[2] is=[1,7]" } },
    { .in = { "f32[4,5]", "i64[4,1] lod=[0,1,2,3,4] is=[2,1,2,1]",
              "i64[1] is=[3]" },
      .attrs = "{out_val_if_empty=5}" },
    { .in = { "i64[2,1]", "i64[2,1] lod=[0,2,2] is=[2,1]", "i64[1] is=[1]" } },
    { .in = { "f32[0,5]", "i64[0,1] lod=[0]", "i64[1] is=[1]" } },
};

const fl_op fl_op_filter_by_instag = {
    .name = "filter_by_instag",
    .doc = "Out = the rows of Ins, or with is_lod its sequences, of which a "
           "tag in Ins_tag is one of Filter_tag; LossWeight = 1 for each, "
           "IndexMap = where each begins in Out and in Ins, and its rows. "
           "When there is none, Out is one row of out_val_if_empty with "
           "LossWeight 0",
    .in = { { "Ins", 0 },
            { "Ins_tag", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "Filter_tag", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "Out", 0 },
             { "LossWeight", FL_SLOT_NO_GRAD },
             { "IndexMap", FL_SLOT_NO_GRAD } },
    .attrs = { { "is_lod", FL_ATTR_BOOL, "false" },
               { "out_val_if_empty", FL_ATTR_INT, "0" } },
    .infer = filter_infer,
    .run = filter_run,
    .back = filter_back,
    .back_uses = FL_USES_OUT(LOSS_WEIGHT) | FL_USES_OUT(INDEX_MAP),
    .cases = filter_cases,
    .n_cases = FL_LEN(filter_cases),
};
