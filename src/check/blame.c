/* blame.c - where a row that differs may come from: an older version of the
 * model, or another table. */
#include "check/check.h"

#include <string.h>

#include "base/alloc.h"
#include "ckpt/folder.h"

#define VERSIONS_MAX 16 /* that are looked at */

/* Whether a source has this very row in a table. */
static bool has_row(fl_row_source *rows, const fl_table *rule,
                    const fl_odd_row *row)
{
    uint32_t dim = fl_table_dim(rule);
    float *value = fl_alloc(dim * sizeof(*value));
    uint8_t missing = 0;
    fl_source_read r = { .table = fl_table_name(rule),
                         .rule = rule,
                         .keys = &row->key,
                         .n = 1,
                         .dim = dim,
                         .out = value,
                         .missing = &missing };
    bool is_it = !rows->ops->read(rows, &r) && !missing &&
                 !memcmp(value, row->value, dim * sizeof(*value));

    fl_free(value);
    return is_it;
}

static bool blame_table(const fl_consistency *c, const fl_odd_row *row,
                        fl_str *out)
{
    const fl_rules *rules = &c->trained->rules;

    for (size_t i = 0; i < rules->len; i++) {
        const fl_table *t = rules->data[i];

        if (!strcmp(fl_table_name(t), fl_table_name(row->rule)) ||
            fl_table_dim(t) != fl_table_dim(row->rule) ||
            !has_row(c->trained->files, t, row))
            continue;
        fl_str_addf(out, "; that is the row of this key in table %s",
                    fl_table_name(t));
        return true;
    }
    return false;
}

/* --- older versions ------------------------------------------------------- */

static bool version_has(const fl_consistency *c, const char *dir,
                        const char *id, const fl_odd_row *row)
{
    const char **room =
        fl_alloc((c->online->recipe->n_outputs + 1) * sizeof(const char *));
    char *path = fl_folder_join(dir, id);
    fl_edition_options o = { .path = path, .no_optimize = true };
    const fl_table *rule;
    fl_edition *e = NULL;
    bool is_it = false;

    if (c->has_training_program)
        o.targets = fl_check_targets(c->online, room);
    if (!fl_edition_open(&e, &o, NULL)) {
        rule = fl_rules_find(&e->rules, fl_table_name(row->rule));
        is_it = rule && fl_table_dim(rule) == fl_table_dim(row->rule) &&
                has_row(e->files, rule, row);
    }
    fl_edition_unref(e);
    fl_free(path);
    fl_free(room);
    return is_it;
}

/* Names are the newest first; `after` is the version that followed. */
static bool blame_names(const fl_consistency *c, const char *dir,
                        const fl_version_names *names, const fl_odd_row *row,
                        fl_str *out)
{
    const char *after = c->trained->id;
    size_t n_seen = 0;

    for (size_t i = 0; i < names->len && n_seen < VERSIONS_MAX; i++) {
        const char *id = names->data[i];

        if (fl_version_number(id) >= fl_version_number(c->trained->id))
            continue;
        if (version_has(c, dir, id, row)) {
            fl_str_addf(out,
                        "; that is what version %s had, and version %s, which "
                        "came after it, has not arrived there",
                        id, after);
            return true;
        }
        after = id;
        n_seen++;
    }
    return false;
}

static bool blame_version(const fl_consistency *c, const fl_odd_row *row,
                          fl_str *out)
{
    fl_version_names names = { 0 };
    fl_model_version *v;
    bool is_found;

    if (fl_version_open(&v, c->path))
        return false;
    is_found = !fl_folder_list(v->dir, &names) &&
               blame_names(c, v->dir, &names, row, out);
    fl_version_names_release(&names);
    fl_version_close(v);
    return is_found;
}

void fl_blame_row(const fl_consistency *c, const fl_odd_row *row, fl_str *out)
{
    fl_err was;

    fl_err_keep(&was); /* what cannot be read is to blame for nothing */
    if (!blame_version(c, row, out))
        (void)blame_table(c, row, out);
    fl_err_put_back(&was);
}
