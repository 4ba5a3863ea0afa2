/* table_bound.c - what the memory allows: the cache lines of the rows are
 * touched, and nothing else is done.
 *
 * Where each row stands is known beforehand, so there is no index to look
 * into, and lines are asked for long before they are needed. Rows lie as the
 * library's do, on huge pages: a header of four bytes, value, moments. A pull
 * reads one word of each line that the value lies in; a push changes one word
 * of each line of the row.
 */
#include "table_peers.h"

#include <stdlib.h>

#include "harness.h"

#define LINE 64
#define HEADER_BYTES 4
#define AHEAD 32 /* rows asked for early; more gains nothing */

typedef struct bound_table {
    char *bytes;
    size_t row_bytes;
    uint32_t sum; /* so that no read can be left out */
} bound_table;

/* Lines that bytes [lo, hi) of a row lie in, from `from` up to `to`. */
typedef struct lines {
    char *from, *to;
} lines;

static inline lines lines_of(const bound_table *t, uint32_t row, size_t lo,
                             size_t hi)
{
    size_t at = row * t->row_bytes;

    return (lines){ t->bytes + (at + lo) / LINE * LINE, t->bytes + at + hi };
}

static void *bound_open(const table_shape *s)
{
    bound_table *t = bench_alloc(sizeof *t);

    t->row_bytes = s->row_bytes;
    t->bytes = bench_alloc(s->n_rows * s->row_bytes);
    return t;
}

static void ask(lines l)
{
    for (; l.from < l.to; l.from += LINE)
        __builtin_prefetch(l.from, 0);
}

static void ask_to_write(lines l)
{
    for (; l.from < l.to; l.from += LINE)
        __builtin_prefetch(l.from, 1);
}

static lines value_lines(const bound_table *t, uint32_t row)
{
    return lines_of(t, row, HEADER_BYTES,
                    HEADER_BYTES + TABLE_DIM * sizeof(float));
}

static lines row_lines(const bound_table *t, uint32_t row)
{
    return lines_of(t, row, 0, t->row_bytes);
}

static void bound_pull(void *table, const table_batch *b, float *out)
{
    bound_table *t = table;
    uint32_t sum = 0;

    (void)out;
    for (size_t i = 0; i < b->n; i++) {
        lines l = value_lines(t, b->rows[i]);

        if (i + AHEAD < b->n)
            ask(value_lines(t, b->rows[i + AHEAD]));
        for (; l.from < l.to; l.from += LINE)
            sum += *(const uint32_t *)l.from;
    }
    t->sum += sum;
}

static void bound_push(void *table, const table_batch *b)
{
    bound_table *t = table;

    for (size_t i = 0; i < b->n; i++) {
        lines l = row_lines(t, b->rows[i]);

        if (i + AHEAD < b->n)
            ask_to_write(row_lines(t, b->rows[i + AHEAD]));
        for (; l.from < l.to; l.from += LINE)
            ++*(uint32_t *)l.from;
    }
}

static void bound_close(void *table)
{
    bound_table *t = table;

    free(t->bytes);
    free(t);
}

const table_kind table_bound = { .name = "bound",
                                 .open = bound_open,
                                 .pull = bound_pull,
                                 .push = bound_push,
                                 .close = bound_close };
