/* strategy_mode.c - the mode of a strategy, and the settings that follow.
 *
 * `auto` looks at the programs alone. Free memory differs from machine to
 * machine, and members of one job that choose different modes cannot train
 * together; what every member knows is how large the model is.
 */
#include <inttypes.h>

#include "base/log.h"
#include "fleet/strategy.h"
#include "ir/attr.h"
#include "table/table.h"

/* --- what the keys ask for ------------------------------------------------ */

static bool names_a_mode(const fl_key *key)
{
    static const char *const names[] = { "a_sync", "k_steps", "half_async" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], key->name))
            return true;
    return false;
}

static fl_status check_auto(const fl_strategy *s)
{
    char number[FL_KEY_NUMBER_MAX];

    for (size_t i = 0; i < s->set.len; i++) {
        const fl_strategy_value *v = &s->set.data[i];

        if (names_a_mode(v->key))
            FL_FAIL(FL_ERR_INVAL,
                    "strategy a_sync: auto=true chooses the mode, which "
                    "contradicts %s=%s; leave one of them out",
                    v->key->name, fl_key_print(v->key, &v->value, number));
    }
    return FL_OK;
}

static fl_status refuse_half(int64_t k)
{
    FL_FAIL(FL_ERR_INVAL,
            "strategy a_sync: half_async=true contradicts %s; leave one of "
            "them out",
            k ? "k_steps above 0, which is mode geo" : "a_sync=false");
}

static fl_status refuse_k_steps(int64_t k)
{
    FL_FAIL(FL_ERR_INVAL,
            "strategy a_sync: a_sync=false is mode sync and contradicts "
            "k_steps=%" PRId64 ", which is mode geo; set a_sync=true for geo, "
            "or k_steps=0 for sync",
            k);
}

fl_status fl_strategy_mode_of(const fl_strategy *s, const fl_mode **out)
{
    bool is_async, is_half;
    int64_t k;

    *out = s->mode;
    if (s->mode)
        return FL_OK;
    if (fl_strategy_value_of(s, "auto").b)
        return check_auto(s);
    k = fl_strategy_value_of(s, "k_steps").i;
    is_async = fl_strategy_value_of(s, "a_sync").b;
    is_half = fl_strategy_value_of(s, "half_async").b;
    if (is_half && (k || !is_async))
        return refuse_half(k);
    if (k && !is_async)
        return refuse_k_steps(k);
    *out = is_half    ? &fl_mode_half_async
           : k        ? &fl_mode_geo
           : is_async ? &fl_mode_async
                      : &fl_mode_sync;
    return FL_OK;
}

/* --- auto ----------------------------------------------------------------- */

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Values of the rows that it can have; UINT64_MAX when any id can occur. */
static fl_status table_bytes(const fl_program *startup, const fl_op_node *n,
                             uint64_t *out)
{
    const char *name = fl_attr_str(n, fl_op_find_attr(n->def, "table"));
    const char *words = fl_attr_str(n, fl_op_find_attr(n->def, "settings"));
    fl_table_config config;
    uint64_t rows;

    FL_TRY(fl_table_config_parse(&config, name, words, startup->seed));
    rows = config.height;
    if (config.max_rows && (!rows || config.max_rows < rows))
        rows = config.max_rows;
    *out = rows ? times(rows, config.dim * sizeof(float)) : UINT64_MAX;
    return FL_OK;
}

static uint64_t param_bytes(const fl_var *v)
{
    uint64_t bytes = sizeof(float);

    for (int i = 0; i < v->meta.shape.rank; i++)
        bytes = times(bytes, (uint64_t)v->meta.shape.dim[i]);
    return bytes;
}

static fl_status model_bytes(const fl_program *main, const fl_program *startup,
                             uint64_t *out)
{
    const fl_op_node *n = fl_program_main(startup)->first;
    const fl_var *v = fl_program_main(main)->first_var;
    uint64_t sum = 0, bytes;

    for (; v; v = v->next)
        if ((v->flags & FL_VAR_PARAM) && !(v->flags & FL_VAR_TABLE))
            sum = add(sum, param_bytes(v));
    for (; n; n = n->next)
        if (!strcmp(n->def->name, "init_table")) {
            FL_TRY(table_bytes(startup, n, &bytes));
            sum = add(sum, bytes);
        }
    *out = sum;
    return FL_OK;
}

static fl_status choose(fl_strategy *s, const fl_program *main,
                        const fl_program *startup)
{
    uint64_t bytes;

    FL_TRY(model_bytes(main, startup, &bytes));
    if (fl_mode_geo.check(s->conf, main, startup)) {
        s->mode = &fl_mode_async;
        FL_INFO("fleet", "auto takes async: %s", fl_last_error());
        return FL_OK;
    }
    s->mode = bytes < FL_AUTO_MAX_BYTES ? &fl_mode_geo : &fl_mode_async;
    FL_INFO("fleet", "auto takes %s: parameters_mb=%" PRIu64 " limit_mb=%d",
            s->mode->name, bytes >> 20, (int)(FL_AUTO_MAX_BYTES >> 20));
    return FL_OK;
}

/* --- before training ------------------------------------------------------ */

static fl_status refuse_unused(const fl_strategy *s, const fl_strategy_row *row,
                               const fl_strategy_value *v)
{
    char number[FL_KEY_NUMBER_MAX];

    FL_FAIL(FL_ERR_INVAL,
            "strategy %s: %s.%s=%s is not used in mode %s, which follows from "
            "a_sync, k_steps, half_async and auto; leave it out, or choose "
            "another mode",
            s->kind, row->group, row->name,
            fl_key_print(v->key, &v->value, number), s->mode->name);
}

/* Of kind a_sync, whose mode was not known when the values were set. */
static fl_status check_set(const fl_strategy *s)
{
    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *row = &fl_strategy_rows[i];

        if (!(row->kinds & s->kinds) || fl_strategy_row_is_used(row, s->mode))
            continue;
        for (size_t k = 0; k < s->set.len; k++)
            if (s->set.data[k].key == fl_strategy_key(row))
                return refuse_unused(s, row, &s->set.data[k]);
    }
    return FL_OK;
}

fl_status fl_strategy_decide(fl_strategy *s, const fl_program *main,
                             const fl_program *startup)
{
    const fl_mode *mode;

    FL_TRY(fl_strategy_mode_of(s, &mode));
    if (mode)
        s->mode = mode;
    else
        FL_TRY(choose(s, main, startup));
    return check_set(s);
}

static fl_status apply_row(fl_strategy *s, const fl_strategy_row *row)
{
    const fl_key *key = fl_strategy_key(row);
    char number[FL_KEY_NUMBER_MAX];
    fl_conf_from from;
    fl_key_value v;

    if (fl_strategy_key_is_own(key))
        return FL_OK;
    v = fl_strategy_raw(s, key, &from);
    return fl_conf_set_from(s->conf, key->name, fl_key_print(key, &v, number),
                            from);
}

fl_status fl_strategy_apply(fl_strategy *s)
{
    bool is_a_sync = s->kinds == FL_STRATEGY_A_SYNC;

    for (size_t i = 0; i < fl_n_strategy_rows; i++) {
        const fl_strategy_row *row = &fl_strategy_rows[i];

        if ((row->kinds & s->kinds) && fl_strategy_row_is_used(row, s->mode))
            FL_TRY(apply_row(s, row));
    }
    if (is_a_sync && s->mode == &fl_mode_geo)
        FL_TRY(fl_conf_set(s->conf, "geo_need_push_nums",
                           fl_strategy_get(s, "k_steps")));
    s->is_used = true;
    return FL_OK;
}
