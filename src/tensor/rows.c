/* rows.c - copies of a batch of rows. */
#include "tensor/rows.h"

#include "base/alloc.h"

static size_t words_per_row(const fl_rows *r)
{
    return (size_t)r->dim + (r->shows != NULL) + (r->clicks != NULL) +
           (r->counts != NULL);
}

fl_status fl_rows_bytes(const fl_rows *r, size_t *bytes)
{
    size_t row = sizeof(*r->keys) + words_per_row(r) * sizeof(float);

    if (fl_mul_overflow(r->n, row, bytes) || *bytes > SIZE_MAX - 7)
        FL_FAIL(FL_ERR_INVAL, "%zu rows of %u numbers are too many", r->n,
                r->dim);
    *bytes = (*bytes + 7) & ~(size_t)7;
    return FL_OK;
}

/* Copies to *at, and moves it. Nothing stays nothing. */
static const void *put(char **at, const void *from, size_t bytes)
{
    void *to = *at;

    if (!from)
        return NULL;
    memcpy(to, from, bytes);
    *at += bytes;
    return to;
}

fl_rows fl_rows_copy(const fl_rows *r, void *memory)
{
    fl_rows to = *r;
    char *at = memory;

    if (!r->n)
        return to;
    to.keys = put(&at, r->keys, r->n * sizeof(*r->keys));
    to.values = put(&at, r->values, r->n * r->dim * sizeof(*r->values));
    to.shows = put(&at, r->shows, r->n * sizeof(*r->shows));
    to.clicks = put(&at, r->clicks, r->n * sizeof(*r->clicks));
    to.counts = put(&at, r->counts, r->n * sizeof(*r->counts));
    return to;
}

/* --- parts ---------------------------------------------------------------- */

static const void *take(char **at, const void *from, size_t bytes)
{
    void *to = *at;

    if (!from)
        return NULL;
    *at += bytes;
    return to;
}

/* Room for rows of r, so many; they are counted when they come. */
static fl_rows part_at(const fl_rows *r, size_t n, char **at)
{
    fl_rows to = *r;

    to.n = 0;
    to.keys = take(at, r->keys, n * sizeof(*r->keys));
    to.values = take(at, r->values, n * r->dim * sizeof(*r->values));
    to.shows = take(at, r->shows, n * sizeof(*r->shows));
    to.clicks = take(at, r->clicks, n * sizeof(*r->clicks));
    to.counts = take(at, r->counts, n * sizeof(*r->counts));
    *at += -(uintptr_t)*at & 7;
    return to;
}

static void put_row(fl_rows *to, const fl_rows *from, size_t i)
{
    size_t n = to->n++, dim = from->dim;

    ((uint64_t *)(uintptr_t)to->keys)[n] = from->keys[i];
    if (from->values)
        memcpy((float *)(uintptr_t)to->values + n * dim, from->values + i * dim,
               dim * sizeof(float));
    if (from->shows)
        ((float *)(uintptr_t)to->shows)[n] = from->shows[i];
    if (from->clicks)
        ((float *)(uintptr_t)to->clicks)[n] = from->clicks[i];
    if (from->counts)
        ((uint32_t *)(uintptr_t)to->counts)[n] = from->counts[i];
}

void fl_rows_deal(const fl_rows *r, const uint16_t *part, size_t n,
                  void *memory, fl_rows *parts)
{
    char *at = memory;

    for (size_t p = 0; p < n; p++)
        parts[p].n = 0;
    for (size_t i = 0; i < r->n; i++)
        parts[part[i]].n++;
    for (size_t p = 0; p < n; p++)
        parts[p] = part_at(r, parts[p].n, &at);
    for (size_t i = 0; i < r->n; i++)
        put_row(&parts[part[i]], r, i);
}

fl_rows fl_rows_slice(const fl_rows *r, size_t lo, size_t n)
{
    fl_rows s = *r;

    s.n = n;
    if (!lo)
        return s;
    s.keys += lo;
    s.values += s.values ? lo * r->dim : 0;
    s.shows += s.shows ? lo : 0;
    s.clicks += s.clicks ? lo : 0;
    s.counts += s.counts ? lo : 0;
    return s;
}
