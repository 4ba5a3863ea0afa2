/* rules.c - first values, from tables that stay empty. */
#include "serve/rules.h"

#include <string.h>

#include "table/inside.h"

fl_status fl_rules_add(fl_rules *r, const char *name, const char *settings,
                       uint64_t seed)
{
    fl_table_config config;
    fl_table *t;

    FL_TRY(fl_table_config_parse(&config, name, settings, seed));
    config.n_partitions = 1;
    FL_TRY(fl_table_create(&t, &config));
    fl_vec_push(r, t);
    return FL_OK;
}

void fl_rules_release(fl_rules *r)
{
    for (size_t i = 0; i < r->len; i++)
        fl_table_destroy(r->data[i]);
    fl_vec_release(r);
}

const fl_table *fl_rules_find(const fl_rules *r, const char *name)
{
    for (size_t i = 0; i < r->len; i++)
        if (!strcmp(fl_table_name(r->data[i]), name))
            return r->data[i];
    return NULL;
}

void fl_rules_first(const fl_table *rule, uint64_t key, float *out)
{
    fl_table_accessor(rule)->pull(fl_table_acc(rule), key, NULL, false, out);
}
