/* optimize_ops.c - an operator for each update rule, made from its descriptor.
 *
 *     in   Param, Grad, LearningRate, the rule's accumulators, its scalars, and
 *          settings that may be given as numbers of a variable
 *     out  ParamOut, the new value of each accumulator and scalar
 *
 * Every slot but LearningRate and the settings is a list, so that many updates
 * of one kind can be merged into one operator: entry i of each list belongs to
 * parameter i. The rows of a table have their state with them: an update of one
 * leaves out the slots of accumulators, scalars and settings.
 *
 * The operators are made when the first of them is looked for, and stay.
 */
#include "ops/optimize.h"

#include <pthread.h>
#include <stdarg.h>

#include "base/added.h"
#include "base/alloc.h"

enum {
    STATE = FL_OP_SLOT_LIST | FL_OP_SLOT_STATE | FL_SLOT_NO_GRAD,
    GRAD = FL_OP_SLOT_LIST | FL_OP_SLOT_ROWS | FL_SLOT_NO_GRAD,
    RATE = FL_SLOT_NO_GRAD,
    NEW = FL_OP_SLOT_LIST
};

#define TEXT_BYTES 8192
#define CASES_MAX 24
#define UPDATES_MAX (FL_ADDED_MAX + 64)

/* An operator, and the texts that its descriptor points to. */
typedef struct update_op {
    fl_op op;
    fl_op_case cases[CASES_MAX];
    char text[TEXT_BYTES];
    size_t used;
} update_op;

FL_PRINTF(2, 3)
static const char *keep(update_op *u, const char *fmt, ...)
{
    char *to = u->text + u->used;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(to, TEXT_BYTES - u->used, fmt, args);
    va_end(args);
    FL_ASSERT(n >= 0 && u->used + (size_t)n < TEXT_BYTES);
    u->used += (size_t)n + 1;
    return to;
}

/* --- slots and attributes ------------------------------------------------- */

static void add_state(fl_op *op, const fl_rule_state *s)
{
    op->in[fl_op_n_in(op)] =
        (fl_op_slot){ s->slot, STATE | FL_OP_SLOT_OPTIONAL };
    op->out[fl_op_n_out(op)] =
        (fl_op_slot){ s->out_slot, NEW | FL_OP_SLOT_BYPRODUCT };
}

static void add_slots(fl_op *op, const fl_rule *r)
{
    op->in[FL_UPDATE_PARAM] = (fl_op_slot){ "Param", STATE };
    op->in[FL_UPDATE_GRAD] = (fl_op_slot){ "Grad", GRAD };
    op->in[FL_UPDATE_RATE] =
        (fl_op_slot){ "LearningRate",
                      r->own_rate ? RATE | FL_OP_SLOT_OPTIONAL : RATE };
    op->out[FL_UPDATE_PARAM] = (fl_op_slot){ "ParamOut", NEW };
    for (int i = 0; i < fl_rule_n_states(r); i++)
        add_state(op, &r->states[i]);
    for (int i = 0; i < fl_rule_n_scalars(r); i++)
        add_state(op, &r->scalars[i]);
    for (int i = 0; i < fl_rule_n_params(r); i++)
        if (r->params[i].slot)
            op->in[fl_op_n_in(op)] =
                (fl_op_slot){ r->params[i].slot, RATE | FL_OP_SLOT_OPTIONAL };
}

/* Where a zero gradient changes nothing, lazy rows are all there is. */
static bool has_lazy_mode(const fl_rule *r)
{
    return !r->zero_is_noop && !r->whole;
}

static void add_attrs(update_op *u, const fl_rule *r)
{
    char buf[FL_NUMBER_TEXT_MAX];
    int n = fl_rule_n_params(r);

    for (int i = 0; i < n; i++) {
        const fl_rule_param *p = &r->params[i];

        u->op.attrs[i] =
            p->is_flag
                ? (fl_attr_def){ p->name, FL_ATTR_BOOL,
                                 p->value != 0 ? "true" : "false" }
                : (fl_attr_def){ p->name, FL_ATTR_FLOAT,
                                 keep(u, "%s", fl_number_text(p->value, buf)) };
    }
    if (has_lazy_mode(r))
        u->op.attrs[n] = (fl_attr_def){ FL_LAZY_MODE, FL_ATTR_BOOL, "false" };
}

static const char *doc_of_rows(const fl_rule *r)
{
    if (r->whole)
        return "It needs all of a parameter: a sparse gradient is made dense, "
               "and absent rows count as gradient 0";
    if (!fl_rule_n_states(r))
        return "Rows + values change the rows they name, each occurrence in "
               "turn";
    return r->zero_is_noop
               ? "Rows of a sparse gradient are added up first; absent rows "
                 "stay as they are"
               : "Rows of a sparse gradient are added up first; absent rows "
                 "count as gradient 0, unless lazy_mode leaves them alone";
}

/* --- cases of the sweep --------------------------------------------------- */

static const struct shapes {
    const char *param, *grad; /* of each parameter */
} all_shapes[] = {
    { "f32[33,7];f32[5];f32[9,4]", "f32[33,7];f32[5];f32[9,4]" },
    { "f32[40,3]", "f32[25,3] rows height=40" },
    { "f32[33,7];f32[9,4]", "f32[33,7];f32[12,4] rows height=9" },
    { "f32[6,1]", "f32[0,1] rows height=6" },
    { "f32[1]", "f32[1]" },
    { "f32[0,3]", "f32[0,3]" },
};

/* Attributes other than the defaults are tried with the first of them. */
#define SHAPES_FOR_ATTRS 2

/* The shapes of the parameters, or of one number for each, drawn as the state
   says. */
static const char *state_text(update_op *u, const char *params, bool is_scalar,
                              int below)
{
    char text[256] = "";
    size_t n = 0;

    for (const char *at = params; *at;) {
        int len = (int)strcspn(at, ";");

        n +=
            (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s", n ? ";" : "",
                             is_scalar ? 6 : len, is_scalar ? "f32[1]" : at);
        if (below)
            n += (size_t)snprintf(text + n, sizeof(text) - n, " below=%d",
                                  below);
        at += len + (at[len] == ';');
    }
    return keep(u, "%s", text);
}

static void add_case(update_op *u, const fl_rule *r, const struct shapes *s,
                     const char *attrs)
{
    fl_op_case *c = &u->cases[u->op.n_cases];
    int slot = FL_UPDATE_STATE;

    FL_ASSERT(u->op.n_cases < CASES_MAX);
    u->op.n_cases++;
    c->attrs = attrs;
    c->in[FL_UPDATE_PARAM] = s->param;
    c->in[FL_UPDATE_GRAD] = s->grad;
    c->in[FL_UPDATE_RATE] = "f32[1] below=1";
    for (int i = 0; i < fl_rule_n_states(r); i++)
        c->in[slot++] = state_text(u, s->param, false, r->states[i].below);
    for (int i = 0; i < fl_rule_n_scalars(r); i++)
        c->in[slot++] = state_text(u, s->param, true, 1);
}

/* Settings from their slots, where the rule has any. */
static void add_case_of_slots(update_op *u, const fl_rule *r)
{
    int first = FL_UPDATE_STATE + fl_rule_n_states(r) + fl_rule_n_scalars(r);

    if (first == fl_op_n_in(&u->op))
        return;
    add_case(u, r, &all_shapes[0], NULL);
    for (int slot = first; slot < fl_op_n_in(&u->op); slot++)
        u->cases[u->op.n_cases - 1].in[slot] = "f32[1] below=1";
}

static void add_cases_with(update_op *u, const fl_rule *r, const char *attrs)
{
    for (size_t i = 0; i < SHAPES_FOR_ATTRS; i++)
        add_case(u, r, &all_shapes[i], attrs);
}

static void add_cases(update_op *u, const fl_rule *r)
{
    for (size_t i = 0; i < FL_LEN(all_shapes); i++)
        add_case(u, r, &all_shapes[i], NULL);
    for (int i = 0; i < FL_RULE_CASES_MAX && r->cases[i]; i++)
        add_cases_with(u, r, r->cases[i]);
    for (int i = 0; i < fl_rule_n_params(r); i++)
        if (r->params[i].is_flag)
            add_cases_with(u, r, keep(u, "{%s=true}", r->params[i].name));
    if (has_lazy_mode(r))
        add_cases_with(u, r, "{" FL_LAZY_MODE "=true}");
    add_case_of_slots(u, r);
    u->op.cases = u->cases;
}

/* --- all ------------------------------------------------------------------ */

static void make_op(update_op *u, const fl_rule *r)
{
    u->op = (fl_op){
        .name = r->name,
        .doc = keep(u, "%s. %s", r->doc, doc_of_rows(r)),
        .flags = FL_OP_TRAIN_ONLY | (r->whole ? FL_OP_WHOLE : 0),
        .infer = fl_update_infer,
        .run = fl_update_run,
    };
    add_slots(&u->op, r);
    add_attrs(u, r);
    add_cases(u, r);
}

/* By the number of the rule; those of programs may come at any time. */
static _Atomic(update_op *) made[UPDATES_MAX];

static update_op *make(size_t i)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    update_op *u;

    pthread_mutex_lock(&lock);
    u = atomic_load(&made[i]);
    if (!u) {
        u = fl_alloc(sizeof(*u));
        make_op(u, fl_rule_at(i));
        atomic_store(&made[i], u);
    }
    pthread_mutex_unlock(&lock);
    return u;
}

size_t fl_update_op_count(void)
{
    return fl_rule_count();
}

const fl_op *fl_update_op_at(size_t i)
{
    update_op *u;

    FL_ASSERT(i < UPDATES_MAX);
    u = atomic_load_explicit(&made[i], memory_order_acquire);
    return &(u ? u : make(i))->op;
}
