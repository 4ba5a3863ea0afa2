/* pool.h - memory of one case: taken piece by piece, given back at once.
 *
 * Also a text that grows in a pool, and arrays that do. Without memory the
 * program ends: a test has nothing better to do.
 */
#ifndef GOLDEN_POOL_H
#define GOLDEN_POOL_H

#include <stddef.h>

typedef struct pool {
    struct pool_piece *first;
} pool;

/* Zeroed. */
void *pool_alloc(pool *p, size_t bytes);
char *pool_strndup(pool *p, const char *s, size_t n);
char *pool_strdup(pool *p, const char *s);
char *pool_printf(pool *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void pool_release(pool *p);

/* Room for one more item after n; the array may move. */
void *pool_grow(pool *p, void *items, size_t n, size_t item_bytes);

#define POOL_PUSH(p, items, n, item)                                           \
    do {                                                                       \
        (items) = pool_grow((p), (items), (n), sizeof(*(items)));              \
        (items)[(n)++] = (item);                                               \
    } while (0)

typedef struct text {
    pool *pool;
    char *s; /* NULL while it is empty */
    size_t len, cap;
} text;

void text_addf(text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
