/* geo_check.c - what mode geo cannot train, and what it needs of memory. */
#include "mode/geo_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "ir/attr.h"
#include "table/accessor.h"

#define MEMINFO "/proc/meminfo"
#define MEMINFO_MAX ((size_t)1 << 16)

/* A key of the index has 12.8 bytes of a bucket, which is half empty after it
   has grown. */
#define INDEX_BYTES 26

/* --- tables as the startup program makes them ----------------------------- */

typedef fl_status (*table_fn)(void *arg, const fl_table_config *c);

static const char *text_of(const fl_op_node *n, const char *attr)
{
    return fl_attr_str(n, fl_op_find_attr(n->def, attr));
}

static fl_status each_table(const fl_program *startup, table_fn fn, void *arg)
{
    const fl_op_node *n = fl_program_main(startup)->first;

    for (; n; n = n->next) {
        fl_table_config config;

        if (strcmp(n->def->name, "init_table"))
            continue;
        FL_TRY(fl_table_config_parse(&config, text_of(n, "table"),
                                     text_of(n, "settings"), startup->seed));
        FL_TRY(fn(arg, &config));
    }
    return FL_OK;
}

/* --- what it cannot train ------------------------------------------------- */

static fl_status refuse_rule(const char *kind, const char *name,
                             const fl_rule *rule)
{
    fl_str safe = { 0 };

    for (size_t i = 0; i < fl_rule_count(); i++)
        if (fl_rule_at(i)->geo_safe)
            fl_str_addf(&safe, "%s%s", safe.len ? ", " : "",
                        fl_rule_at(i)->name);
    (void)fl_err_set(
        FL_ERR_INVAL,
        "%s %s is trained with %s, whose state belongs to the "
        "gradients of one trainer, while its values also change with those of "
        "the others; take one of %s, or another mode",
        kind, name, rule->name, fl_str_text(&safe));
    fl_str_release(&safe);
    return FL_ERR_INVAL;
}

static fl_status check_updates(const fl_program *main)
{
    const fl_op_node *n = fl_program_main(main)->first;

    for (; n; n = n->next) {
        fl_update u;

        if (fl_node_update(n, &u) && !u.rule->geo_safe)
            return refuse_rule("parameter", n->in[0].vars[0]->name, u.rule);
    }
    return FL_OK;
}

static fl_status check_table(void *arg, const fl_table_config *c)
{
    const fl_rule *rule = fl_rule_find(c->rule ? c->rule : "sgd");

    (void)arg;
    if (c->entry.kind != FL_ENTRY_NONE)
        FL_FAIL(FL_ERR_INVAL,
                "table %s has an entry policy, which counts how "
                "often a key occurs, and no trainer knows that of the others; "
                "leave entry out, or take another mode",
                c->name);
    if (c->accessor && strcmp(c->accessor, "plain"))
        FL_FAIL(FL_ERR_INVAL,
                "table %s has the accessor %s, whose statistics "
                "would be those of one trainer alone; take accessor=plain, or "
                "another mode",
                c->name, c->accessor);
    return rule->geo_safe ? FL_OK : refuse_rule("table", c->name, rule);
}

fl_status fl_geo_check(const fl_conf *conf, const fl_program *main,
                       const fl_program *startup)
{
    (void)conf;
    FL_TRY(check_updates(main));
    return each_table(startup, check_table, NULL);
}

/* --- memory --------------------------------------------------------------- */

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t row_bytes(const fl_table_config *c)
{
    fl_acc_ctx ctx;

    (void)fl_accessor_of(c, &ctx);
    return ctx.layout.bytes + INDEX_BYTES;
}

/* The table that is trained, with the values that the servers are known to
   have. */
static fl_status add_table(void *arg, const fl_table_config *c)
{
    fl_geo_needs *needs = arg;
    fl_table_config kept = *c;
    uint64_t rows = c->height;

    kept.keeps_known = true;

    if (c->max_rows && (!rows || c->max_rows < rows))
        rows = c->max_rows;
    needs->n_unknown += rows == 0;
    needs->table_bytes = add(needs->table_bytes, times(rows, row_bytes(&kept)));
    return FL_OK;
}

fl_status fl_geo_needs_of(const fl_dist *d, fl_geo_needs *out)
{
    fl_geo_needs needs = { 0 };

    for (size_t i = 0; i < d->params.len; i++)
        needs.dense_bytes = add(needs.dense_bytes,
                                times(d->params.data[i].n, 2 * sizeof(float)));
    FL_TRY(each_table(d->startup, add_table, &needs));
    *out = needs;
    return FL_OK;
}

uint64_t fl_geo_available(void)
{
    static const char name[] = "MemAvailable:";
    uint64_t bytes = UINT64_MAX;
    const char *at;
    char *text;
    size_t len;

    if (fl_file_read(MEMINFO, MEMINFO_MAX, &text, &len))
        return UINT64_MAX;
    at = strstr(text, name);
    if (at)
        bytes = times(strtoull(at + strlen(name), NULL, 10), 1024);
    fl_free(text);
    return bytes;
}

static uint64_t mb(uint64_t bytes)
{
    return bytes >> 20;
}

fl_status fl_geo_check_memory(const fl_geo_needs *needs, uint64_t available)
{
    uint64_t all = add(needs->dense_bytes, needs->table_bytes);

    if (all > available)
        FL_FAIL(FL_ERR_NOMEM,
                "mode geo: a trainer keeps all parameters and copies of them, "
                "which need up to %" PRIu64 " MB (tables %" PRIu64 " MB, dense "
                "parameters %" PRIu64 " MB), and this machine has %" PRIu64
                " MB left; give tables fewer ids or a max_rows, or take "
                "another mode",
                mb(all), mb(needs->table_bytes), mb(needs->dense_bytes),
                mb(available));
    FL_INFO("geo",
            "copies need up to tables_mb=%" PRIu64 " dense_mb=%" PRIu64
            " available_mb=%" PRIu64 "; tables of unknown size=%d",
            mb(needs->table_bytes), mb(needs->dense_bytes), mb(available),
            needs->n_unknown);
    return FL_OK;
}
