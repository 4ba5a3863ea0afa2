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
