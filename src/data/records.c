/* records.c - records packed one behind the other. */
#include "data/records.h"

#include "base/alloc.h"

#define FIRST_WORDS 4096
#define FIRST_ROWS 64

void fl_records_release(fl_records *r)
{
    fl_data_free(r->words, r->cap * sizeof(*r->words));
    fl_data_free(r->starts, r->starts_cap * sizeof(*r->starts));
    *r = (fl_records){ 0 };
}

static fl_status grow(void **data, size_t *cap, size_t used, size_t need,
                      size_t bytes)
{
    size_t n = *cap * 2 > need ? *cap * 2 : need;
    size_t size;
    void *p;

    if (need <= *cap)
        return FL_OK;
    p = fl_mul_overflow(n, bytes, &size) ? NULL : fl_try_alloc(size);
    if (!p)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu words of records", n);
    if (used)
        memcpy(p, *data, used * bytes);
    fl_data_free(*data, *cap * bytes);
    *data = p;
    *cap = n;
    return FL_OK;
}

fl_status fl_records_reserve(fl_records *r, size_t n_words, size_t n_rows)
{
    size_t words = r->len + n_words;
    size_t rows = r->n + n_rows;

    FL_TRY(grow((void **)&r->words, &r->cap, r->len,
                words < FIRST_WORDS ? FIRST_WORDS : words, sizeof(*r->words)));
    return grow((void **)&r->starts, &r->starts_cap, r->n,
                rows < FIRST_ROWS ? FIRST_ROWS : rows, sizeof(*r->starts));
}

/* Words of the values of a slot, its long count included. */
static size_t slot_words(const fl_slot *slot, const uint32_t *at, uint8_t count)
{
    uint32_t words = fl_slot_bytes(slot) / 4;

    if (slot->width)
        return (size_t)slot->width * words;
    return count < FL_ROW_LONG ? (size_t)count * words
                               : 1 + (size_t)*at * words;
}

size_t fl_row_words(const fl_schema *s, const uint32_t *row)
{
    const uint8_t *counts = (const uint8_t *)row;
    const uint32_t *at = row + s->count_words;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        bool ragged = s->slots[i].width == 0;

        at += slot_words(&s->slots[i], at, ragged ? *counts : 0);
        counts += ragged;
    }
    return (size_t)(at - row);
}

void fl_records_drop(fl_records *r, size_t n)
{
    FL_ASSERT(n <= r->n);
    r->n -= n;
    if (n && r->n)
        memmove(r->starts, r->starts + n, r->n * sizeof(*r->starts));
}

fl_status fl_records_move_tail(fl_records *r, size_t from, fl_records *to)
{
    size_t first, n_words;

    if (from >= r->n)
        return FL_OK;
    first = r->starts[from];
    n_words = r->len - first;
    FL_TRY(fl_records_reserve(to, n_words, r->n - from));
    memcpy(to->words + to->len, r->words + first, n_words * sizeof(*r->words));
    for (size_t i = from; i < r->n; i++)
        to->starts[to->n++] = r->starts[i] - first + to->len;
    to->len += n_words;
    r->len = first;
    r->n = from;
    return FL_OK;
}
