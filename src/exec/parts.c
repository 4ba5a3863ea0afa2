/* parts.c - which steps replicas run together and which each for itself.
 *
 * Each replica computes, and schedules too are computed by each. An update with
 * FL_OP_EACH (a push to a table) is made by every replica with its own
 * gradient; so is what stands between backward and such an update, if nothing
 * else needs it. The rest of the update runs once.
 *
 * Walks backwards: when a step is looked at, its readers are known.
 */
#include "exec/plan.h"

/* Who reads a variable, among the updates behind the step at hand. */
typedef struct readers {
    bool each, rest;
} readers;

static int count_out(const fl_plan_step *s)
{
    int n = 0;

    for (int slot = 0; slot < s->n_out; slot++)
        n += s->out_len[slot];
    return n;
}

static bool writes_scope(const fl_plan *p, const fl_plan_step *s)
{
    for (int i = count_out(s) - 1; i >= 0; i--)
        if (s->out[i] >= 0 && p->vars[s->out[i]].home == FL_HOME_SCOPE)
            return true;
    return false;
}

/* A schedule that writes into the scope is no business of each replica. */
static bool is_update(const fl_plan *p, const fl_plan_step *s)
{
    fl_op_role role = s->node->role;

    return role == FL_OP_ROLE_OPTIMIZE || role == FL_OP_ROLE_RPC ||
           (role == FL_OP_ROLE_LR && writes_scope(p, s));
}

/* Who reads what the step gives. Readers of an earlier value of the variable
   are others. */
static readers take_readers(const fl_plan_step *s, readers *by_var)
{
    readers found = { 0 };

    for (int i = count_out(s) - 1; i >= 0; i--) {
        int v = s->out[i];

        if (v < 0)
            continue;
        found.each |= by_var[v].each;
        found.rest |= by_var[v].rest;
        by_var[v] = (readers){ 0 };
    }
    return found;
}

/* An input that is only kept alive asks nothing of who made it. */
static void note_readers(const fl_plan_step *s, readers *by_var)
{
    int at = 0;

    for (int slot = 0; slot < s->n_in; slot++)
        for (int i = 0; i < s->in_len[slot]; i++, at++) {
            if (s->in[at] < 0 ||
                (fl_node_in_flags(s->node, slot) & FL_OP_SLOT_KEPT))
                continue;
            by_var[s->in[at]].each |= s->part == FL_PART_EACH;
            by_var[s->in[at]].rest |= s->part == FL_PART_UPDATE;
        }
}

/* Returns false when the step serves both kinds of updates. */
static bool choose_part(const fl_plan *p, fl_plan_step *s, readers r)
{
    unsigned flags = s->node->def->flags;
    bool update = is_update(p, s);

    s->part = update ? FL_PART_UPDATE : FL_PART_COMPUTE;
    if ((flags & FL_OP_EACH) || (update && r.each))
        s->part = FL_PART_EACH;
    if (flags & FL_OP_EACH)
        return true;
    return !(update && r.each &&
             (r.rest || (flags & FL_OP_EFFECT) || writes_scope(p, s)));
}

void fl_plan_parts(fl_plan *p)
{
    readers *by_var = fl_alloc(sizeof(*by_var) * ((size_t)p->n_vars + 1));

    p->mixed = -1;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        fl_plan_step *s = &p->steps[i];

        if (!choose_part(p, s, take_readers(s, by_var)))
            p->mixed = i;
        note_readers(s, by_var);
    }
    fl_free(by_var);
}

/* --- what crosses ------------------------------------------------------- */

static bool step_writes(const fl_plan_step *s, int var)
{
    int n = 0;

    for (int slot = 0; slot < s->n_out; slot++)
        n += s->out_len[slot];
    for (int k = 0; k < n; k++)
        if (s->out[k] == var)
            return true;
    return false;
}

/* Schedules give every replica, and every turn, the same. */
bool fl_plan_computes(const fl_plan *p, int var)
{
    for (int i = 0; i < p->n_steps; i++) {
        const fl_plan_step *s = &p->steps[i];

        if (s->part == FL_PART_COMPUTE && s->node->role != FL_OP_ROLE_LR &&
            step_writes(s, var))
            return true;
    }
    return false;
}

bool fl_plan_updates(const fl_plan *p, int var)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].part == FL_PART_UPDATE &&
            step_writes(&p->steps[i], var))
            return true;
    return false;
}

static bool step_reads(const fl_plan_step *s, int var)
{
    int at = 0;

    for (int slot = 0; slot < s->n_in; slot++)
        for (int k = 0; k < s->in_len[slot]; k++, at++)
            if (s->in[at] == var &&
                !(fl_node_in_flags(s->node, slot) & FL_OP_SLOT_KEPT))
                return true;
    return false;
}

static bool is_for_update(const fl_plan *p, int var)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].part == FL_PART_UPDATE && step_reads(&p->steps[i], var))
            return true;
    return false;
}

int fl_plan_crossing(const fl_plan *p, int *out)
{
    int n = 0;

    for (int i = 0; i < p->n_vars; i++)
        if (p->vars[i].home == FL_HOME_PLACE && fl_plan_computes(p, i) &&
            is_for_update(p, i))
            out[n++] = i;
    return n;
}

int fl_plan_grads(const fl_plan *p, int *out)
{
    int all = fl_plan_crossing(p, out), n = 0;

    for (int i = 0; i < all; i++)
        if (fl_dtype_is_float(p->vars[out[i]].var->meta.dtype))
            out[n++] = out[i];
    return n;
}

fl_status fl_plan_check_ordered(const fl_plan *p)
{
    char text[FL_NODE_TEXT_MAX];

    for (int i = 0; i < p->n_steps; i++)
        if ((p->steps[i].node->def->flags & FL_OP_ORDERED) &&
            p->steps[i].part != FL_PART_UPDATE)
            FL_FAIL(FL_ERR_INVAL,
                    "all workers run %s together, each of them once, and here "
                    "every thread or replica would: train with one of them per "
                    "worker",
                    fl_node_text(p->steps[i].node, text));
    return FL_OK;
}
