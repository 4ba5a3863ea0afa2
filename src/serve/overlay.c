/* overlay.c - open addressing, at most half full: a slot is a key and the number
 * of its row, from 1; 0 is a free slot, GONE a key without a row. */
#include "serve/overlay.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define CAP_MIN 16
#define GONE UINT32_MAX
#define LINE_FLOATS 16
#define ROWS_MAX ((size_t)UINT32_MAX - 2)

typedef struct slot {
    uint64_t key;
    uint32_t row;
} slot;

struct fl_overlay {
    atomic_int refs;
    uint32_t dim;
    slot *slots;
    size_t cap; /* a power of two */
    size_t len, n_rows;
    float *rows; /* room_rows of dim */
    size_t room_rows;
};

static size_t cap_for(size_t n)
{
    size_t cap = CAP_MIN;

    while (cap < 2 * n)
        cap *= 2;
    return cap;
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
    return o->rows + (size_t)(row - 1) * o->dim;
}

/* --- making --------------------------------------------------------------- */

static bool take_memory(fl_overlay *o, size_t n)
{
    size_t row_bytes;

    if (n > ROWS_MAX ||
        fl_mul_overflow(n ? n : 1, o->dim * sizeof(float), &row_bytes))
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
    return (o->room_rows ? o->room_rows : 1) * o->dim * sizeof(float);
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

/* A row of up to 64 bytes lies in one line or in two; of a longer one the
   processor fetches the rest itself. */
static inline void ask_row(const fl_overlay *o, const float *row)
{
    uint32_t reach = o->dim < LINE_FLOATS ? o->dim - 1 : LINE_FLOATS;

    __builtin_prefetch(row);
    __builtin_prefetch(row + reach);
}

static inline fl_overlay_state find_one(const fl_overlay *o, uint64_t key,
                                        const float **value)
{
    const slot *s = find_slot(o, key);

    if (!s->row)
        return FL_OVERLAY_NONE;
    if (s->row == GONE)
        return FL_OVERLAY_GONE;
    *value = row_at(o, s->row);
    ask_row(o, *value);
    return FL_OVERLAY_ROW;
}

void fl_overlay_ask(const fl_overlay *o, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(&o->slots[fl_hash_key(keys[i]) & (o->cap - 1)]);
}

size_t fl_overlay_find(const fl_overlay *o, const uint64_t *keys, size_t n,
                       fl_overlay_state *states, const float **values)
{
    size_t n_none = 0;

    for (size_t i = 0; i < n; i++) {
        states[i] = find_one(o, keys[i], &values[i]);
        n_none += states[i] != FL_OVERLAY_ROW;
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
