/* table_param.c - parameters whose rows are in a table.
 *
 * Such a parameter has no value in the scope. The startup program makes its
 * table with one operator,
 *
 *     op init_table () -> () {table=emb, settings="dim=8 entry=..."}
 *
 * whose settings are the words of the layer, and after them, once an optimizer
 * is applied, those of its update rule.
 */
#include "api/layer.h"

#include "conf/words.h"
#include "table/table.h"

static fl_op_node *find_maker(const fl_ctx *c, const char *table)
{
    return fl_program_maker(fl_ctx_pair(c).startup, table);
}

static const char *settings_of(const fl_op_node *maker)
{
    return fl_attr_str(maker, fl_op_find_attr(maker->def, "settings"));
}

/* Wrong words are told where they are written, not when the program runs. */
static fl_status check_settings(const fl_ctx *c, const char *name,
                                const char *settings, int64_t width)
{
    fl_table_config config;

    FL_TRY(fl_table_config_parse(&config, name, settings,
                                 fl_ctx_pair(c).startup->seed));
    if (config.dim != width)
        FL_FAIL(FL_ERR_INVAL, "table %s: dim=%u is not the width %lld", name,
                config.dim, (long long)width);
    return FL_OK;
}

/* --- sharing ------------------------------------------------------------- */

/* Do the settings say what the words say? */
static bool has_words(const char *settings, const char *words)
{
    fl_words *all = NULL, *wanted = NULL;
    bool has = !fl_words_new(&all, settings) && !fl_words_new(&wanted, words);

    for (size_t i = 0; has && i < fl_words_count(wanted); i++) {
        const char *value = fl_words_get(all, fl_words_name(wanted, i));

        has = value && !strcmp(value, fl_words_value(wanted, i));
    }
    fl_words_free(all);
    fl_words_free(wanted);
    return has;
}

static fl_status check_shared(const fl_layer *l, const fl_var *v,
                              const fl_shape *shape,
                              const fl_table_words *words)
{
    const fl_op_node *maker = find_maker(l->ctx, v->name);

    if (!(v->flags & FL_VAR_TABLE))
        FL_FAIL(FL_ERR_INVAL,
                "variable %s is no table; embeddings that share one all say "
                "is_distributed",
                v->name);
    if (v->meta.shape.dim[1] != shape->dim[1])
        FL_FAIL(FL_ERR_INVAL,
                "table %s has rows of %lld, but this layer wants %lld", v->name,
                (long long)v->meta.shape.dim[1], (long long)shape->dim[1]);
    for (size_t i = 0; i < words->n; i++)
        if (maker && !has_words(settings_of(maker), words->word[i]))
            FL_FAIL(FL_ERR_INVAL,
                    "table %s was made with the settings '%s'; a layer that "
                    "shares it cannot add '%s'",
                    v->name, settings_of(maker), words->word[i]);
    return FL_OK;
}

/* --- making -------------------------------------------------------------- */

static fl_status append_maker(fl_ctx *c, const char *table,
                              const char *settings)
{
    fl_op_builder b = { .type = "init_table" };

    fl_op_builder_str(&b, "table", table);
    fl_op_builder_str(&b, "settings", settings);
    return fl_op_builder_put(&b, fl_program_main(fl_ctx_pair(c).startup), NULL,
                             NULL);
}

static fl_status make_param(fl_layer *l, const fl_param_attr *attr,
                            const char *name, const fl_shape *shape,
                            const char *settings, fl_var **out)
{
    fl_tensor meta = { .dtype = FL_DTYPE_F32, .shape = *shape };

    if (find_maker(l->ctx, name))
        FL_FAIL(FL_ERR_EXISTS, "the startup program makes a table %s already",
                name);
    FL_TRY(check_settings(l->ctx, name, settings, shape->dim[1]));
    FL_TRY(fl_layer_add_param(l, attr, name, &meta, FL_VAR_TABLE, out));
    return append_maker(l->ctx, name, settings);
}

fl_var *fl_layer_table(fl_layer *l, const fl_param_attr *attr,
                       const char *suffix, const fl_shape *shape,
                       const fl_table_words *words)
{
    const char *name = fl_layer_param_name(l, attr, suffix);
    fl_var *v = fl_block_find_var(l->block, name);
    fl_str settings = { 0 };
    fl_status st;

    if (v)
        return check_shared(l, v, shape, words) ? NULL : v;
    fl_str_addf(&settings, "dim=%lld", (long long)shape->dim[1]);
    for (size_t i = 0; i < words->n; i++)
        fl_str_addf(&settings, " %s", words->word[i]);
    st = make_param(l, attr, name, shape, fl_str_text(&settings), &v);
    fl_str_release(&settings);
    return st ? NULL : v;
}

fl_status fl_layer_first_table(fl_ctx *c, const fl_var *v)
{
    const fl_shape *shape = &v->meta.shape;
    fl_str settings = { 0 };
    fl_status st;

    if (find_maker(c, v->name))
        return FL_OK;
    fl_str_addf(&settings, "dim=%lld", (long long)shape->dim[1]);
    if (shape->dim[0] > 0)
        fl_str_addf(&settings, " height=%lld", (long long)shape->dim[0]);
    fl_str_addf(&settings, " init=%s", v->init);
    st = check_settings(c, v->name, fl_str_text(&settings), shape->dim[1]);
    if (!st)
        st = append_maker(c, v->name, fl_str_text(&settings));
    fl_str_release(&settings);
    return st;
}

/* --- the update rule ----------------------------------------------------- */

/* The executor sees by its version that a program has changed. */
static void set_text(fl_op_node *n, const char *attr, const char *value)
{
    fl_program *p = n->block->program;

    n->attrs[fl_op_find_attr(n->def, attr)].s =
        fl_arena_strdup(&p->arena, value);
    p->version++;
}

static fl_status add_rule(const fl_ctx *c, const fl_var *param,
                          fl_op_node *maker, const char *words)
{
    fl_str s = { 0 };
    fl_status st;

    fl_str_addf(&s, "%s %s", settings_of(maker), words);
    st = check_settings(c, param->name, fl_str_text(&s),
                        param->meta.shape.dim[1]);
    if (!st)
        set_text(maker, "settings", fl_str_text(&s));
    fl_str_release(&s);
    return st;
}

fl_status fl_layer_table_rule(fl_ctx *c, const fl_var *param, const char *words)
{
    fl_op_node *maker = find_maker(c, param->name);

    if (!maker)
        FL_FAIL(FL_ERR_NOTFOUND, "the startup program makes no table %s",
                param->name);
    if (strstr(settings_of(maker), "optimizer="))
        FL_FAIL(FL_ERR_INVAL,
                "table %s, made with '%s', has an update rule already, and has "
                "one alone",
                param->name, settings_of(maker));
    return add_rule(c, param, maker, words);
}
