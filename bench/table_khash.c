/* table_khash.c - rows in one array, numbered by a good C hash table.
 *
 * That is klib's khash, as Debian packages it with htslib. Of the tables for
 * C in Debian 12 it finds rows fastest; batches of 10,000 of 10 million random
 * keys with rows of 40 bytes, median of 21 rounds in turn, M rows/s:
 *
 *     khash 16.0   GLib 11.5   ck_ht 4.7   uthash 4.0   JudyL 3.1
 *
 * The array lies on huge pages, as it would in a program that cares.
 */
#include "table_peers.h"

#include <htslib/khash.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

KHASH_MAP_INIT_INT64(row, uint32_t)

typedef struct khash_table {
    khash_t(row) * index;
    float *rows;
    size_t n_floats;
} khash_table;

static void *khash_open(const table_shape *s)
{
    khash_table *t = bench_alloc(sizeof *t);

    t->index = kh_init(row);
    bench_check_new(t->index, "memory for a hash table");
    t->rows = bench_alloc(s->n_rows * s->n_floats * sizeof *t->rows);
    t->n_floats = s->n_floats;
    return t;
}

static float *row_at(const khash_table *t, uint32_t number)
{
    return t->rows + number * t->n_floats;
}

/* The row of a key that is there. */
static float *row_of(const khash_table *t, uint64_t key)
{
    return row_at(t, kh_value(t->index, kh_get(row, t->index, key)));
}

static void khash_add(void *table, const uint64_t *keys, const float *values,
                      size_t n)
{
    khash_table *t = table;

    for (size_t i = 0; i < n; i++) {
        uint32_t number = kh_size(t->index);
        int added;
        khint_t at = kh_put(row, t->index, keys[i], &added);

        if (added < 0)
            bench_check_new(NULL, "memory for a hash table");
        kh_value(t->index, at) = number;
        memcpy(row_at(t, number), values + i * TABLE_DIM,
               TABLE_DIM * sizeof *values);
    }
}

static void khash_pull(void *table, const table_batch *b, float *out)
{
    const khash_table *t = table;

    for (size_t i = 0; i < b->n; i++)
        memcpy(out + i * TABLE_DIM, row_of(t, b->keys[i]),
               TABLE_DIM * sizeof *out);
}

static void khash_push(void *table, const table_batch *b)
{
    const khash_table *t = table;

    for (size_t i = 0; i < b->n; i++)
        adam_row(row_of(t, b->keys[i]), b->grads + i * TABLE_DIM, b->rate);
}

static void khash_close(void *table)
{
    khash_table *t = table;

    kh_destroy(row, t->index);
    free(t->rows);
    free(t);
}

const table_kind table_khash = { .name = "clib",
                                 .open = khash_open,
                                 .add = khash_add,
                                 .pull = khash_pull,
                                 .push = khash_push,
                                 .close = khash_close };
