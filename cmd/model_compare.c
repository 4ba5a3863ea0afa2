/* model_compare.c - variables and rows of two models, by bits. */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void show(model_diffs *d,
                                                       const char *fmt, ...)
{
    va_list ap;

    if (d->shown++ >= d->max_shown)
        return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

/* --- variables ------------------------------------------------------------ */

static bool same_shape(const fl_tensor *a, const fl_tensor *b)
{
    if (a->dtype != b->dtype || a->shape.rank != b->shape.rank)
        return false;
    for (int i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] != b->shape.dim[i])
            return false;
    return true;
}

/* Shows the first element that differs, and how many there are. */
static void compare_values(const char *name, const fl_tensor *a,
                           const fl_tensor *b, model_diffs *d)
{
    size_t bytes = fl_dtype_bytes(a->dtype);
    int64_t n = fl_tensor_numel(a), first = -1, count = 0;
    char place[MODEL_TEXT_MAX], x[MODEL_TEXT_MAX], y[MODEL_TEXT_MAX];

    if (!memcmp(a->data, b->data, (size_t)n * bytes))
        return;
    for (int64_t i = 0; i < n; i++)
        if (memcmp((const char *)a->data + (size_t)i * bytes,
                   (const char *)b->data + (size_t)i * bytes, bytes)) {
            first = first < 0 ? i : first;
            count++;
        }
    d->n_variables++;
    show(d, "%s%s: %s, then %s; %" PRId64 " of %" PRId64 " numbers", name,
         model_place_text(a, first, place), model_number_text(a, first, x),
         model_number_text(b, first, y), count, n);
}

static void compare_one(const char *name, const fl_tensor *a,
                        const fl_tensor *b, model_diffs *d)
{
    char x[MODEL_TEXT_MAX], y[MODEL_TEXT_MAX];

    if (same_shape(a, b)) {
        compare_values(name, a, b, d);
        return;
    }
    d->n_variables++;
    show(d, "%s: %s, then %s", name, model_type_text(a, x),
         model_type_text(b, y));
}

static size_t count_tensors(const fl_saved *s)
{
    fl_saved_view v = FL_INIT(fl_saved_view);

    return fl_saved_look(s, &v) ? 0 : v.n_tensors;
}

/* Variables of `a`, against those of `b`; what only `b` has is told when the
   two change places. */
bool model_compare_tensors(const char *self, const fl_saved *a,
                           const fl_saved *b, model_diffs *d)
{
    const fl_saved *const sides[] = { a, b };
    static const char *const which[] = { "first", "second" };

    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < count_tensors(sides[k]); i++) {
            const char *name;
            fl_tensor x, y;

            if (fl_saved_tensor(sides[k], i, &name, &x)) {
                cmd_failed(self, "%s", fl_last_error());
                return false;
            }
            if (fl_saved_find(sides[!k], name, &y)) {
                d->n_variables++;
                show(d, "%s: only the %s has it", name, which[k]);
            } else if (!k) {
                compare_one(name, &x, &y, d);
            }
        }
    return true;
}

/* --- tables --------------------------------------------------------------- */

/* One table of both models. */
typedef struct both {
    const char *name;
    fl_saved_rows *a, *b;
    model_diffs *d;
} both;

static uint32_t bits_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void compare_fields(const both *t, const fl_saved_row *x,
                           const fl_saved_row *y)
{
    for (uint32_t f = 0; f < x->n_fields; f++) {
        const fl_saved_field *p = &x->fields[f], *q = &y->fields[f];

        if (f >= y->n_fields || strcmp(p->name, q->name) || p->len != q->len) {
            t->d->n_rows++;
            show(t->d,
                 "%s row %" PRIu64 ": only one has the field %s[%" PRIu32 "]",
                 t->name, x->key, p->name, p->len);
            return;
        }
        for (uint32_t i = 0; i < p->len; i++)
            if (bits_of(p->values[i]) != bits_of(q->values[i])) {
                t->d->n_rows++;
                show(t->d,
                     "%s row %" PRIu64 " %s[%" PRIu32 "]: %.9g, then %.9g",
                     t->name, x->key, p->name, i, (double)p->values[i],
                     (double)q->values[i]);
                return;
            }
    }
}

static void compare_rows(const both *t)
{
    fl_saved_row x = FL_INIT(fl_saved_row), y = FL_INIT(fl_saved_row);

    while (fl_saved_rows_next(t->a, &x))
        if (!fl_saved_rows_find(t->b, x.key, &y)) {
            t->d->n_rows++;
            show(t->d, "%s row %" PRIu64 ": only the first has it", t->name,
                 x.key);
        } else if (strcmp(x.kind, y.kind)) {
            t->d->n_rows++;
            show(t->d, "%s row %" PRIu64 ": %s, then %s", t->name, x.key,
                 x.kind, y.kind);
        } else {
            compare_fields(t, &x, &y);
        }
    while (fl_saved_rows_next(t->b, &y))
        if (!fl_saved_rows_find(t->a, y.key, &x)) {
            t->d->n_rows++;
            show(t->d, "%s row %" PRIu64 ": only the second has it", t->name,
                 y.key);
        }
}

static bool compare_table(const char *self, const char *name, const fl_saved *a,
                          const fl_saved *b, model_diffs *d)
{
    both t = { .name = name, .d = d };
    bool good = !fl_saved_rows_open(&t.a, a, name) &&
                !fl_saved_rows_open(&t.b, b, name);

    if (good)
        compare_rows(&t);
    else
        cmd_failed(self, "%s", fl_last_error());
    fl_saved_rows_close(t.a);
    fl_saved_rows_close(t.b);
    return good;
}

static bool has_table(const fl_saved *s, const char *name)
{
    fl_saved_table t = FL_INIT(fl_saved_table);

    for (size_t i = 0; !fl_saved_table_at(s, i, &t); i++)
        if (!strcmp(t.name, name))
            return true;
    return false;
}

bool model_compare_tables(const char *self, const fl_saved *a,
                          const fl_saved *b, model_diffs *d)
{
    fl_saved_table t = FL_INIT(fl_saved_table);

    for (size_t i = 0; !fl_saved_table_at(a, i, &t); i++)
        if (has_table(b, t.name)) {
            if (!compare_table(self, t.name, a, b, d))
                return false;
        } else {
            d->n_variables++;
            show(d, "table %s: only the first has it", t.name);
        }
    for (size_t i = 0; !fl_saved_table_at(b, i, &t); i++)
        if (!has_table(a, t.name)) {
            d->n_variables++;
            show(d, "table %s: only the second has it", t.name);
        }
    return true;
}
