/* sketch.c - counts of rounded numbers, in a hash table.
 *
 * The bits of a float, without its sign, ascend with it. Rounded at bit 11 they
 * keep 12 of the 23 bits behind the leading one; a carry goes on into the
 * exponent, as it should.
 */
#include "sketch.h"

#include <stdlib.h>
#include <string.h>

#define DROPPED_BITS 11
#define MAGNITUDE 0x7fffffffu
#define LARGEST 0x7f7fffffu /* what is finite */
#define FIRST_CELLS 256

static int32_t key_of(float x)
{
    uint32_t bits, size;

    memcpy(&bits, &x, sizeof(bits));
    size = ((bits & MAGNITUDE) + (1u << (DROPPED_BITS - 1))) >> DROPPED_BITS;
    return bits & ~MAGNITUDE ? -(int32_t)size : (int32_t)size;
}

static double number_of(int32_t key)
{
    uint32_t bits = (uint32_t)(key < 0 ? -key : key) << DROPPED_BITS;
    float x;

    if (bits > LARGEST)
        bits = LARGEST;
    memcpy(&x, &bits, sizeof(x));
    return key < 0 ? -(double)x : (double)x;
}

static sketch_cell *find(const sketch *s, int32_t key)
{
    uint64_t at = (uint64_t)(uint32_t)key * 0x9e3779b97f4a7c15u >> 32;

    while (s->cells[at % s->n_cells].count &&
           s->cells[at % s->n_cells].key != key)
        at++;
    return &s->cells[at % s->n_cells];
}

/* At most half of the cells are used. */
static bool grow(sketch *s)
{
    sketch wider = { .n_cells = s->n_cells ? 2 * s->n_cells : FIRST_CELLS,
                     .n_used = s->n_used,
                     .total = s->total };

    wider.cells = calloc(wider.n_cells, sizeof(*wider.cells));
    if (!wider.cells)
        return false;
    for (size_t i = 0; i < s->n_cells; i++)
        if (s->cells[i].count)
            *find(&wider, s->cells[i].key) = s->cells[i];
    free(s->cells);
    *s = wider;
    return true;
}

static bool add(sketch *s, int32_t key, uint64_t count)
{
    sketch_cell *cell;

    if (2 * s->n_used >= s->n_cells && !grow(s))
        return false;
    cell = find(s, key);
    s->n_used += cell->count == 0;
    cell->key = key;
    cell->count += count;
    s->total += count;
    return true;
}

bool sketch_add(sketch *s, float x)
{
    return add(s, key_of(x), 1);
}

bool sketch_merge(sketch *into, const sketch *from)
{
    for (size_t i = 0; i < from->n_cells; i++)
        if (from->cells[i].count &&
            !add(into, from->cells[i].key, from->cells[i].count))
            return false;
    return true;
}

void sketch_release(sketch *s)
{
    free(s->cells);
    *s = (sketch){ 0 };
}

static int by_key(const void *a, const void *b)
{
    const sketch_cell *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

/* How many numbers are not above quantile i of n. */
static uint64_t rank(const sketch *s, size_t i, size_t n)
{
    double share = (double)i / (double)(n - 1);
    uint64_t least = (uint64_t)(share * (double)s->total);

    least += (double)least < share * (double)s->total;
    return least ? least : 1;
}

bool sketch_quantiles(const sketch *s, double *out, size_t n)
{
    sketch_cell *cells = malloc(s->n_used * sizeof(*cells));
    uint64_t seen = 0;
    size_t used = 0, at = 0;

    if (!cells)
        return false;
    for (size_t i = 0; i < s->n_cells; i++)
        if (s->cells[i].count)
            cells[used++] = s->cells[i];
    qsort(cells, used, sizeof(*cells), by_key);
    for (size_t i = 0; i < n; i++) {
        while (at + 1 < used && seen + cells[at].count < rank(s, i, n))
            seen += cells[at++].count;
        out[i] = number_of(cells[at].key);
    }
    free(cells);
    return true;
}
