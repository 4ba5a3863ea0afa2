/* overlay.c - open addressing, at most half full: a slot is a key and the number
 * of its row, from 1; 0 is a free slot, GONE a key without a row. A row of up to
 * 64 bytes lies in one line of the cache: to bring two for it costs more than the
 * room. */
#include "serve/overlay.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define CAP_MIN 16
#define GONE UINT32_MAX
#define LINE_FLOATS 16
#define ROWS_MAX ((size_t)UINT32_MAX - 2)

const float fl_overlay_gone = 0;

typedef struct slot {
    uint64_t key;
    uint32_t row;
} slot;

struct fl_overlay {
    atomic_int refs;
    uint32_t dim, stride; /* of a row; from one to the next */
    slot *slots;
    size_t cap; /* a power of two */
    size_t len, n_rows;
    float *rows; /* room_rows of stride */
    size_t room_rows;
};

static size_t cap_for(size_t n)
{
    size_t cap = CAP_MIN;

    while (cap < 2 * n)
        cap *= 2;
    return cap;
}

static uint32_t stride_for(uint32_t dim)
{
    uint32_t n = 1;

    if (dim >= LINE_FLOATS)
        return (dim + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    while (n < dim)
        n *= 2;
    return n;
}

/* The key's slot, or the free one where it would be. */
static inline slot *find_slot(const fl_overlay *o, uint64_t key)
{
    size_t at = fl_hash_key(key) & (o->cap - 1);

    while (o->slots[at].row && o->slots[at].key != key)
        at = (at + 1) & (o->cap - 1);
    return &o->slots[at];
}

static float *row_at(const fl_overlay *o, uint32_t row)
{
    return o->rows + (size_t)(row - 1) * o->stride;
}

/* --- making --------------------------------------------------------------- */

static bool take_memory(fl_overlay *o, size_t n)
{
    size_t row_bytes;

    if (n > ROWS_MAX ||
        fl_mul_overflow(n ? n : 1, o->stride * sizeof(float), &row_bytes))
        return false;
    o->cap = cap_for(n);
    o->room_rows = n;
    o->slots = fl_try_alloc(o->cap * sizeof(*o->slots));
    o->rows = fl_try_alloc(row_bytes);
    if (!o->slots || !o->rows)
        return false;
    memset(o->slots, 0, o->cap * sizeof(*o->slots));
    return true;
}

static void copy_from(fl_overlay *o, const fl_overlay *before)
{
    for (size_t i = 0; i < before->cap; i++) {
        const slot *s = &before->slots[i];

        if (s->row == GONE)
            fl_overlay_drop(o, s->key);
        else if (s->row)
            memcpy(fl_overlay_put(o, s->key), row_at(before, s->row),
                   o->dim * sizeof(float));
    }
}

fl_status fl_overlay_new(fl_overlay **out, const fl_overlay *before,
                         uint32_t dim, size_t n_more)
{
    fl_overlay *o = fl_alloc(sizeof(*o));
    size_t n = fl_overlay_len(before) + n_more;

    atomic_init(&o->refs, 1);
    o->dim = dim;
    o->stride = stride_for(dim);
    if (!take_memory(o, n)) {
        fl_overlay_unref(o);
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu newer rows", n);
    }
    if (before)
        copy_from(o, before);
    *out = o;
    return FL_OK;
}

fl_overlay *fl_overlay_ref(fl_overlay *o)
{
    if (o)
        atomic_fetch_add(&o->refs, 1);
    return o;
}

static size_t rows_bytes(const fl_overlay *o)
{
    return (o->room_rows ? o->room_rows : 1) * o->stride * sizeof(float);
}

void fl_overlay_unref(fl_overlay *o)
{
    if (!o || atomic_fetch_sub(&o->refs, 1) > 1)
        return;
    fl_data_free(o->slots, o->cap * sizeof(*o->slots));
    fl_data_free(o->rows, rows_bytes(o));
    fl_free(o);
}

/* A slot for the key, counted when it is new. */
static slot *claim(fl_overlay *o, uint64_t key)
{
    slot *s = find_slot(o, key);

    if (!s->row) {
        FL_ASSERT(o->len < o->room_rows);
        s->key = key;
        o->len++;
    }
    return s;
}

float *fl_overlay_put(fl_overlay *o, uint64_t key)
{
    slot *s = claim(o, key);

    if (!s->row || s->row == GONE)
        s->row = (uint32_t)++o->n_rows;
    FL_ASSERT(o->n_rows <= o->room_rows);
    return row_at(o, s->row);
}

void fl_overlay_drop(fl_overlay *o, uint64_t key)
{
    claim(o, key)->row = GONE;
}

/* --- reading -------------------------------------------------------------- */

void fl_overlay_ask(const fl_overlay *o, const uint64_t *keys, size_t n)
{
    const slot *slots = o->slots;
    const size_t mask = o->cap - 1;

    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&slots[fl_hash_key(keys[i]) & mask]);
}

/* Where the row of that number is, which is asked for. */
static inline const float *ask_row(const float *rows, uint32_t row,
                                   size_t stride)
{
    const float *at = rows + (size_t)(row - 1) * stride;

    __builtin_prefetch(at);
    if (stride > LINE_FLOATS) /* the rest the processor fetches itself */
        __builtin_prefetch(at + LINE_FLOATS);
    return at;
}

/* What a run of many keys needs of an overlay is kept in registers. */
size_t fl_overlay_find(const fl_overlay *o, const uint64_t *keys, size_t n,
                       const float **values)
{
    const slot *slots = o->slots;
    const float *rows = o->rows;
    const size_t mask = o->cap - 1, stride = o->stride;
    size_t n_none = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = fl_hash_key(keys[i]) & mask;
        uint32_t row;

        while (slots[at].key != keys[i] && slots[at].row)
            at = (at + 1) & mask;
        row = slots[at].row;
        if (row && row != GONE) {
            values[i] = ask_row(rows, row, stride);
            continue;
        }
        values[i] = row ? &fl_overlay_gone : NULL;
        n_none++;
    }
    return n_none;
}

void fl_overlay_each(const fl_overlay *o, void (*fn)(void *arg, uint64_t key),
                     void *arg)
{
    for (size_t i = 0; i < o->cap; i++)
        if (o->slots[i].row && o->slots[i].row != GONE)
            fn(arg, o->slots[i].key);
}

size_t fl_overlay_len(const fl_overlay *o)
{
    return o ? o->len : 0;
}
