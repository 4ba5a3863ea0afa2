/* feeder.c - samples and arrays of the caller become a batch.
 *
 * A batch is made of samples or of whole columns, not of both. In a sample each
 * variable comes once: `given` of a variable is the number of the sample (from
 * 1) that it was last given in, and a count of the given ones says at once
 * whether the sample is complete. For whole columns the number is 1.
 */
#include "data/reader/feeder.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "flotilla/words.h"
#include "base/map.h"
#include "data/reader/feed_numbers.h"
#include "tensor/tensor.h"

/* A first block of values, so that the first samples do not grow one by one. */
#define FIRST_BYTES 1024

typedef enum feed_mode { FEED_NOTHING, FEED_SAMPLES, FEED_COLUMNS } feed_mode;

/* What a batch knows of one variable beside its column. */
typedef struct variable {
    const fl_slot *slot;
    size_t row_width; /* values of a row of a ragged one */
    int n_lod;
    uint64_t given;
    size_t n_rows; /* of a whole column */
} variable;

struct fl_feeder {
    const fl_feed_spec *spec;
    fl_feed_spec own; /* empty when the spec is borrowed */
    fl_columns batch;
    variable *vars; /* one per slot */
    fl_map by_name;
    uint32_t guess; /* most callers give the variables in their order */
    uint32_t n_given;
    feed_mode mode;
    size_t n_samples;
};

/* --- life ---------------------------------------------------------------- */

fl_feeder *fl_feeder_borrow(const fl_feed_spec *s)
{
    uint32_t n = s->schema.n_slots;
    fl_feeder *f = fl_alloc(sizeof(*f));

    f->spec = s;
    fl_columns_init(&f->batch, &s->schema);
    f->vars = fl_alloc(n * sizeof(*f->vars));
    for (uint32_t i = 0; i < n; i++) {
        f->vars[i].slot = &s->schema.slots[i];
        f->vars[i].row_width = fl_feed_row_width(&s->vars[i]);
        f->vars[i].n_lod = s->vars[i].n_lod;
        fl_map_put(&f->by_name, s->schema.slots[i].name, &f->vars[i]);
    }
    return f;
}

fl_status fl_feeder_make(fl_feeder **out, const fl_slot *slots,
                         const fl_feed_var *vars, size_t n_slots)
{
    fl_feed_spec spec;
    fl_feeder *f;

    FL_TRY(fl_feed_spec_init(&spec, slots, vars, n_slots));
    f = fl_feeder_borrow(&spec);
    f->own = spec;
    f->spec = &f->own;
    f->batch.schema = &f->own.schema;
    *out = f;
    return FL_OK;
}

void fl_feeder_free(fl_feeder *f)
{
    if (!f)
        return;
    fl_columns_release(&f->batch);
    fl_map_release(&f->by_name);
    fl_free(f->vars);
    fl_feed_spec_release(&f->own);
    fl_free(f);
}

/* --- finding ------------------------------------------------------------- */

static fl_status no_such(const fl_feeder *f, const char *name)
{
    const fl_schema *s = &f->spec->schema;
    const char **names = fl_alloc(s->n_slots * sizeof(*names));
    const char *near;

    for (uint32_t i = 0; i < s->n_slots; i++)
        names[i] = s->slots[i].name;
    near = fl_nearest_name(name, names, s->n_slots);
    fl_free(names);
    if (near)
        FL_FAIL(FL_ERR_NOTFOUND,
                "the feeder has no variable %s; did you mean %s?", name, near);
    FL_FAIL(FL_ERR_NOTFOUND,
            "the feeder has no variable %s; it was made with %" PRIu32
            " of them, from %s on",
            name, s->n_slots, s->slots[0].name);
}

static fl_status find_var(fl_feeder *f, const char *name, uint32_t *out)
{
    uint32_t n = f->spec->schema.n_slots, i = f->guess;

    if (!name)
        FL_FAIL(FL_ERR_INVAL, "a variable to feed has no name (NULL)");
    if (strcmp(name, f->vars[i].slot->name) != 0) {
        const variable *v = fl_map_find(&f->by_name, name);

        if (!v)
            return no_such(f, name);
        i = (uint32_t)(v - f->vars);
    }
    f->guess = i + 1 < n ? i + 1 : 0;
    *out = i;
    return FL_OK;
}

/* --- memory -------------------------------------------------------------- */

/* Room for `need` bytes that keeps the first `keep`; false without memory. */
static bool grow(void **p, size_t *cap, size_t need, size_t keep)
{
    size_t size = *cap > SIZE_MAX / 2 ? need : *cap * 2;
    void *q;

    if (size < need)
        size = need;
    if (size < FIRST_BYTES)
        size = FIRST_BYTES;
    q = fl_try_alloc(size);
    if (!q)
        return false;
    if (keep)
        memcpy(q, *p, keep);
    fl_data_free(*p, *cap);
    *p = q;
    *cap = size;
    return true;
}

static fl_status no_memory(const fl_slot *slot, size_t n)
{
    FL_FAIL(FL_ERR_NOMEM,
            "feed %s: no memory for %zu more values; make batches smaller",
            slot->name, n);
}

/* Room for n values behind the first `kept` ones. */
static fl_status reserve_values(fl_column *col, const fl_slot *slot,
                                size_t kept, size_t n)
{
    size_t size = fl_slot_bytes(slot), need;

    if (__builtin_add_overflow(kept, n, &need) ||
        fl_mul_overflow(need, size, &need))
        return no_memory(slot, n);
    if (col->values && need <= col->cap_bytes)
        return FL_OK;
    if (!grow(&col->values, &col->cap_bytes, need, kept * size))
        return no_memory(slot, n);
    return FL_OK;
}

/* Room in `off` for the offsets of n lists, of which the first `kept` stay. */
static fl_status grow_offsets(int64_t **off, size_t *cap_off,
                              const fl_slot *slot, size_t kept, size_t n)
{
    size_t size = sizeof(**off), cap, need;
    void *p = *off;

    if (n < *cap_off)
        return FL_OK;
    cap = *cap_off * size;
    if (__builtin_add_overflow(n, 1, &need) ||
        fl_mul_overflow(need, size, &need) ||
        !grow(&p, &cap, need, kept ? (kept + 1) * size : 0))
        return no_memory(slot, n);
    /* A grown block is a whole number of offsets, since `need` and the smallest
       block are. */
    *off = p;
    *cap_off = cap / size;
    **off = 0;
    return FL_OK;
}

static fl_status reserve_offsets(fl_column *col, const fl_slot *slot,
                                 size_t kept, size_t n_rows)
{
    return grow_offsets(&col->offsets, &col->cap_offsets, slot, kept, n_rows);
}

static fl_status reserve_inner(fl_column *col, const fl_slot *slot, size_t kept,
                               size_t n)
{
    return grow_offsets(&col->inner, &col->cap_inner, slot, kept, n);
}

/* --- samples ------------------------------------------------------------- */

void fl_feeder_begin(fl_feeder *f)
{
    for (uint32_t i = 0; i < f->spec->schema.n_slots; i++) {
        f->vars[i].given = 0;
        f->batch.cols[i].n_values = 0;
        f->batch.cols[i].n_inner = 0;
    }
    f->mode = FEED_NOTHING;
    f->guess = f->n_given = 0;
    f->n_samples = 0;
}

static fl_status check_sample(const fl_feeder *f, const variable *v, size_t n)
{
    const fl_slot *slot = v->slot;

    if (f->mode == FEED_COLUMNS)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: this batch is given in whole columns; give samples "
                "in a batch of their own (fl_feeder_begin)",
                slot->name);
    if (v->given > f->n_samples)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: sample %zu has it already; end the sample first "
                "(fl_feeder_end_sample)",
                slot->name, f->n_samples);
    if (slot->width && n != slot->width)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: sample %zu gives %zu values, the variable takes "
                "%" PRIu32,
                slot->name, f->n_samples, n, slot->width);
    if (!slot->width && n % v->row_width)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: sample %zu gives %zu values, the variable takes rows "
                "of %zu",
                slot->name, f->n_samples, n, v->row_width);
    return FL_OK;
}

/* Lists of lists come by functions of their own. */
static fl_status check_levels(const variable *v, bool has_lists)
{
    if ((v->n_lod > 1) == has_lists)
        return FL_OK;
    FL_FAIL(FL_ERR_INVAL,
            "feed %s: the variable has %d levels of offsets; give %s",
            v->slot->name, v->n_lod,
            has_lists ? "its values with fl_feeder_ids or fl_feeder_floats"
                      : "samples of it with fl_feeder_lists, a whole column "
                        "with fl_feeder_tensor");
}

static fl_status check_dtype(const char *name, fl_dtype dtype)
{
    if ((unsigned)dtype >= FL_N_DTYPES)
        FL_FAIL(FL_ERR_INVAL, "feed %s: there is no number type %d", name,
                (int)dtype);
    return FL_OK;
}

static fl_status check_data(const fl_slot *slot, const void *data, size_t n)
{
    if (n && !data)
        FL_FAIL(FL_ERR_INVAL, "feed %s: %zu values, but no data (NULL)",
                slot->name, n);
    return FL_OK;
}

/* The values of the open sample, in front of its offsets. */
static fl_status take_sample(fl_feeder *f, uint32_t i, fl_dtype dtype,
                             const void *data, size_t n)
{
    const variable *v = &f->vars[i];
    fl_column *col = &f->batch.cols[i];
    size_t row = f->n_samples;
    char *to;

    FL_TRY(check_sample(f, v, n));
    FL_TRY(check_data(v->slot, data, n));
    FL_TRY(reserve_values(col, v->slot, col->n_values, n));
    if (!v->slot->width)
        FL_TRY(reserve_offsets(col, v->slot, row, row + 1));
    to = (char *)col->values + col->n_values * fl_slot_bytes(v->slot);
    return fl_feed_numbers(v->slot, &(fl_feed_array){ dtype, data, n }, to,
                           (fl_feed_place){ .row = row });
}

/* The sample has it: n values, which end where the offset says. */
static void close_sample(fl_feeder *f, uint32_t i, size_t n, size_t end)
{
    fl_column *col = &f->batch.cols[i];

    col->n_values += n;
    if (!f->vars[i].slot->width) {
        col->offsets[0] = 0;
        col->offsets[f->n_samples + 1] = (int64_t)end;
    }
    f->vars[i].given = f->n_samples + 1;
    f->n_given++;
    f->mode = FEED_SAMPLES;
}

static fl_status give_sample(fl_feeder *f, const char *name, fl_dtype dtype,
                             const void *data, size_t n)
{
    uint32_t i = 0;

    FL_TRY(find_var(f, name, &i));
    FL_TRY(check_levels(&f->vars[i], false));
    FL_TRY(take_sample(f, i, dtype, data, n));
    close_sample(f, i, n,
                 (f->batch.cols[i].n_values + n) / f->vars[i].row_width);
    return FL_OK;
}

fl_status fl_feeder_ids(fl_feeder *f, const char *name, const uint64_t *ids,
                        size_t n)
{
    return give_sample(f, name, FL_DTYPE_U64, ids, n);
}

fl_status fl_feeder_floats(fl_feeder *f, const char *name, const float *x,
                           size_t n)
{
    return give_sample(f, name, FL_DTYPE_F32, x, n);
}

/* off[i + 1] = off[i] + lens[i] */
static fl_status add_lens(const fl_slot *slot, const size_t *lens, size_t n,
                          int64_t *off)
{
    if (n && !lens)
        FL_FAIL(FL_ERR_INVAL, "feed %s: %zu lists, but no lengths (NULL)",
                slot->name, n);
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(off[i], lens[i], &off[i + 1]))
            FL_FAIL(FL_ERR_INVAL,
                    "feed %s: the lengths up to row %zu add up to more than "
                    "any memory holds; it has length %zu",
                    slot->name, i, lens[i]);
    return FL_OK;
}

fl_status fl_feeder_lists(fl_feeder *f, const char *name, fl_dtype dtype,
                          const void *data, const size_t *lens, size_t n_lists)
{
    const variable *v;
    fl_column *col;
    uint32_t i = 0;
    size_t n;

    FL_TRY(find_var(f, name, &i));
    v = &f->vars[i];
    FL_TRY(check_dtype(name, dtype));
    FL_TRY(check_levels(v, true));
    col = &f->batch.cols[i];
    FL_TRY(reserve_inner(col, v->slot, col->n_inner, col->n_inner + n_lists));
    FL_TRY(add_lens(v->slot, lens, n_lists, col->inner + col->n_inner));
    if (fl_mul_overflow((size_t)col->inner[col->n_inner + n_lists],
                        v->row_width, &n))
        return no_memory(v->slot, n_lists);
    n -= col->n_values;
    FL_TRY(take_sample(f, i, dtype, data, n));
    col->n_inner += n_lists;
    close_sample(f, i, n, col->n_inner);
    return FL_OK;
}

/* The first variable that the open sample, or the batch, does not have. */
static const char *first_missing(const fl_feeder *f)
{
    uint32_t i = 0;

    while (f->vars[i].given > f->n_samples)
        i++;
    return f->vars[i].slot->name;
}

fl_status fl_feeder_end_sample(fl_feeder *f)
{
    if (f->mode == FEED_COLUMNS)
        FL_FAIL(FL_ERR_INVAL, "this batch is given in whole columns: there is "
                              "no sample to end");
    if (f->n_given < f->spec->schema.n_slots)
        FL_FAIL(FL_ERR_INVAL,
                "sample %zu has no %s; give every variable before the end, a "
                "ragged one with 0 values if it has none",
                f->n_samples, first_missing(f));
    f->n_given = 0;
    f->n_samples++;
    return FL_OK;
}

size_t fl_feeder_samples(const fl_feeder *f)
{
    return f->n_samples;
}

bool fl_feeder_is_empty(const fl_feeder *f)
{
    return f->mode == FEED_NOTHING;
}

bool fl_feeder_is_open(const fl_feeder *f)
{
    return f->mode == FEED_SAMPLES && f->n_given;
}

fl_status fl_feeder_close_sample(fl_feeder *f)
{
    return fl_feeder_is_open(f) ? fl_feeder_end_sample(f) : FL_OK;
}

/* --- whole columns ------------------------------------------------------- */

/* The checks that dense and ragged columns share. */
static fl_status open_column(fl_feeder *f, const char *name, fl_dtype dtype,
                             uint32_t *i)
{
    FL_TRY(find_var(f, name, i));
    FL_TRY(check_dtype(name, dtype));
    if (f->mode == FEED_SAMPLES)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: this batch is given in samples; give whole columns "
                "in a batch of their own (fl_feeder_begin)",
                name);
    if (f->vars[*i].given)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: this batch has it already; begin another one "
                "(fl_feeder_begin)",
                name);
    return FL_OK;
}

static void close_column(fl_feeder *f, uint32_t i, size_t n_values,
                         size_t n_rows)
{
    f->batch.cols[i].n_values = n_values;
    f->vars[i].given = 1;
    f->vars[i].n_rows = n_rows;
    f->n_given++;
    f->mode = FEED_COLUMNS;
}

fl_status fl_feeder_dense(fl_feeder *f, const char *name, fl_dtype dtype,
                          const void *data, size_t n_rows)
{
    const fl_slot *slot;
    size_t n;
    uint32_t i = 0;

    FL_TRY(open_column(f, name, dtype, &i));
    slot = f->vars[i].slot;
    if (!slot->width)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: the variable is ragged; give it with "
                "fl_feeder_ragged",
                name);
    if (fl_mul_overflow(n_rows, slot->width, &n))
        return no_memory(slot, n_rows);
    FL_TRY(check_data(slot, data, n));
    FL_TRY(reserve_values(&f->batch.cols[i], slot, 0, n));
    FL_TRY(fl_feed_numbers(slot, &(fl_feed_array){ dtype, data, n },
                           f->batch.cols[i].values,
                           (fl_feed_place){ .width = slot->width }));
    close_column(f, i, n, n_rows);
    return FL_OK;
}

/* The values of a ragged column whose offsets are there. */
static fl_status take_column(fl_feeder *f, uint32_t i, fl_dtype dtype,
                             const void *data, size_t n_rows)
{
    const variable *v = &f->vars[i];
    fl_column *col = &f->batch.cols[i];
    fl_feed_place at = { .width = v->row_width,
                         .offsets = col->offsets,
                         .inner = v->n_lod > 1 ? col->inner : NULL };
    size_t n;

    if (fl_mul_overflow(fl_feed_list_end(&at, n_rows), v->row_width, &n))
        return no_memory(v->slot, n_rows);
    FL_TRY(check_data(v->slot, data, n));
    FL_TRY(reserve_values(col, v->slot, 0, n));
    FL_TRY(fl_feed_numbers(v->slot, &(fl_feed_array){ dtype, data, n },
                           col->values, at));
    close_column(f, i, n, n_rows);
    return FL_OK;
}

static fl_status open_ragged(fl_feeder *f, const char *name, fl_dtype dtype,
                             uint32_t *i)
{
    FL_TRY(open_column(f, name, dtype, i));
    if (f->vars[*i].slot->width)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: the variable is dense, %" PRIu32 " values a row; "
                "give it with fl_feeder_dense",
                name, f->vars[*i].slot->width);
    return FL_OK;
}

fl_status fl_feeder_ragged(fl_feeder *f, const char *name, fl_dtype dtype,
                           const void *data, const size_t *lens, size_t n_rows)
{
    const fl_slot *slot;
    fl_column *col;
    uint32_t i = 0;

    FL_TRY(open_ragged(f, name, dtype, &i));
    FL_TRY(check_levels(&f->vars[i], false));
    slot = f->vars[i].slot;
    col = &f->batch.cols[i];
    FL_TRY(reserve_offsets(col, slot, 0, n_rows));
    col->offsets[0] = 0;
    FL_TRY(add_lens(slot, lens, n_rows, col->offsets));
    return take_column(f, i, dtype, data, n_rows);
}

/* Rows and offsets of a tensor against those of the variable. */
static fl_status check_tensor(const variable *v, const fl_tensor *t)
{
    const fl_shape *s = &t->shape;
    int64_t width = s->rank ? fl_shape_count(s, 1, s->rank) : 0;
    char buf[FL_SHAPE_TEXT_MAX];

    FL_TRY(fl_err_ctx(fl_tensor_check(t), "feed %s", v->slot->name));
    if (t->kind == FL_KIND_ROWS || t->n_lod != v->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: the tensor has %d levels of offsets or is rows + "
                "values; the variable has %d levels",
                v->slot->name, t->n_lod, v->n_lod);
    if (width != (int64_t)v->row_width || s->dim[0] < 0)
        FL_FAIL(FL_ERR_INVAL,
                "feed %s: the tensor is %s, the variable takes rows of %zu "
                "values",
                v->slot->name, fl_shape_text(s, buf), v->row_width);
    return fl_err_ctx(fl_lod_check(t), "feed %s", v->slot->name);
}

static fl_status copy_levels(fl_column *col, const fl_slot *slot,
                             const fl_tensor *t)
{
    size_t n = (size_t)t->lod_len[0] - 1;

    FL_TRY(reserve_offsets(col, slot, 0, n));
    memcpy(col->offsets, t->lod[0], (n + 1) * sizeof(*col->offsets));
    if (t->n_lod < 2)
        return FL_OK;
    n = (size_t)t->lod_len[1] - 1;
    FL_TRY(reserve_inner(col, slot, 0, n));
    memcpy(col->inner, t->lod[1], (n + 1) * sizeof(*col->inner));
    col->n_inner = n;
    return FL_OK;
}

fl_status fl_feeder_tensor(fl_feeder *f, const char *name,
                           const fl_tensor *value)
{
    uint32_t i = 0;

    FL_TRY(open_column(f, name, value->dtype, &i));
    FL_TRY(check_tensor(&f->vars[i], value));
    if (f->vars[i].slot->width)
        return fl_feeder_dense(f, name, value->dtype, value->data,
                               (size_t)value->shape.dim[0]);
    FL_TRY(copy_levels(&f->batch.cols[i], f->vars[i].slot, value));
    return take_column(f, i, value->dtype, value->data,
                       (size_t)value->lod_len[0] - 1);
}

/* --- the batch ----------------------------------------------------------- */

static fl_status check_columns(const fl_feeder *f, size_t *n_rows)
{
    const variable *first = &f->vars[0];

    if (f->n_given < f->spec->schema.n_slots)
        FL_FAIL(FL_ERR_INVAL, "the batch has no %s; give every variable",
                first_missing(f));
    for (uint32_t i = 1; i < f->spec->schema.n_slots; i++)
        if (f->vars[i].n_rows != first->n_rows)
            FL_FAIL(FL_ERR_INVAL,
                    "the columns differ in their rows: %s has %zu, %s has %zu",
                    first->slot->name, first->n_rows, f->vars[i].slot->name,
                    f->vars[i].n_rows);
    *n_rows = first->n_rows;
    return FL_OK;
}

static fl_status check_samples(const fl_feeder *f, size_t *n_rows)
{
    if (f->n_given)
        FL_FAIL(FL_ERR_INVAL,
                "sample %zu is not ended; call fl_feeder_end_sample after its "
                "last variable",
                f->n_samples);
    *n_rows = f->n_samples;
    return FL_OK;
}

fl_status fl_feeder_feeds(fl_feeder *f, const fl_feed **feeds, size_t *n_rows)
{
    fl_columns *c = &f->batch;
    size_t n = 0;

    if (f->mode == FEED_SAMPLES)
        FL_TRY(check_samples(f, &n));
    else
        FL_TRY(check_columns(f, &n));
    c->n_rows = n;
    for (uint32_t i = 0; i < f->spec->schema.n_slots; i++) {
        c->feeds[i].name = f->vars[i].slot->name;
        c->feeds[i].value = fl_feed_spec_view(f->spec, i, &c->cols[i], n);
    }
    *feeds = c->feeds;
    *n_rows = n;
    return FL_OK;
}

const fl_columns *fl_feeder_columns(const fl_feeder *f)
{
    return &f->batch;
}
