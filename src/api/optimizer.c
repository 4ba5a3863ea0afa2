/* optimizer.c - optimizers of the public API: words in, operators out.
 *
 * Order of a parameter's gradient: clip, then decay, then update. The decay
 * and the clip of the parameter win over those of the optimizer. A parameter
 * that is a table is decayed and updated by the table.
 */
#include "flotilla/optimizer.h"

#include <float.h>
#include <inttypes.h>

#include "api/layer.h"
#include "conf/words.h"
#include "optim/calls.h"
#include "optim/rule.h"

#define STATES_CHUNK_BYTES (4 << 10)

struct fl_optimizer {
    fl_ctx *ctx;
    const fl_rule *rule;
    double lr;
    fl_var *lr_var; /* made by the first use, or given */
    bool lr_given;  /* by fl_optimizer_set_lr */
    bool lr_failed; /* given, but it could not be made */
    double p[FL_RULE_PARAM_MAX];
    bool lazy;
    uint64_t accumulate;      /* batches per update */
    double first_accumulator; /* when has_first */
    bool has_first;
    char *regularization, *clip; /* NULL: none */
    fl_arena arena;
    fl_map states; /* variables by state_key */
};

/* --- settings ------------------------------------------------------------ */

static fl_status set_rate(fl_optimizer *o, const fl_word *w)
{
    static const fl_key key = { .type = FL_KEY_FLOAT, .hi.f = DBL_MAX };
    fl_key_value v;

    FL_TRY(fl_word_parse(w, &key, &v));
    o->lr = v.f;
    return FL_OK;
}

static fl_status set_first(fl_optimizer *o, const fl_word *w)
{
    static const fl_key key = { .type = FL_KEY_FLOAT, .hi.f = DBL_MAX };
    fl_key_value v;

    FL_TRY(fl_word_parse(w, &key, &v));
    o->first_accumulator = v.f;
    o->has_first = true;
    return FL_OK;
}

static fl_status set_lazy(fl_optimizer *o, const fl_word *w)
{
    static const fl_key key = { .type = FL_KEY_BOOL };
    fl_key_value v;

    FL_TRY(fl_word_parse(w, &key, &v));
    o->lazy = v.b;
    return FL_OK;
}

static fl_status set_accumulate(fl_optimizer *o, const fl_word *w)
{
    static const fl_key key = { .type = FL_KEY_INT,
                                .lo.i = 1,
                                .hi.i = FL_ACCUMULATE_MAX };
    fl_key_value v;

    FL_TRY(fl_word_parse(w, &key, &v));
    o->accumulate = (uint64_t)v.i;
    return FL_OK;
}

static void keep_text(char **to, const char *value)
{
    fl_free(*to);
    *to = fl_strdup(value);
}

static fl_status set_decay(fl_optimizer *o, const fl_word *w)
{
    fl_call call;

    FL_TRY(fl_decay_parse(w->value, &call));
    keep_text(&o->regularization, w->value);
    return FL_OK;
}

static fl_status set_clip(fl_optimizer *o, const fl_word *w)
{
    fl_call call;

    FL_TRY(fl_clip_parse(w->value, FL_CLIP_OF_ALL, &call));
    keep_text(&o->clip, w->value);
    return FL_OK;
}

/* What optimizers have besides the settings of their rule. */
static const struct setting {
    const char *name;
    fl_status (*set)(fl_optimizer *o, const fl_word *w);
    bool needs_state; /* of the rule */
} settings_of_all[] = {
    { "learning_rate", set_rate, false },
    { "regularization", set_decay, false },
    { "grad_clip", set_clip, false },
    { "lazy_mode", set_lazy, false },
    { "accumulate", set_accumulate, false },
    { "initial_accumulator_value", set_first, true },
};

static bool has_setting(const fl_optimizer *o, const struct setting *s)
{
    return !s->needs_state || fl_rule_n_states(o->rule) > 0;
}

static fl_status unknown_word(const fl_optimizer *o, const fl_word *w)
{
    const char *names[FL_LEN(settings_of_all) + FL_RULE_PARAM_MAX];
    char owner[FL_ERR_TEXT_MAX];
    size_t n = 0;

    for (size_t i = 0; i < FL_LEN(settings_of_all); i++)
        if (has_setting(o, &settings_of_all[i]))
            names[n++] = settings_of_all[i].name;
    for (int i = 0; i < fl_rule_n_params(o->rule); i++)
        names[n++] = o->rule->params[i].name;
    snprintf(owner, sizeof(owner), "optimizer %s", o->rule->name);
    return fl_word_refuse(w, owner, names, n);
}

static fl_status set_word(fl_optimizer *o, const fl_word *w)
{
    int param = fl_rule_find_param(o->rule, w->name);

    if (param >= 0)
        return fl_rule_set(o->rule, param, w, o->p);
    for (size_t i = 0; i < FL_LEN(settings_of_all); i++)
        if (!strcmp(settings_of_all[i].name, w->name) &&
            has_setting(o, &settings_of_all[i]))
            return settings_of_all[i].set(o, w);
    return unknown_word(o, w);
}

static fl_status set_words(fl_optimizer *o, const char *text)
{
    fl_status st = FL_OK;
    fl_words words;

    FL_TRY(fl_words_read(&words, text, FL_WORDS_SETTINGS));
    for (size_t i = 0; i < words.list.len && !st; i++)
        st = set_word(o, &words.list.data[i]);
    fl_words_release(&words);
    return st;
}

fl_status fl_optimizer_new(fl_optimizer **out, fl_ctx *c, const char *kind,
                           const char *settings)
{
    const fl_rule *rule = fl_rule_find(kind);
    fl_optimizer *o;
    fl_status st;

    if (!rule)
        return fl_rule_refuse(kind);
    o = fl_alloc(sizeof(*o));
    fl_arena_init(&o->arena, STATES_CHUNK_BYTES);
    o->ctx = c;
    o->rule = rule;
    o->lr = 0.001;
    o->lazy = true;
    o->accumulate = 1;
    fl_rule_defaults(rule, o->p);
    st = settings ? set_words(o, settings) : FL_OK;
    if (st) {
        fl_optimizer_free(o);
        return st;
    }
    fl_vec_push(&c->optimizers, o);
    *out = o;
    return FL_OK;
}

void fl_optimizer_free(fl_optimizer *o)
{
    fl_free(o->regularization);
    fl_free(o->clip);
    fl_map_release(&o->states);
    fl_arena_release(&o->arena);
    fl_free(o);
}

void fl_optimizer_set_lr(fl_optimizer *o, fl_var *learning_rate)
{
    o->lr_var = learning_rate;
    o->lr_given = true;
    o->lr_failed = !learning_rate;
}

/* --- clipping and decay -------------------------------------------------- */

static void begin_update(fl_optimizer *o, fl_layer *l, const fl_var *param,
                         const char *kind)
{
    fl_layer_begin_in(l, o->ctx, param->block, kind, NULL);
    l->role = FL_OP_ROLE_OPTIMIZE;
}

static fl_status clip_one(fl_optimizer *o, fl_param_grad *pg, const char *text)
{
    fl_call w;
    fl_layer l;

    FL_TRY(fl_call_parse(text, &w));
    if (!strcmp(w.name, "value")) {
        begin_update(o, &l, pg->param, "clip");
        fl_layer_in(&l, "X", pg->grad);
        fl_layer_float(&l, "min", w.v[0]);
        fl_layer_float(&l, "max", w.v[1]);
        pg->grad = fl_layer_emit(&l, "clip", "Out");
    } else {
        begin_update(o, &l, pg->param, "clip_by_norm");
        fl_layer_in(&l, "X", pg->grad);
        fl_layer_float(&l, "max_norm", w.v[0]);
        pg->grad = fl_layer_emit(&l, "clip_by_norm", "Out");
    }
    return pg->grad ? FL_OK : FL_ERR_INVAL;
}

/* Those without a clip of their own have one norm together. */
static fl_status clip_global(fl_optimizer *o, fl_param_grad *pg, size_t n,
                             double max_norm)
{
    fl_arena *arena = &pg[0].param->block->program->arena;
    const char **names = fl_arena_alloc(arena, sizeof(char *) * n);
    size_t n_clipped = 0;
    fl_layer l;

    begin_update(o, &l, pg[0].param, "clip_by_global_norm");
    for (size_t i = 0; i < n; i++) {
        if (pg[i].param->clip)
            continue;
        names[i] = fl_layer_tmp(&l);
        fl_layer_in(&l, "X", pg[i].grad);
        fl_layer_out(&l, "Out", names[i]);
        n_clipped++;
    }
    fl_layer_float(&l, "max_norm", max_norm);
    if (!n_clipped) {
        fl_layer_drop(&l);
        return FL_OK;
    }
    if (!fl_layer_emit(&l, "clip_by_global_norm", NULL))
        return FL_ERR_INVAL;
    for (size_t i = 0; i < n; i++)
        if (!pg[i].param->clip)
            pg[i].grad = fl_block_find_var(l.block, names[i]);
    return FL_OK;
}

static fl_status clip_all(fl_optimizer *o, fl_param_grad *pg, size_t n)
{
    const char *common = o->clip;
    fl_call w = { 0 };

    if (common)
        FL_TRY(fl_call_parse(common, &w));
    if (!strcmp(w.name, "global_norm")) {
        FL_TRY(clip_global(o, pg, n, w.v[0]));
        common = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = pg[i].param->clip ? pg[i].param->clip : common;

        if (text)
            FL_TRY(clip_one(o, &pg[i], text));
    }
    return FL_OK;
}

static const char *decay_of(const fl_optimizer *o, const fl_var *param)
{
    return param->regularizer ? param->regularizer : o->regularization;
}

static fl_status decay(fl_optimizer *o, fl_param_grad *pg)
{
    const char *text = decay_of(o, pg->param);
    fl_call w;
    fl_layer l;

    /* A table decays its rows itself. */
    if (!text || (pg->param->flags & FL_VAR_TABLE))
        return FL_OK;
    FL_TRY(fl_call_parse(text, &w));
    begin_update(o, &l, pg->param, "weight_decay");
    fl_layer_in(&l, "Param", pg->param);
    fl_layer_in(&l, "Grad", pg->grad);
    fl_layer_float(&l, w.name, w.v[0]);
    pg->grad = fl_layer_emit(&l, "weight_decay", "Out");
    return pg->grad ? FL_OK : FL_ERR_INVAL;
}

/* --- update -------------------------------------------------------------- */

static fl_var *common_rate(fl_optimizer *o, const fl_var *param)
{
    if (!o->lr_var)
        o->lr_var = fl_layer_rate(o->ctx, param->block, o->lr);
    return o->lr_var;
}

static fl_var *learning_rate(fl_optimizer *o, const fl_var *param)
{
    fl_layer l;

    if (!common_rate(o, param) || param->lr == 1)
        return o->lr_var;
    fl_layer_begin_in(&l, o->ctx, param->block, "learning_rate_scale", NULL);
    l.role = FL_OP_ROLE_OPTIMIZE;
    fl_layer_in(&l, "X", o->lr_var);
    fl_layer_float(&l, "scale", param->lr);
    return fl_layer_emit(&l, "scale", "Out");
}

static double first_value(const fl_optimizer *o, const fl_rule_state *s)
{
    if (o->has_first && !s->first_from)
        return o->first_accumulator;
    return fl_rule_first(o->rule, s, o->p);
}

/* Programs are told apart by their id, since an address may come again. */
static char *state_key(fl_arena *arena, const fl_var *param, const char *state)
{
    return fl_arena_printf(arena, "%" PRIu64 " %s %s",
                           param->block->program->id, param->name, state);
}

const char *fl_optimizer_state_name(const fl_optimizer *o, size_t i)
{
    const fl_rule_state *s = fl_rule_state_at(o->rule, i);

    return s ? s->suffix : NULL;
}

fl_var *fl_optimizer_state(const fl_optimizer *o, const fl_var *param,
                           const char *state)
{
    fl_arena tmp;
    fl_var *v;

    fl_arena_init(&tmp, 1 << 10);
    v = fl_map_find(&o->states, state_key(&tmp, param, state));
    fl_arena_release(&tmp);
    return v;
}

static fl_status add_state(fl_optimizer *o, fl_layer *l, const fl_var *param,
                           const fl_rule_state *s, const fl_shape *shape)
{
    char name[FL_ERR_TEXT_MAX];
    fl_var *v;

    snprintf(name, sizeof(name), "%s_%s", param->name, s->suffix);
    v = fl_layer_state(o->ctx, l->block,
                       fl_ctx_name(o->ctx, l->block->program, name),
                       param->meta.dtype, shape, first_value(o, s));
    fl_layer_in(l, s->slot, v);
    if (!v)
        return FL_ERR_INVAL;
    fl_layer_out(l, s->out_slot, v->name);
    fl_map_put(&o->states, state_key(&o->arena, param, s->suffix), v);
    return FL_OK;
}

static bool has_lazy_mode(const fl_optimizer *o, const fl_layer *l)
{
    const fl_op *op = l->block->program->ops->find(o->rule->name);

    return op && fl_op_find_attr(op, "lazy_mode") >= 0;
}

static fl_update update_of(const fl_optimizer *o)
{
    fl_update u = { .rule = o->rule };

    memcpy(u.p, o->p, sizeof(u.p));
    return u;
}

/* The operator of the rule, without its state. */
static void begin_rule(fl_optimizer *o, fl_layer *l, const fl_param_grad *pg,
                       const fl_var *lr)
{
    fl_update u = update_of(o);

    begin_update(o, l, pg->param, o->rule->name);
    fl_layer_in(l, "Param", pg->param);
    fl_layer_in(l, "Grad", pg->grad);
    fl_layer_in(l, "LearningRate", lr);
    fl_layer_out(l, "ParamOut", pg->param->name);
    fl_op_builder_update(&l->op, &u);
    if (has_lazy_mode(o, l))
        fl_layer_bool(l, "lazy_mode", o->lazy);
}

static fl_status update(fl_optimizer *o, const fl_param_grad *pg)
{
    static const fl_shape one = { .rank = 1, .dim = { 1 } };
    fl_var *lr = learning_rate(o, pg->param);
    fl_layer l;

    if (!lr)
        return FL_ERR_INVAL;
    begin_rule(o, &l, pg, lr);
    for (int i = 0; i < fl_rule_n_states(o->rule); i++)
        FL_TRY(add_state(o, &l, pg->param, &o->rule->states[i],
                         &pg->param->meta.shape));
    for (int i = 0; i < fl_rule_n_scalars(o->rule); i++)
        FL_TRY(add_state(o, &l, pg->param, &o->rule->scalars[i], &one));
    return fl_layer_emit(&l, o->rule->name, NULL) ? FL_OK : FL_ERR_INVAL;
}

/* --- update of tables ---------------------------------------------------- */

/* What the startup program makes the table with, in the words of
   fl_table_new. */
static void add_rule_words(const fl_optimizer *o, const fl_var *param,
                           fl_str *out)
{
    const char *decay_text = decay_of(o, param);
    fl_update u = update_of(o);
    char buf[FL_NUMBER_TEXT_MAX];

    fl_update_print(&u, out);
    if (param->lr != 1)
        fl_str_addf(out, " lr_scale=%s", fl_number_text(param->lr, buf));
    if (decay_text)
        fl_str_addf(out, " regularization=%s", decay_text);
}

static fl_status set_table_rule(fl_optimizer *o, const fl_var *param)
{
    fl_str words = { 0 };
    fl_status st;

    if (!o->lazy)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s is a table, and the rows of a table are updated "
                "when they have a gradient: lazy_mode=false is not for it",
                param->name);
    if (o->has_first)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s is a table, whose state starts with the values "
                "of its rule: initial_accumulator_value is not for it",
                param->name);
    add_rule_words(o, param, &words);
    st = fl_layer_table_rule(o->ctx, param, fl_str_text(&words));
    fl_str_release(&words);
    return st;
}

/* The operator of the rule, as for an array; its state is with the rows of the
   table. The pass dist_pull makes a push of it, with its settings. */
static fl_status update_table(fl_optimizer *o, const fl_param_grad *pg)
{
    fl_var *lr = common_rate(o, pg->param);
    fl_layer l;

    if (!lr)
        return FL_ERR_INVAL;
    FL_TRY(set_table_rule(o, pg->param));
    begin_rule(o, &l, pg, lr);
    return fl_layer_emit(&l, o->rule->name, NULL) ? FL_OK : FL_ERR_INVAL;
}

/* A number is no more than a word that programs bring along; a schedule would
   be built for nothing. */
static fl_status check_rate(const fl_optimizer *o)
{
    if (o->lr_failed)
        FL_FAIL(FL_ERR_INVAL,
                "optimizer %s was given a learning rate that failed to build",
                o->rule->name);
    if (o->rule->own_rate && o->lr_given)
        FL_FAIL(FL_ERR_INVAL,
                "optimizer %s makes its own rate and would not look at that "
                "of the schedule; leave it out, or take another optimizer",
                o->rule->name);
    return FL_OK;
}

/* All updates of a program are made in the same runs. */
static fl_status set_turns(const fl_optimizer *o, fl_program *p)
{
    if (p->accumulate && p->accumulate != o->accumulate)
        FL_FAIL(FL_ERR_INVAL,
                "optimizer %s has accumulate=%" PRIu64
                ", but the program updates once in %" PRIu64
                " batches; give all optimizers of a program the same",
                o->rule->name, o->accumulate, p->accumulate);
    p->accumulate = o->accumulate;
    return FL_OK;
}

fl_status fl_apply_gradients(fl_optimizer *o, const fl_param_grad *pg, size_t n)
{
    fl_param_grad *mine;
    fl_status st;

    if (!o)
        return FL_ERR_INVAL;
    if (!n)
        FL_FAIL(FL_ERR_INVAL, "there is no gradient to apply");
    FL_TRY(check_rate(o));
    FL_TRY(set_turns(o, pg[0].param->block->program));
    mine = fl_alloc(sizeof(*mine) * n);
    memcpy(mine, pg, sizeof(*mine) * n);
    st = clip_all(o, mine, n);
    for (size_t i = 0; i < n && !st; i++)
        st = decay(o, &mine[i]);
    for (size_t i = 0; i < n && !st; i++)
        st = mine[i].param->flags & FL_VAR_TABLE ? update_table(o, &mine[i])
                                                 : update(o, &mine[i]);
    fl_free(mine);
    return fl_err_ctx(st, "optimizer %s", o->rule->name);
}

fl_status fl_minimize_with(fl_optimizer *o, fl_var *loss,
                           const fl_backward_args *args)
{
    fl_param_grad *pg;
    fl_status st;
    size_t n;

    if (!o)
        return FL_ERR_INVAL;
    FL_TRY(fl_append_backward_with(loss, args, &pg, &n));
    st = fl_apply_gradients(o, pg, n);
    fl_param_grads_free(pg);
    return st;
}
