/* arena.c - a list of chunks, the newest in front:
 *
 *     head -> | header, 64 bytes | piece | piece | ... free ... | -> older
 *
 * Every piece starts on a 64-byte line and takes whole lines, so used_bytes
 * alone says how large one chunk must be to hold the same pieces again.
 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define LINE ((size_t)64)

struct fl_arena_chunk {
    fl_arena_chunk *older;
    size_t cap_bytes, used_bytes; /* without the header */
};

_Static_assert(sizeof(fl_arena_chunk) <= LINE, "the header takes one line");

static char *chunk_bytes_at(fl_arena_chunk *c, size_t offset)
{
    return (char *)c + LINE + offset;
}

/* Puts a new chunk in front; false without memory. */
static bool add_chunk(fl_arena *a, size_t cap_bytes)
{
    fl_arena_chunk *c;

    if (cap_bytes > SIZE_MAX - LINE)
        return false;
    c = fl_try_alloc(LINE + cap_bytes);
    if (!c)
        return false;
    *c = (fl_arena_chunk){ .older = a->head, .cap_bytes = cap_bytes };
    a->head = c;
    return true;
}

void fl_arena_init(fl_arena *a, size_t chunk_bytes)
{
    *a = (fl_arena){ .chunk_bytes = chunk_bytes };
}

void fl_arena_release(fl_arena *a)
{
    fl_arena_chunk *older;

    for (fl_arena_chunk *c = a->head; c; c = older) {
        older = c->older;
        fl_data_free(c, LINE + c->cap_bytes);
    }
    a->head = NULL;
    a->used_bytes = 0;
}

void fl_arena_clear(fl_arena *a)
{
    size_t used_bytes = a->used_bytes;

    a->used_bytes = 0;
    if (!a->head)
        return;
    if (!a->head->older) {
        a->head->used_bytes = 0;
        return;
    }
    /* A chunk is added only when the one before is full, hence used_bytes is
       more than any single chunk holds. Without memory the arena is empty and
       the next use asks again. */
    fl_arena_release(a);
    (void)add_chunk(a, used_bytes);
}

void *fl_arena_try_alloc(fl_arena *a, size_t bytes)
{
    size_t need;
    char *p;

    if (bytes > SIZE_MAX - LINE)
        return NULL;
    need = bytes ? (bytes + LINE - 1) / LINE * LINE : LINE;
    if (!a->head || a->head->cap_bytes - a->head->used_bytes < need) {
        if (!add_chunk(a, need > a->chunk_bytes ? need : a->chunk_bytes))
            return NULL;
    }
    p = chunk_bytes_at(a->head, a->head->used_bytes);
    a->head->used_bytes += need;
    a->used_bytes += need;
    return p;
}

void *fl_arena_alloc(fl_arena *a, size_t bytes)
{
    void *p = fl_arena_try_alloc(a, bytes);

    if (!p)
        fl_die(__FILE__, __LINE__, "no memory for %zu bytes", bytes);
    return memset(p, 0, bytes);
}

char *fl_arena_strdup(fl_arena *a, const char *s)
{
    size_t bytes = strlen(s) + 1;

    return memcpy(fl_arena_alloc(a, bytes), s, bytes);
}

char *fl_arena_printf(fl_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *text;
    int len;

    va_start(ap, fmt);
    len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    FL_ASSERT(len >= 0);
    text = fl_arena_alloc(a, (size_t)len + 1);
    va_start(ap, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, ap);
    va_end(ap);
    return text;
}
