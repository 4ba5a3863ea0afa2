/* pool.c - rows of one size in slabs. */
#include "table/pool.h"

#include "base/alloc.h"

#define SLAB_BYTES_MAX ((size_t)16 << 20)
#define FIRST_BYTES ((size_t)4 << 10)

/* Rows begin one cache line into their slab. Where a row is two lines long, its
   value is then in the odd line of a pair. With values in even lines alone, a
   Zen 4 seems to drop what a pull asks for, for milliseconds on end; decision
   011 has the figures. */
#define SKIP_BYTES ((size_t)64)

static size_t slab_bytes(const fl_pool *p)
{
    return (size_t)p->stride << p->shift;
}

void fl_pool_init(fl_pool *p, uint32_t stride)
{
    *p = (fl_pool){ .stride = stride };
    while (((size_t)stride << (p->shift + 1)) <= SLAB_BYTES_MAX)
        p->shift++;
    p->mask = (UINT32_C(1) << p->shift) - 1;
}

static char *map_slab(size_t bytes)
{
    char *map = fl_try_map(SKIP_BYTES + bytes);

    return map ? map + SKIP_BYTES : NULL;
}

static void unmap_slab(char *slab, size_t bytes)
{
    fl_unmap(slab - SKIP_BYTES, SKIP_BYTES + bytes);
}

static size_t bytes_of(const fl_pool *p, size_t slab)
{
    return slab ? slab_bytes(p) : p->first_bytes;
}

void fl_pool_release(fl_pool *p)
{
    for (size_t i = 0; i < p->slabs.len; i++)
        unmap_slab(p->slabs.data[i], bytes_of(p, i));
    fl_vec_release(&p->slabs);
    fl_pool_init(p, p->stride);
}

static fl_status no_memory(size_t bytes)
{
    FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of rows", bytes);
}

/* Slab 0 doubles, by a copy of at most half a slab. */
static fl_status grow_first(fl_pool *p)
{
    size_t least = p->stride > FIRST_BYTES ? p->stride : FIRST_BYTES;
    size_t bytes = p->first_bytes ? p->first_bytes * 2 : least;
    char *slab;

    bytes = bytes < slab_bytes(p) ? bytes : slab_bytes(p);
    slab = map_slab(bytes);
    if (!slab)
        return no_memory(bytes);
    if (p->first_bytes) {
        memcpy(slab, p->slabs.data[0], p->first_bytes);
        unmap_slab(p->slabs.data[0], p->first_bytes);
        p->slabs.data[0] = slab;
    } else {
        fl_vec_push(&p->slabs, slab);
    }
    p->first_bytes = bytes;
    return FL_OK;
}

static fl_status add_slab(fl_pool *p)
{
    char *slab = map_slab(slab_bytes(p));

    if (!slab)
        return no_memory(slab_bytes(p));
    fl_vec_push(&p->slabs, slab);
    return FL_OK;
}

static fl_status take_new(fl_pool *p, uint32_t *row)
{
    uint32_t n = p->n_used;

    if (n == FL_POOL_ROWS_MAX)
        FL_FAIL(FL_ERR_NOMEM,
                "a partition holds at most %u rows; use more "
                "partitions",
                FL_POOL_ROWS_MAX);
    if (n >> p->shift == 0) {
        if (((size_t)n + 1) * p->stride > p->first_bytes)
            FL_TRY(grow_first(p));
    } else if (n >> p->shift == p->slabs.len) {
        FL_TRY(add_slab(p));
    }
    *row = p->n_used++;
    return FL_OK;
}

fl_status fl_pool_take(fl_pool *p, uint32_t *row)
{
    if (!p->free_head)
        return take_new(p, row);
    *row = p->free_head - 1;
    memcpy(&p->free_head, fl_pool_row(p, *row), sizeof(p->free_head));
    p->n_free--;
    return FL_OK;
}

void fl_pool_give(fl_pool *p, uint32_t row)
{
    memcpy(fl_pool_row(p, row), &p->free_head, sizeof(p->free_head));
    p->free_head = row + 1;
    p->n_free++;
}

uint32_t fl_pool_len(const fl_pool *p)
{
    return p->n_used - p->n_free;
}

bool fl_pool_next_hole(fl_pool *p, uint32_t *row)
{
    uint32_t len = fl_pool_len(p);

    while (p->free_head) {
        *row = p->free_head - 1;
        memcpy(&p->free_head, fl_pool_row(p, *row), sizeof(p->free_head));
        if (*row < len)
            return true;
    }
    return false;
}

void fl_pool_trim(fl_pool *p)
{
    size_t keep;

    p->n_used = fl_pool_len(p);
    p->n_free = 0;
    p->free_head = 0;
    keep = ((size_t)p->n_used + (UINT64_C(1) << p->shift) - 1) >> p->shift;
    while (p->slabs.len > keep && p->slabs.len > 1)
        unmap_slab(p->slabs.data[--p->slabs.len], slab_bytes(p));
}

size_t fl_pool_bytes(const fl_pool *p)
{
    return (size_t)p->n_used * p->stride;
}
