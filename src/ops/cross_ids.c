/* cross_ids.c - columns of ids hashed into one: cross_ids gives an id to every
 * way to take one id of each column, join_ids puts columns side by side.
 *
 *     start = mix(FNV-1a("NAME="))         docs/formats/csv.md has both
 *     fold(h, id) = mix(h xor id)
 *
 *     cross_ids   fold(fold(start, a), b)...   mod size, unless that is 0
 *     join_ids    fold(start of the column's name, id)
 *
 * A name makes the ids of a column its own, so that many share a table. These
 * values never change: rows of saved models are found by them.
 */
#include "base/hash.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { X };
enum { OUT };
enum { NAME, SIZE };
enum { NAMES };

static uint64_t fold(uint64_t h, int64_t id)
{
    return fl_mix64(h ^ (uint64_t)id);
}

/* --- crossing ------------------------------------------------------------- */

/* The ids of one record in a column. */
static fl_span ids_of(const fl_tensor *t, size_t record)
{
    size_t width;

    if (t->n_lod)
        return (fl_span){ (size_t)t->lod[0][record],
                          (size_t)t->lod[0][record + 1] };
    width = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    return (fl_span){ record * width, (record + 1) * width };
}

static int64_t records_of(const fl_tensor *t)
{
    return t->n_lod ? t->lod_len[0] - 1 : t->shape.dim[0];
}

static fl_status check_column(const fl_infer *c, int i)
{
    const fl_tensor *t = fl_infer_in_at(c, X, i);
    char buf[FL_SLOT_TEXT_MAX];

    if (t->dtype != FL_DTYPE_I64 && t->dtype != FL_DTYPE_U64 &&
        t->dtype != FL_DTYPE_I32)
        FL_FAIL(FL_ERR_TYPE, "op %s: %s is not ids", c->node->def->name,
                fl_infer_text_at(c, X, i, buf));
    if (t->n_lod > 1)
        FL_FAIL(FL_ERR_INVAL, "op %s: %s has %d levels of offsets, not one",
                c->node->def->name, fl_infer_text_at(c, X, i, buf), t->n_lod);
    if (c->running && records_of(t) != records_of(fl_infer_in_at(c, X, 0)))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s has %lld records, the first column has %lld",
                c->node->def->name, fl_infer_text_at(c, X, i, buf),
                (long long)records_of(t),
                (long long)records_of(fl_infer_in_at(c, X, 0)));
    return FL_OK;
}

static bool has_lists(const fl_infer *c)
{
    for (int i = 0; i < fl_infer_n_in(c, X); i++)
        if (fl_infer_in_at(c, X, i)->n_lod)
            return true;
    return false;
}

/* Out[record] has this many ids. */
static int64_t ways(const fl_infer *c, size_t record)
{
    int64_t n = 1;

    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        fl_span s = ids_of(fl_infer_in_at(c, X, i), record);

        n *= (int64_t)(s.hi - s.lo);
    }
    return n;
}

static fl_status infer_lists(const fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    size_t n = 0;
    int64_t *off;

    if (c->running)
        n = (size_t)records_of(fl_infer_in_at(c, X, 0));
    out->shape = fl_shape_of(2, (int64_t[]){ -1, 1 });
    FL_TRY(fl_infer_new_seqs(c, OUT, n, &off));
    if (!off)
        return FL_OK;
    for (size_t r = 0; r < n; r++)
        off[r + 1] = off[r] + ways(c, r);
    out->shape.dim[0] = off[n];
    return FL_OK;
}

static fl_status cross_ids_infer(fl_infer *c)
{
    fl_tensor *out = fl_infer_out(c, OUT);
    int64_t width = 1;

    if (fl_int(c, SIZE) < 0)
        FL_FAIL(FL_ERR_INVAL, "op cross_ids: size=%lld is below 0",
                (long long)fl_int(c, SIZE));
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        const fl_shape *s = &fl_infer_in_at(c, X, i)->shape;

        FL_TRY(check_column(c, i));
        width *= fl_shape_count(s, 1, s->rank);
    }
    *out = (fl_tensor){ .dtype = FL_DTYPE_I64, .kind = FL_KIND_DENSE };
    if (has_lists(c))
        return infer_lists(c);
    out->shape = fl_shape_of(
        2, (int64_t[]){ fl_infer_in_at(c, X, 0)->shape.dim[0], width });
    return FL_OK;
}

/* Folds way `way` of n through the columns of a record into h; the last column
   turns fastest. */
static uint64_t cross(const fl_op_ctx *c, uint64_t h, size_t record, size_t way,
                      size_t n)
{
    for (int i = 0; i < fl_n_in(c, X); i++) {
        const fl_tensor *t = fl_in_at(c, X, i);
        fl_span s = ids_of(t, record);

        n /= s.hi - s.lo;
        h = fold(h, fl_id_at(t, (int64_t)(s.lo + way / n)));
        way %= n;
    }
    return h;
}

static fl_status cross_ids_run(fl_op_ctx *c)
{
    const fl_tensor *out = fl_out_t(c, OUT);
    int64_t *to = fl_out(c, OUT);
    uint64_t start = fl_hash_column(fl_str_attr(c, NAME));
    uint64_t size = (uint64_t)fl_int(c, SIZE);
    fl_span s = fl_op_span(c, (size_t)records_of(out));

    for (size_t r = s.lo; r < s.hi; r++) {
        fl_span at = ids_of(out, r);

        for (size_t i = at.lo; i < at.hi; i++) {
            uint64_t h = cross(c, start, r, i - at.lo, at.hi - at.lo);

            to[i] = (int64_t)(size ? h % size : h);
        }
    }
    return FL_OK;
}

static const fl_op_case cross_ids_cases[] = {
    { .in = { "i64[33,1] below=9;i64[33,1] below=5" },
      .attrs = "{name=a, size=100}" },
    { .in = { "i64[33,1] below=9" }, .attrs = "{name=a}" },
    { .in = { "i64[3,2] below=9;i32[3,3] below=5" },
      .attrs = "{name=ab, size=7}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=9;i64[3,1] below=5" },
      .attrs = "{name=a, size=100}" },
    { .in = { "i64[3,2] below=9;i64[4,1] lod=[0,1,4,4] below=5;i64[5,1] "
              "lod=[0,2,4,5] below=5" },
      .attrs = "{name=a, size=100}" },
    { .in = { "i64[0,1];i64[0,1]" }, .attrs = "{name=a, size=100}" },
};

const fl_op fl_op_cross_ids = {
    .name = "cross_ids",
    .doc = "Out = an id below size, or of 64 bits where that is 0, for every "
           "way to take one id of each X; name makes them differ from those of "
           "other columns",
    .in = { { "X", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "name", FL_ATTR_STRING, "" }, { "size", FL_ATTR_INT, "0" } },
    .flags = FL_OP_SLICED,
    .infer = cross_ids_infer,
    .run = cross_ids_run,
    .cases = cross_ids_cases,
    .n_cases = FL_LEN(cross_ids_cases),
};

/* --- side by side --------------------------------------------------------- */

static fl_status join_ids_infer(fl_infer *c)
{
    char buf[FL_SLOT_TEXT_MAX];
    int64_t width = 0;
    size_t n_names;

    fl_attr_strings(c->node, NAMES, &n_names);
    if (n_names != (size_t)fl_infer_n_in(c, X))
        FL_FAIL(FL_ERR_INVAL, "op join_ids: %d columns have %zu names",
                fl_infer_n_in(c, X), n_names);
    for (int i = 0; i < fl_infer_n_in(c, X); i++) {
        const fl_shape *s = &fl_infer_in_at(c, X, i)->shape;

        FL_TRY(check_column(c, i));
        if (fl_infer_in_at(c, X, i)->n_lod || s->rank < 2)
            FL_FAIL(FL_ERR_INVAL,
                    "op join_ids: %s is not of the form [records, width]",
                    fl_infer_text_at(c, X, i, buf));
        width += fl_shape_count(s, 1, s->rank);
    }
    fl_infer_dense(c, OUT, FL_DTYPE_I64, 2,
                   (int64_t[]){ fl_infer_in_at(c, X, 0)->shape.dim[0], width });
    return FL_OK;
}

/* Column `i` of the records of s, into columns from `at` on of Out. */
static size_t join_column(const fl_op_ctx *c, int i, fl_span s, size_t at)
{
    const fl_tensor *t = fl_in_at(c, X, i);
    size_t n_names, width = (size_t)fl_shape_count(&t->shape, 1, t->shape.rank);
    size_t out_width = (size_t)fl_out_t(c, OUT)->shape.dim[1];
    uint64_t start =
        fl_hash_column(fl_attr_strings(c->node, NAMES, &n_names)[i]);
    int64_t *out = fl_out(c, OUT);

    for (size_t r = s.lo; r < s.hi; r++)
        for (size_t k = 0; k < width; k++)
            out[r * out_width + at + k] =
                (int64_t)fold(start, fl_id_at(t, (int64_t)(r * width + k)));
    return at + width;
}

static fl_status join_ids_run(fl_op_ctx *c)
{
    fl_span s = fl_op_span(c, (size_t)fl_out_t(c, OUT)->shape.dim[0]);
    size_t at = 0;

    for (int i = 0; i < fl_n_in(c, X); i++)
        at = join_column(c, i, s, at);
    return FL_OK;
}

static const fl_op_case join_ids_cases[] = {
    { .in = { "i64[33,1] below=9;i64[33,1] below=5" },
      .attrs = "{names=[a, b]}" },
    { .in = { "i64[5,2] below=9;i32[5,3] below=5" },
      .attrs = "{names=[a, b]}" },
    { .in = { "i64[3,1] below=9" }, .attrs = "{names=[a]}" },
    { .in = { "i64[0,1];i64[0,1]" }, .attrs = "{names=[a, b]}" },
};

const fl_op fl_op_join_ids = {
    .name = "join_ids",
    .doc = "Out = the ids of all X side by side, hashed to 64 bits with the "
           "names of their columns, so that they can share a table",
    .in = { { "X", FL_OP_SLOT_LIST | FL_SLOT_NO_GRAD } },
    .out = { { "Out", FL_SLOT_NO_GRAD } },
    .attrs = { { "names", FL_ATTR_STRINGS, "[]" } },
    .flags = FL_OP_SLICED,
    .infer = join_ids_infer,
    .run = join_ids_run,
    .cases = join_ids_cases,
    .n_cases = FL_LEN(join_ids_cases),
};
