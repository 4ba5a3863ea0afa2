/* average.c - averages of parameters: the operators that keep them, and their
 * use in place of the parameters around an evaluation.
 *
 * The averages are state of the program, in the scope like any other. Applying
 * one writes into the scope and keeps what was there; nothing is run for it.
 */
#include "flotilla/optimizer.h"

#include <float.h>

#include "api/layer.h"
#include "base/args.h"
#include "conf/words.h"
#include "optim/rule.h"
#include "tensor/floats.h"

#define SETTINGS_MAX 3
#define STATES_MAX 6

/* A state that is kept per parameter: the slots of the operator and the ending
   of its name. Those that are counts have one element. */
typedef struct average_state {
    const char *slot, *out_slot, *suffix;
    bool is_number; /* one element of the parameter's type */
    bool is_count;  /* one i64 */
} average_state;

typedef struct average_kind {
    const char *name, *op, *in_slot;
    struct {
        fl_key key;
        const char *attr; /* of the operator */
        double value;
    } settings[SETTINGS_MAX];
    average_state states[STATES_MAX];
    int n_sums;     /* the first states: what is added up */
    int weights[2]; /* states that are added up to divide by; -1: none */
} average_kind;

static const average_kind kinds[] = {
    { .name = "exponential",
      .op = "moving_average",
      .in_slot = "X",
      .settings = { { { .type = FL_KEY_FLOAT,
                        .name = "decay",
                        .hi.f = FL_BELOW_1 },
                      "decay",
                      0.999 },
                    { { .type = FL_KEY_BOOL, .name = "thres_steps" },
                      "thres_steps",
                      0 } },
      .states = { { "Average", "AverageOut", "ema", false, false },
                  { "Weight", "WeightOut", "ema_weight", true, false } },
      .n_sums = 1,
      .weights = { 1, -1 } },
    { .name = "window",
      .op = "average_accumulates",
      .in_slot = "param",
      .settings = { { { .type = FL_KEY_FLOAT,
                        .name = "average_window_rate",
                        .hi.f = DBL_MAX },
                      "average_window",
                      0.15 },
                    { { .type = FL_KEY_INT,
                        .name = "min_average_window",
                        .lo.i = 1,
                        .hi.i = INT64_MAX },
                      "min_average_window",
                      10000 },
                    { { .type = FL_KEY_INT,
                        .name = "max_average_window",
                        .lo.i = 1,
                        .hi.i = INT64_MAX },
                      "max_average_window",
                      10000 } },
      .states = { { "in_sum_1", "out_sum_1", "sum_1", false, false },
                  { "in_sum_2", "out_sum_2", "sum_2", false, false },
                  { "in_sum_3", "out_sum_3", "sum_3", false, false },
                  { "in_num_accumulates", "out_num_accumulates",
                    "num_accumulates", false, true },
                  { "in_old_num_accumulates", "out_old_num_accumulates",
                    "old_num_accumulates", false, true },
                  { "in_num_updates", "out_num_updates", "num_updates", false,
                    true } },
      .n_sums = 3,
      .weights = { 3, 4 } },
};

/* One parameter, with the names of its states. */
typedef struct averaged {
    const char *param, *states[STATES_MAX];
    fl_tensor value, sums[STATES_MAX]; /* while it is applied: views */
    double weight;
    void *backup; /* what the parameter was; NULL: it is not applied */
    size_t bytes;
} averaged;

struct fl_average {
    fl_ctx *ctx;
    const average_kind *kind;
    double v[SETTINGS_MAX];
    fl_scope *scope; /* where it is applied; NULL: nowhere */
    fl_arena arena;
    FL_VEC(averaged) params;
};

/* --- settings ------------------------------------------------------------- */

static const average_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < FL_LEN(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

static fl_status refuse_word(const fl_average *a, const fl_word *w)
{
    const char *names[SETTINGS_MAX];
    char owner[64];
    size_t n = 0;

    while (n < SETTINGS_MAX && a->kind->settings[n].attr) {
        names[n] = a->kind->settings[n].key.name;
        n++;
    }
    snprintf(owner, sizeof(owner), "average %s", a->kind->name);
    return fl_word_refuse(w, owner, names, n);
}

static fl_status set_word(fl_average *a, const fl_word *w)
{
    for (int i = 0; i < SETTINGS_MAX && a->kind->settings[i].attr; i++) {
        const fl_key *key = &a->kind->settings[i].key;
        fl_key_value v;

        if (strcmp(key->name, w->name))
            continue;
        FL_TRY(fl_word_parse(w, key, &v));
        a->v[i] = key->type == FL_KEY_BOOL  ? v.b
                  : key->type == FL_KEY_INT ? (double)v.i
                                            : v.f;
        return FL_OK;
    }
    return refuse_word(a, w);
}

static fl_status set_words(fl_average *a, const char *text)
{
    fl_status st = FL_OK;
    fl_words words;

    for (int i = 0; i < SETTINGS_MAX; i++)
        a->v[i] = a->kind->settings[i].value;
    if (!text)
        return FL_OK;
    FL_TRY(fl_words_read(&words, text, FL_WORDS_SETTINGS));
    for (size_t i = 0; i < words.list.len && !st; i++)
        st = set_word(a, &words.list.data[i]);
    fl_words_release(&words);
    return st;
}

/* --- operators ------------------------------------------------------------ */

static void add_settings(const fl_average *a, fl_layer *l)
{
    for (int i = 0; i < SETTINGS_MAX && a->kind->settings[i].attr; i++) {
        const char *attr = a->kind->settings[i].attr;
        fl_key_type type = a->kind->settings[i].key.type;

        if (type == FL_KEY_BOOL)
            fl_layer_bool(l, attr, a->v[i] != 0);
        else if (type == FL_KEY_INT)
            fl_layer_int(l, attr, (int64_t)a->v[i]);
        else
            fl_layer_float(l, attr, a->v[i]);
    }
}

static fl_status add_state(fl_average *a, fl_layer *l, const fl_var *param,
                           const average_state *s, const char **name)
{
    static const fl_shape one = { .rank = 1, .dim = { 1 } };
    bool is_sum = !s->is_number && !s->is_count;
    char key[FL_ERR_TEXT_MAX];
    fl_var *v;

    snprintf(key, sizeof(key), "%s_%s", param->name, s->suffix);
    v = fl_layer_state(a->ctx, l->block,
                       fl_ctx_name(a->ctx, l->block->program, key),
                       s->is_count ? FL_DTYPE_I64 : param->meta.dtype,
                       is_sum ? &param->meta.shape : &one, 0);
    if (!v)
        return FL_ERR_INVAL;
    fl_layer_in(l, s->slot, v);
    fl_layer_out(l, s->out_slot, v->name);
    *name = fl_arena_strdup(&a->arena, v->name);
    return FL_OK;
}

static fl_status add_param(fl_average *a, fl_var *param)
{
    averaged p = { .param = fl_arena_strdup(&a->arena, param->name) };
    fl_status st = FL_OK;
    fl_layer l;

    if (param->flags & FL_VAR_TABLE)
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s is a table, whose rows have no average; leave it "
                "out",
                param->name);
    fl_layer_begin_in(&l, a->ctx, param->block, a->kind->op, NULL);
    l.role = FL_OP_ROLE_OPTIMIZE;
    fl_layer_in(&l, a->kind->in_slot, param);
    for (int i = 0; i < STATES_MAX && a->kind->states[i].slot && !st; i++)
        st = add_state(a, &l, param, &a->kind->states[i], &p.states[i]);
    if (st) {
        fl_layer_drop(&l);
        return st;
    }
    add_settings(a, &l);
    if (!fl_layer_emit(&l, a->kind->op, NULL))
        return FL_ERR_INVAL;
    fl_vec_push(&a->params, p);
    return FL_OK;
}

/* Parameters whose gradients are rows + values are left out: their rows may
   come to live in tables. */
static fl_var *dense_param(const fl_op_node *n)
{
    int param = fl_op_find_in(n->def, "Param");
    int grad = fl_op_find_in(n->def, "Grad");
    fl_update u;

    if (!fl_node_update(n, &u) ||
        (n->in[param].vars[0]->flags & FL_VAR_TABLE) ||
        n->in[grad].vars[0]->meta.kind == FL_KIND_ROWS)
        return NULL;
    return n->in[param].vars[0];
}

static fl_status add_trained(fl_average *a, const fl_block *b)
{
    const fl_op_node *end = b->last;

    for (const fl_op_node *n = b->first; n; n = n->next) {
        fl_var *param = dense_param(n);

        if (param)
            FL_TRY(add_param(a, param));
        if (n == end)
            break; /* the rest are ours */
    }
    if (!a->params.len)
        FL_FAIL(FL_ERR_INVAL,
                "the program updates no dense parameter; minimize the loss "
                "before averages are made");
    return FL_OK;
}

static fl_status add_given(fl_average *a, const fl_average_args *args)
{
    for (size_t i = 0; i < args->n_parameters; i++) {
        if (!args->parameters[i])
            FL_FAIL(FL_ERR_INVAL, "parameter %zu is missing", i);
        FL_TRY(add_param(a, args->parameters[i]));
    }
    return FL_OK;
}

fl_status fl_average_new_with(fl_average **out, fl_ctx *c, const char *kind,
                              const fl_average_args *args)
{
    const average_kind *k = find_kind(kind);
    fl_average_args given;
    fl_average *a;
    fl_status st;

    if (!k)
        FL_FAIL(FL_ERR_NOTFOUND,
                "no average is called '%s'; there are exponential and window",
                kind);
    FL_TRY(FL_ARGS_READ(fl_average_args, &given, args));
    a = fl_alloc(sizeof(*a));
    a->ctx = c;
    a->kind = k;
    fl_arena_init(&a->arena, 4 << 10);
    st = set_words(a, given.settings);
    if (!st)
        st = given.n_parameters
                 ? add_given(a, &given)
                 : add_trained(a, fl_program_main(fl_ctx_pair(c).main));
    if (st) {
        fl_average_free(a);
        return fl_err_ctx(st, "average %s", kind);
    }
    *out = a;
    return FL_OK;
}

static void drop_backups(fl_average *a)
{
    for (size_t i = 0; i < a->params.len; i++) {
        averaged *p = &a->params.data[i];

        fl_data_free(p->backup, p->bytes);
        p->backup = NULL;
    }
}

void fl_average_free(fl_average *a)
{
    if (!a)
        return;
    drop_backups(a);
    fl_vec_release(&a->params);
    fl_arena_release(&a->arena);
    fl_free(a);
}

/* --- applying ------------------------------------------------------------- */

/* sums[0] may be all there is. */
#define MEAN(T, t)                                                             \
    static void mean_##t(T *out, const averaged *p, int n_sums, size_t n)      \
    {                                                                          \
        const T *a = p->sums[0].data;                                          \
        const T *b = n_sums > 1 ? p->sums[1].data : NULL;                      \
        const T *c = n_sums > 2 ? p->sums[2].data : NULL;                      \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            out[i] = (T)(((double)a[i] + (b ? (double)b[i] : 0) +              \
                          (c ? (double)c[i] : 0)) /                            \
                         p->weight);                                           \
    }
FL_FLOATS(MEAN)

static double number(const fl_tensor *t)
{
    return t->dtype == FL_DTYPE_I64 ? (double)*(const int64_t *)t->data
                                    : fl_float_at(t, 0);
}

/* Finds everything in the scope, before anything is changed. */
static fl_status find_values(const average_kind *k, fl_scope *s, averaged *p)
{
    fl_tensor t;

    FL_TRY(fl_scope_get(s, p->param, &p->value));
    for (int i = 0; i < k->n_sums; i++)
        FL_TRY(fl_scope_get(s, p->states[i], &p->sums[i]));
    p->weight = 0;
    for (size_t i = 0; i < FL_LEN(k->weights) && k->weights[i] >= 0; i++) {
        FL_TRY(fl_scope_get(s, p->states[k->weights[i]], &t));
        p->weight += number(&t);
    }
    if (!(p->weight > 0))
        FL_FAIL(FL_ERR_INVAL,
                "parameter %s has no average yet: train at least one step "
                "before it is applied",
                p->param);
    FL_TRY(fl_tensor_bytes(&p->value, &p->bytes));
    p->backup = fl_try_alloc(p->bytes + 1);
    if (!p->backup)
        FL_FAIL(FL_ERR_NOMEM, "parameter %s: no memory for %zu bytes", p->param,
                p->bytes);
    return FL_OK;
}

static void apply(const average_kind *k, averaged *p)
{
    memcpy(p->backup, p->value.data, p->bytes);
    FL_BY_DTYPE(p->value.dtype, mean, p->value.data, p, k->n_sums,
                (size_t)fl_tensor_numel(&p->value));
}

fl_status fl_average_apply(fl_average *a)
{
    const fl_comm *comm = a->ctx->comm;
    fl_scope *s = fl_current_scope(a->ctx);
    fl_status st = FL_OK;

    if (a->scope)
        FL_FAIL(FL_ERR_INVAL,
                "the average is applied already; restore the parameters first");
    if (comm && comm->writes_params)
        FL_FAIL(FL_ERR_INVAL,
                "mode %s changes parameters beside the runs of this process; "
                "stop the job before an average is applied, or train in mode "
                "sync or half_async",
                comm->name);
    for (size_t i = 0; i < a->params.len && !st; i++)
        st = find_values(a->kind, s, &a->params.data[i]);
    if (st) {
        drop_backups(a);
        return st;
    }
    for (size_t i = 0; i < a->params.len; i++)
        apply(a->kind, &a->params.data[i]);
    a->scope = s;
    return FL_OK;
}

fl_status fl_average_restore(fl_average *a)
{
    if (!a->scope)
        FL_FAIL(FL_ERR_INVAL, "no average is applied: there is nothing to "
                              "restore");
    for (size_t i = 0; i < a->params.len; i++) {
        averaged *p = &a->params.data[i];
        fl_tensor now;

        FL_TRY(fl_scope_get(a->scope, p->param, &now));
        memcpy(now.data, p->backup, p->bytes);
    }
    drop_backups(a);
    a->scope = NULL;
    return FL_OK;
}
