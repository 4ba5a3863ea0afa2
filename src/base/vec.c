/* vec.c - growing arrays and strings: capacity doubles, so that n pushes cost
 * O(n) copies in all. */
#include "base/vec.h"

#include <stdio.h>
#include <string.h>

#define FIRST_CAP 8

void *fl_vec_grow(void *data, size_t *cap, size_t item_bytes)
{
    size_t new_cap, bytes;

    if (fl_mul_overflow(*cap, 2, &new_cap))
        fl_die(__FILE__, __LINE__, "an array of %zu items cannot grow", *cap);
    if (new_cap < FIRST_CAP)
        new_cap = FIRST_CAP;
    if (fl_mul_overflow(new_cap, item_bytes, &bytes))
        fl_die(__FILE__, __LINE__, "an array of %zu items cannot grow", *cap);
    data = fl_realloc(data, bytes);
    *cap = new_cap;
    return data;
}

/* Makes room for `more` characters and the NUL behind them. */
static void reserve(fl_str *s, size_t more)
{
    while (s->cap - s->len <= more)
        s->data = fl_vec_grow(s->data, &s->cap, 1);
}

void fl_str_add(fl_str *s, const char *text)
{
    size_t n = strlen(text);

    reserve(s, n);
    memcpy(s->data + s->len, text, n + 1);
    s->len += n;
}

void fl_str_addf(fl_str *s, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    FL_ASSERT(n >= 0);
    reserve(s, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(s->data + s->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->len += (size_t)n;
}

void fl_str_release(fl_str *s)
{
    fl_vec_release(s);
}

const char *fl_str_text(const fl_str *s)
{
    return s->data ? s->data : "";
}

char *fl_str_take(fl_str *s)
{
    char *text = s->data ? s->data : fl_strdup("");

    *s = (fl_str){ 0 };
    return text;
}
