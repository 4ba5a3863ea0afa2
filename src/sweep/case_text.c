/* case_text.c - "f32[3,4]", "i64[7,1] lod=[0,2,7] below=10",
 * "f32[9,4] rows height=9", "i32[2] is=[3,4]" and what is drawn for them. A
 * second lod= is the inner level. Values depend on (slot, entry, element) alone. */
#include "sweep/case_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/tensor.h"

#define IDS_BELOW 10 /* for integers whose text names no limit */
#define VALUES_MAX 64
#define OFFSETS_MAX 96

typedef struct reader {
    const char *text; /* for messages */
    const char *at;
    fl_arena *mem;
} reader;

/* One input, and how its values are drawn. */
typedef struct wish {
    fl_tensor t;
    double below; /* 0: not said */
    int64_t *is;  /* all values; NULL: they are drawn */
    int n_is;
} wish;

static bool accept(reader *r, const char *text)
{
    r->at += strspn(r->at, " ");
    if (strncmp(r->at, text, strlen(text)))
        return false;
    r->at += strlen(text);
    return true;
}

static fl_status complain(const reader *r, const char *what)
{
    FL_FAIL(FL_ERR_CORRUPT, "case text '%s': expected %s before '%s'", r->text,
            what, r->at);
}

static fl_status read_int(reader *r, int64_t *out)
{
    char *end;

    *out = strtoll(r->at, &end, 10);
    if (end == r->at)
        return complain(r, "a number");
    r->at = end;
    return FL_OK;
}

/* "[1,2]"; stores at most `max` numbers. */
static fl_status read_list(reader *r, int64_t *out, int max, int *n)
{
    *n = 0;
    if (!accept(r, "["))
        return complain(r, "'['");
    while (!accept(r, "]")) {
        if (*n == max)
            return complain(r, "an end of the list");
        FL_TRY(read_int(r, &out[(*n)++]));
        accept(r, ",");
    }
    return FL_OK;
}

static fl_status read_type(reader *r, fl_dtype real, fl_tensor *t)
{
    char name[sizeof("bool")] = "";
    size_t n = strcspn(r->at, "[ ;");

    if (n >= sizeof(name))
        return complain(r, "a type");
    memcpy(name, r->at, n);
    if (!fl_dtype_parse(name, &t->dtype))
        return complain(r, "a type");
    r->at += n;
    if (t->dtype == FL_DTYPE_F32)
        t->dtype = real;
    return read_list(r, t->shape.dim, FL_RANK_MAX, &t->shape.rank);
}

static fl_status read_offsets(reader *r, fl_tensor *t)
{
    int64_t *offsets = fl_arena_alloc(r->mem, OFFSETS_MAX * sizeof(*offsets));
    int n;

    if (t->n_lod == FL_LOD_MAX)
        return complain(r, "no further level of offsets");
    FL_TRY(read_list(r, offsets, OFFSETS_MAX, &n));
    t->kind = FL_KIND_RAGGED;
    t->lod[t->n_lod] = offsets;
    t->lod_len[t->n_lod++] = n;
    return FL_OK;
}

static fl_status read_words(reader *r, wish *w)
{
    int64_t below;

    for (;;) {
        if (accept(r, "lod=")) {
            FL_TRY(read_offsets(r, &w->t));
        } else if (accept(r, "below=")) {
            FL_TRY(read_int(r, &below));
            w->below = (double)below;
        } else if (accept(r, "is=")) {
            w->is = fl_arena_alloc(r->mem, VALUES_MAX * sizeof(*w->is));
            FL_TRY(read_list(r, w->is, VALUES_MAX, &w->n_is));
        } else if (accept(r, "height=")) {
            FL_TRY(read_int(r, &w->t.height));
        } else if (accept(r, "rows")) {
            w->t.kind = FL_KIND_ROWS;
        } else if (accept(r, "array")) {
            w->t.kind = FL_KIND_ARRAY;
        } else {
            return FL_OK;
        }
    }
}

static fl_status read_wish(reader *r, fl_dtype real, wish *w)
{
    *w = (wish){ 0 };
    r->at += strspn(r->at, " ");
    FL_TRY(read_type(r, real, &w->t));
    FL_TRY(read_words(r, w));
    if (*r->at && *r->at != ';')
        return complain(r, "';'");
    if (w->is && w->n_is != fl_shape_numel(&w->t.shape))
        return complain(r, "as many values as there are elements");
    if (w->t.kind == FL_KIND_ROWS && w->t.height < 1)
        return complain(r, "height= for the rows");
    return fl_lod_check(&w->t);
}

/* --- values --------------------------------------------------------------- */

/* In [first/2, 2), 0.05 away from every multiple of 0.5. */
static double away_from_corners(uint64_t stream, uint64_t i, int first)
{
    int n_cells = 4 - first;
    int cell = first + (int)(fl_rng_unit(stream, i, 0) * n_cells);

    return 0.5 * cell + 0.05 + 0.4 * fl_rng_unit(stream, i, 1);
}

static double draw_float(const fl_op_case *c, const wish *w, int slot,
                         uint64_t stream, uint64_t i)
{
    double below = c->flags & FL_CASE_UNIT ? 1 : w->below;

    if (below > 0)
        return below * (0.05 + 0.9 * fl_rng_unit(stream, i, 0));
    if ((c->flags & FL_CASE_BINARY) && slot > 0)
        return fl_rng_unit(stream, i, 0) < 0.5 ? 0 : 1;
    if (c->flags & FL_CASE_POSITIVE)
        return away_from_corners(stream, i, 1);
    if ((c->flags & FL_CASE_PROB) && slot == 0)
        return 0.5 + fl_rng_unit(stream, i, 0);
    return away_from_corners(stream, i, -4);
}

static double draw_int(const wish *w, uint64_t stream, uint64_t i)
{
    double most = w->t.dtype == FL_DTYPE_BOOL ? 2 : IDS_BELOW;
    double below = w->below > 0 ? w->below : most;

    return (double)(int64_t)(fl_rng_unit(stream, i, 0) * below);
}

static void store(fl_tensor *t, int64_t i, double v)
{
    switch (t->dtype) {
#define X(name, value, type, text, long_text)                                  \
    case FL_DTYPE_##name:                                                      \
        ((type *)t->data)[i] = (type)v;                                        \
        break;
        FL_DTYPE_PLAIN_MAP(X)
#undef X
    case FL_DTYPE_F16:
        ((uint16_t *)t->data)[i] = fl_half_of(v);
        break;
    }
}

static void draw_values(const fl_op_case *c, wish *w, int slot, uint64_t stream)
{
    int64_t n = fl_tensor_numel(&w->t);
    int64_t width = n ? w->t.shape.dim[w->t.shape.rank - 1] : 1;
    double sum = 1;

    FL_ASSERT(width > 0);
    for (int64_t i = 0; i < n; i++) {
        double v;

        if (w->is) {
            store(&w->t, i, (double)w->is[i]);
            continue;
        }
        if (!fl_dtype_is_float(w->t.dtype)) {
            store(&w->t, i, draw_int(w, stream, (uint64_t)i));
            continue;
        }
        if ((c->flags & FL_CASE_PROB) && slot == 0 && i % width == 0) {
            sum = 0;
            for (int64_t j = i; j < i + width; j++)
                sum += draw_float(c, w, slot, stream, (uint64_t)j);
        }
        v = draw_float(c, w, slot, stream, (uint64_t)i) / sum;
        store(&w->t, i, (double)(float)v);
    }
}

static void draw_rows(fl_tensor *t, uint64_t stream, fl_arena *mem)
{
    int64_t n = t->shape.dim[0];

    t->rows = fl_arena_alloc(mem, (size_t)n * sizeof(*t->rows));
    for (int64_t i = 0; i < n; i++)
        t->rows[i] =
            (uint64_t)(fl_rng_unit(stream, (uint64_t)i, 2) * (double)t->height);
}

static fl_status draw_one(const fl_op_case *c, wish *w, int slot, int entry,
                          fl_arena *mem, fl_tensor **out)
{
    uint64_t stream =
        fl_rng_stream((uint64_t)slot * 100 + (uint64_t)entry, "case");
    size_t bytes;

    FL_TRY(fl_tensor_bytes(&w->t, &bytes));
    w->t.data = fl_arena_alloc(mem, bytes);
    draw_values(c, w, slot, stream);
    if (w->t.kind == FL_KIND_ROWS)
        draw_rows(&w->t, stream, mem);
    *out = fl_arena_alloc(mem, sizeof(**out));
    **out = w->t;
    return FL_OK;
}

static int count_entries(const char *text)
{
    int n = 1;

    for (; *text; text++)
        n += *text == ';';
    return n;
}

fl_status fl_case_draw(const fl_op *op, const fl_op_case *c, fl_dtype real,
                       fl_arena *mem, fl_targs *in)
{
    for (int s = 0; s < fl_op_n_in(op) && s < FL_CASE_ARGS_MAX; s++) {
        reader r = { .text = c->in[s], .at = c->in[s], .mem = mem };
        int n;

        if (!c->in[s] || !*c->in[s])
            continue;
        n = count_entries(c->in[s]);
        in[s].t = fl_arena_alloc(mem, (size_t)n * sizeof(*in[s].t));
        for (; in[s].n < n; in[s].n++) {
            wish w;

            FL_TRY(read_wish(&r, real, &w));
            FL_TRY(draw_one(c, &w, s, in[s].n, mem, &in[s].t[in[s].n]));
            accept(&r, ";");
        }
    }
    return FL_OK;
}
