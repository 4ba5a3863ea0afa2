/* columns.c - a batch of records, column by column. */
#include "data/columns.h"

#include "base/alloc.h"

/* Records that are gone through together, column by column: few enough to stay in
   the nearest cache. */
#define NEAR_ROWS 128

void fl_columns_init(fl_columns *c, const fl_schema *s)
{
    *c = (fl_columns){ .schema = s };
    c->cols = fl_alloc(s->n_slots * sizeof(*c->cols));
    c->feeds = fl_alloc(s->n_slots * sizeof(*c->feeds));
}

void fl_columns_release(fl_columns *c)
{
    for (uint32_t i = 0; c->schema && i < c->schema->n_slots; i++) {
        fl_column *col = &c->cols[i];

        fl_data_free(col->values, col->cap_bytes);
        fl_data_free(col->offsets, col->cap_offsets * sizeof(*col->offsets));
        fl_data_free(col->inner, col->cap_inner * sizeof(*col->inner));
    }
    fl_free(c->cols);
    fl_free(c->feeds);
    fl_vec_release(&c->runs);
    *c = (fl_columns){ 0 };
}

/* Grows by half at least, so that batches of slowly growing size do not ask
   for memory each time. */
static bool renew(void **p, size_t *cap, size_t need, size_t bytes)
{
    size_t n = *cap + *cap / 2 > need ? *cap + *cap / 2 : need;
    size_t size;

    if (need <= *cap)
        return true;
    fl_data_free(*p, *cap * bytes);
    *cap = 0;
    *p = fl_mul_overflow(n, bytes, &size) ? NULL : fl_try_alloc(size);
    if (*p)
        *cap = n;
    return *p != NULL;
}

fl_status fl_columns_reserve(fl_columns *c, uint32_t i, size_t n_values,
                             size_t n_rows)
{
    const fl_slot *slot = &c->schema->slots[i];
    fl_column *col = &c->cols[i];
    size_t bytes;

    /* One byte, so that an empty column has an address as well. */
    if (fl_mul_overflow(n_values, fl_slot_bytes(slot), &bytes) ||
        !renew(&col->values, &col->cap_bytes, bytes ? bytes : 1, 1) ||
        (slot->width == 0 && !renew((void **)&col->offsets, &col->cap_offsets,
                                    n_rows + 1, sizeof(*col->offsets))))
        FL_FAIL(FL_ERR_NOMEM, "slot %s: no memory for %zu values", slot->name,
                n_values);
    return FL_OK;
}

static fl_tensor view(const fl_slot *slot, const fl_column *col, size_t n_rows)
{
    fl_dtype dtype = slot->kind == FL_SLOT_IDS ? FL_DTYPE_I64 : FL_DTYPE_F32;

    if (slot->width == 0)
        return fl_tensor_ragged(dtype, col->values, 2,
                                (int64_t[]){ (int64_t)col->n_values, 1 },
                                col->offsets, (int64_t)n_rows);
    return fl_tensor_of(dtype, col->values, 2,
                        (int64_t[]){ (int64_t)n_rows, slot->width });
}

void fl_columns_seal(fl_columns *c, size_t n_rows)
{
    c->n_rows = n_rows;
    for (uint32_t i = 0; i < c->schema->n_slots; i++) {
        const fl_slot *slot = &c->schema->slots[i];

        c->feeds[i].name = slot->name;
        c->feeds[i].value = view(slot, &c->cols[i], n_rows);
    }
}

/* --- gathering ----------------------------------------------------------- */

static uint32_t count_of(const uint32_t *row, uint32_t ragged,
                         const uint32_t *at)
{
    uint8_t n = ((const uint8_t *)row)[ragged];

    return n < FL_ROW_LONG ? n : *at;
}

/* Where the values of each record's next slot stand, advanced slot by slot:
   gathering goes through the columns, one at a time. */
typedef struct gather {
    const uint32_t *const *rows;
    const uint32_t **at;
    size_t n;
} gather;

static inline void copy_values(void *to, const void *from, size_t bytes)
{
    /* Most slots have one value: a call would cost more than the copy. */
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, bytes);
}

static fl_status gather_dense(fl_columns *c, uint32_t i, gather *g)
{
    const fl_slot *slot = &c->schema->slots[i];
    size_t bytes = (size_t)slot->width * fl_slot_bytes(slot);
    char *to;

    FL_TRY(fl_columns_reserve(c, i, g->n * slot->width, g->n));
    to = c->cols[i].values;
    for (size_t r = 0; r < g->n; r++, to += bytes) {
        copy_values(to, g->at[r], bytes);
        g->at[r] += bytes / 4;
    }
    c->cols[i].n_values = g->n * slot->width;
    return FL_OK;
}

static size_t sum_counts(const gather *g, uint32_t ragged)
{
    size_t sum = 0;

    for (size_t r = 0; r < g->n; r++)
        sum += count_of(g->rows[r], ragged, g->at[r]);
    return sum;
}

static fl_status gather_ragged(fl_columns *c, uint32_t i, uint32_t ragged,
                               gather *g)
{
    fl_column *col = &c->cols[i];
    uint32_t value = fl_slot_bytes(&c->schema->slots[i]);
    char *to;

    FL_TRY(fl_columns_reserve(c, i, sum_counts(g, ragged), g->n));
    to = col->values;
    col->n_values = 0;
    col->offsets[0] = 0;
    for (size_t r = 0; r < g->n; r++) {
        uint32_t n = count_of(g->rows[r], ragged, g->at[r]);
        size_t bytes = (size_t)n * value;

        g->at[r] += n >= FL_ROW_LONG;
        copy_values(to, g->at[r], bytes);
        g->at[r] += bytes / 4;
        to += bytes;
        col->n_values += n;
        col->offsets[r + 1] = (int64_t)col->n_values;
    }
    return FL_OK;
}

static fl_status gather_columns(fl_columns *c, gather *g)
{
    const fl_schema *s = c->schema;
    uint32_t ragged = 0;

    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].width)
            FL_TRY(gather_dense(c, i, g));
        else
            FL_TRY(gather_ragged(c, i, ragged++, g));
    return FL_OK;
}

static fl_status gather_uneven(fl_columns *c, const uint32_t *const *rows,
                               size_t n)
{
    size_t bytes = n * sizeof(*rows);
    gather g = { rows, fl_try_alloc(bytes), n };
    fl_status st;

    if (!g.at)
        FL_FAIL(FL_ERR_NOMEM, "no memory for a batch of %zu records", n);
    for (size_t r = 0; r < n; r++)
        g.at[r] = rows[r] + c->schema->count_words;
    st = gather_columns(c, &g);
    fl_data_free(g.at, bytes);
    return st;
}

/* --- one value each -------------------------------------------------------- */

/* Every record has one value in each ragged slot, as most logs of clicks do: then
   their values are as far from the beginning in all of them. */
static bool is_even(const fl_schema *s, const uint32_t *const *rows, size_t n)
{
    const uint8_t *counts = n ? (const uint8_t *)rows[0] : NULL;

    for (uint32_t i = 0; n && i < s->n_ragged; i++)
        if (counts[i] != 1)
            return false;
    for (size_t r = 1; r < n; r++)
        if (memcmp(rows[r], counts, s->count_words * sizeof(*rows[r])) != 0)
            return false;
    return true;
}

static size_t even_bytes(const fl_slot *slot)
{
    return (size_t)(slot->width ? slot->width : 1) * fl_slot_bytes(slot);
}

/* 0, 1, 2, ... n, as a copy of `from` where there is one. */
static const int64_t *count_up(int64_t *offsets, const int64_t *from, size_t n)
{
    if (from)
        memcpy(offsets, from, (n + 1) * sizeof(*offsets));
    for (size_t r = 0; !from && r <= n; r++)
        offsets[r] = (int64_t)r;
    return offsets;
}

/* Room for n records in each column, and their offsets. */
static fl_status open_even(fl_columns *c, size_t n)
{
    const fl_schema *s = c->schema;
    const int64_t *offsets = NULL;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        fl_column *col = &c->cols[i];

        col->n_values = n * (s->slots[i].width ? s->slots[i].width : 1);
        FL_TRY(fl_columns_reserve(c, i, col->n_values, n));
        if (!s->slots[i].width)
            offsets = count_up(col->offsets, offsets, n);
    }
    return FL_OK;
}

/* Values that begin `at` words behind each record's first. */
static void copy_even(char *to, const uint32_t *const *rows, size_t n,
                      size_t at, size_t bytes)
{
    if (bytes == sizeof(uint64_t))
        for (size_t r = 0; r < n; r++)
            memcpy(to + r * sizeof(uint64_t), rows[r] + at, sizeof(uint64_t));
    else
        for (size_t r = 0; r < n; r++)
            copy_values(to + r * bytes, rows[r] + at, bytes);
}

static void gather_even(fl_columns *c, const uint32_t *const *rows, size_t lo,
                        size_t hi)
{
    const fl_schema *s = c->schema;
    size_t at = s->count_words;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        size_t bytes = even_bytes(&s->slots[i]);

        copy_even((char *)c->cols[i].values + lo * bytes, rows + lo, hi - lo,
                  at, bytes);
        at += bytes / sizeof(**rows);
    }
}

/* Feeds with the same offsets have them at the same place: who looks at them
   looks once. */
static void share_offsets(fl_columns *c)
{
    const int64_t *shared = NULL;

    for (uint32_t i = 0; i < c->schema->n_slots; i++) {
        if (c->schema->slots[i].width)
            continue;
        shared = shared ? shared : c->cols[i].offsets;
        c->feeds[i].value.lod[0] = shared;
    }
}

fl_status fl_columns_gather(fl_columns *c, const uint32_t *const *rows,
                            size_t n)
{
    if (!is_even(c->schema, rows, n)) {
        FL_TRY(gather_uneven(c, rows, n));
        fl_columns_seal(c, n);
        return FL_OK;
    }
    FL_TRY(open_even(c, n));
    for (size_t lo = 0; lo < n; lo += NEAR_ROWS)
        gather_even(c, rows, lo, n - lo < NEAR_ROWS ? n : lo + NEAR_ROWS);
    fl_columns_seal(c, n);
    share_offsets(c);
    return FL_OK;
}

/* --- packing ------------------------------------------------------------- */

/* Values of record r in column i, and where they begin. */
static size_t values_of(const fl_columns *c, uint32_t i, size_t r, size_t *from)
{
    const fl_slot *slot = &c->schema->slots[i];
    const int64_t *offsets = c->cols[i].offsets;

    if (slot->width) {
        *from = r * slot->width;
        return slot->width;
    }
    *from = (size_t)offsets[r];
    return (size_t)(offsets[r + 1] - offsets[r]);
}

/* Words that the records [lo, hi) take, each and together. */
static size_t measure_rows(const fl_columns *c, size_t lo, size_t hi,
                           size_t *words)
{
    size_t sum = 0, from;

    for (size_t r = lo; r < hi; r++)
        words[r - lo] = c->schema->count_words;
    for (uint32_t i = 0; i < c->schema->n_slots; i++) {
        const fl_slot *slot = &c->schema->slots[i];
        uint32_t value = fl_slot_bytes(slot) / 4;

        for (size_t r = lo; r < hi; r++) {
            size_t n = values_of(c, i, r, &from);

            words[r - lo] += n * value + (slot->width == 0 && n >= FL_ROW_LONG);
        }
    }
    for (size_t r = lo; r < hi; r++)
        sum += words[r - lo];
    return sum;
}

/* Records that are being packed: at[k] is the next word of record first + k. */
typedef struct packing {
    fl_records *rows;
    size_t first;
    size_t at[NEAR_ROWS];
} packing;

static void pack_column(const fl_columns *c, uint32_t i, uint32_t ragged,
                        size_t lo, size_t hi, packing *p)
{
    const fl_slot *slot = &c->schema->slots[i];
    const char *values = c->cols[i].values;
    uint32_t bytes = fl_slot_bytes(slot);
    uint32_t *words = p->rows->words;

    for (size_t k = 0; k < hi - lo; k++) {
        fl_row_writer w = {
            .at = words + p->at[k],
            .counts = (uint8_t *)(words + p->rows->starts[p->first + k])
        };
        size_t from, n = values_of(c, i, lo + k, &from);

        fl_row_slot(&w, slot, ragged, (uint32_t)n);
        copy_values(w.at, values + from * bytes, n * bytes);
        p->at[k] = (size_t)(w.at - words) + n * bytes / 4;
    }
}

static fl_status pack_block(const fl_columns *c, size_t lo, size_t hi,
                            fl_records *to)
{
    const fl_schema *s = c->schema;
    packing p = { .rows = to, .first = to->n };
    size_t words[NEAR_ROWS] = { 0 };
    uint32_t ragged = 0;

    FL_TRY(fl_records_reserve(to, measure_rows(c, lo, hi, words), hi - lo));
    FL_ASSERT(to->words && to->starts);
    for (size_t k = 0; k < hi - lo; k++) {
        memset(to->words + to->len, 0, s->count_words * sizeof(*to->words));
        p.at[k] = to->len + s->count_words;
        to->starts[to->n++] = to->len;
        to->len += words[k];
    }
    for (uint32_t i = 0; i < s->n_slots; i++) {
        pack_column(c, i, ragged, lo, hi, &p);
        ragged += s->slots[i].width == 0;
    }
    return FL_OK;
}

fl_status fl_columns_pack(const fl_columns *c, size_t lo, size_t hi,
                          fl_records *to)
{
    for (; lo < hi; lo += NEAR_ROWS)
        FL_TRY(
            pack_block(c, lo, hi - lo < NEAR_ROWS ? hi : lo + NEAR_ROWS, to));
    return FL_OK;
}
