/* model_cat.c - flotilla model cat: the numbers of a variable, or the rows of a
 * table. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- a variable ----------------------------------------------------------- */

static void print_numbers(const fl_tensor *t, int64_t from, int64_t n)
{
    char buf[MODEL_TEXT_MAX];

    for (int64_t i = 0; i < n; i++)
        printf("%s%s", i ? " " : "", model_number_text(t, from + i, buf));
    putchar('\n');
}

static int cat_tensor(const model_args *a, const fl_tensor *t)
{
    int64_t rows = t->shape.rank ? t->shape.dim[0] : 1;
    int64_t width = rows ? fl_tensor_numel(t) / rows : 0;
    int64_t n =
        a->has_lines && a->lines < (uint64_t)rows ? (int64_t)a->lines : rows;

    if (a->has_key && a->key >= (uint64_t)rows)
        return cmd_failed(a->self,
                          "%s has %" PRId64 " rows, there is no row %" PRIu64,
                          a->words[1], rows, a->key);
    if (a->has_key) {
        print_numbers(t, (int64_t)a->key * width, width);
        return CMD_OK;
    }
    for (int64_t i = 0; i < n; i++)
        print_numbers(t, i * width, width);
    return CMD_OK;
}

/* --- a table -------------------------------------------------------------- */

static void print_row(const fl_saved_row *r)
{
    printf("%" PRIu64 " %s epoch=%" PRIu32, r->key, r->kind, r->epoch);
    for (uint32_t f = 0; f < r->n_fields; f++) {
        printf(" %s=", r->fields[f].name);
        for (uint32_t i = 0; i < r->fields[f].len; i++)
            printf("%s%.9g", i ? "," : "", (double)r->fields[f].values[i]);
    }
    putchar('\n');
}

static int cat_rows(const model_args *a, fl_saved_rows *rows)
{
    fl_saved_row r = FL_INIT(fl_saved_row);

    if (a->has_key) {
        if (!fl_saved_rows_find(rows, a->key, &r))
            return cmd_failed(a->self, "table %s has no row %" PRIu64,
                              a->words[1], a->key);
        print_row(&r);
        return CMD_OK;
    }
    for (uint64_t i = 0;
         (!a->has_lines || i < a->lines) && fl_saved_rows_next(rows, &r); i++)
        print_row(&r);
    return CMD_OK;
}

static bool has_table(const fl_saved *s, const char *name)
{
    fl_saved_table t = FL_INIT(fl_saved_table);

    for (size_t i = 0; !fl_saved_table_at(s, i, &t); i++)
        if (!strcmp(t.name, name))
            return true;
    return false;
}

static int cat_table(const model_args *a, const fl_saved *s)
{
    fl_saved_rows *rows = NULL;
    int code;

    if (fl_saved_rows_open(&rows, s, a->words[1]))
        return cmd_failed(a->self, "%s", fl_last_error());
    code = cat_rows(a, rows);
    fl_saved_rows_close(rows);
    return code;
}

int model_cat(const model_args *a)
{
    model_file m;
    fl_tensor t;
    int code = model_open(a->self, a->words[0], &m);

    if (!code && has_table(m.saved, a->words[1]))
        code = cat_table(a, m.saved);
    else if (!code && fl_saved_find(m.saved, a->words[1], &t))
        code = cmd_failed(a->self, "%s", fl_last_error());
    else if (!code)
        code = cat_tensor(a, &t);
    model_close(&m);
    return code;
}
