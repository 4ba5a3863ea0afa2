/* pool.c - memory of one case. */
#include "pool.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool_piece {
    struct pool_piece *next;
    alignas(max_align_t) unsigned char bytes[];
};

void *pool_alloc(pool *p, size_t bytes)
{
    struct pool_piece *piece = calloc(1, sizeof(*piece) + bytes);

    if (!piece) {
        fprintf(stderr, "golden: no memory for %zu bytes\n", bytes);
        abort();
    }
    piece->next = p->first;
    p->first = piece;
    return piece->bytes;
}

char *pool_strndup(pool *p, const char *s, size_t n)
{
    char *copy = pool_alloc(p, n + 1);

    memcpy(copy, s, n);
    return copy;
}

char *pool_strdup(pool *p, const char *s)
{
    return pool_strndup(p, s, strlen(s));
}

char *pool_printf(pool *p, const char *fmt, ...)
{
    va_list ap, again;
    char *s;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    s = pool_alloc(p, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

void pool_release(pool *p)
{
    struct pool_piece *next;

    for (struct pool_piece *piece = p->first; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    p->first = NULL;
}

/* The capacity is the next power of two, so it need not be kept. */
void *pool_grow(pool *p, void *items, size_t n, size_t item_bytes)
{
    void *more;

    if (n & (n - 1))
        return items;
    more = pool_alloc(p, 2 * (n ? n : 1) * item_bytes);
    if (n)
        memcpy(more, items, n * item_bytes);
    return more;
}

static void reserve(text *t, size_t more)
{
    char *bigger;

    if (t->len + more + 1 <= t->cap)
        return;
    t->cap = 2 * (t->len + more + 1);
    bigger = pool_alloc(t->pool, t->cap);
    if (t->len)
        memcpy(bigger, t->s, t->len);
    t->s = bigger;
}

void text_addf(text *t, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    reserve(t, (size_t)n);
    vsnprintf(t->s + t->len, (size_t)n + 1, fmt, again);
    t->len += (size_t)n;
    va_end(again);
}
