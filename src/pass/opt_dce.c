/* opt_dce.c - dead code elimination. Drops operators whose outputs nobody
 * reads and that have no effect, gradients that nobody reads, and temporaries
 * that nobody touches any more.
 * Keeps feeds: their order is part of the program's signature. */
#include "pass/match.h"
#include "pass/pass.h"

static void note_reads(const fl_op_node *n, fl_map *read)
{
    for (int s = 0; s < fl_node_n_in(n); s++)
        for (int i = 0; i < n->in[s].n; i++)
            if (n->in[s].vars[i])
                fl_map_put(read, n->in[s].vars[i]->name, n->in[s].vars[i]);
}

/* Reads that do not show in block 0. */
static void note_outside(const fl_program *p, fl_map *read)
{
    fl_block *b = fl_program_main(p);

    for (size_t i = 0; i < p->fetches.len; i++)
        fl_map_put(read, p->fetches.data[i], b);
    for (size_t i = 1; i < p->blocks.len; i++)
        for (const fl_op_node *n = p->blocks.data[i]->first; n; n = n->next)
            note_reads(n, read);
}

static bool is_wanted(const fl_var *v, const fl_map *read)
{
    return (v->flags & FL_VAR_PERSIST) || fl_map_find(read, v->name);
}

static bool any_wanted(const fl_args *a, const fl_map *read)
{
    for (int i = 0; i < a->n; i++)
        if (a->vars[i] && is_wanted(a->vars[i], read))
            return true;
    return false;
}

static bool is_dead(const fl_op_node *n, const fl_map *read)
{
    if (n->def->flags & FL_OP_EFFECT)
        return false;
    for (int s = 0; s < fl_node_n_out(n); s++)
        if (any_wanted(&n->out[s], read))
            return false;
    for (int s = 0; s < fl_node_n_in(n); s++)
        if (!n->is_grad && (n->def->in[s].flags & FL_OP_SLOT_STATE) &&
            any_wanted(&n->in[s], read))
            return false;
    return true;
}

static bool drop_temporaries(fl_block *b)
{
    const unsigned kept = FL_VAR_DATA | FL_VAR_PERSIST | FL_VAR_DECLARED;
    bool changed = false;
    fl_var *next;

    for (fl_var *v = b->first_var; v; v = next) {
        next = v->next;
        if ((v->flags & kept) || fl_match_touched(v) ||
            fl_program_is_fetched(b->program, v->name))
            continue;
        fl_block_remove_var(b, v);
        changed = true;
    }
    return changed;
}

/* An operator that gives some gradients need not give those nobody reads. */
static bool drop_gradients(fl_op_node *n, const fl_map *read)
{
    bool changed = false;

    for (int s = 0; n->is_grad && s < fl_node_n_out(n); s++)
        for (int i = 0; i < n->out[s].n; i++)
            if (n->out[s].vars[i] && !is_wanted(n->out[s].vars[i], read)) {
                fl_node_put_arg(n, &n->out[s], i, NULL);
                changed = true;
            }
    return changed;
}

/* Walks backwards so that a dead chain disappears in one sweep. */
static fl_status dce_run(fl_program *p, bool *changed)
{
    fl_block *b = fl_program_main(p);
    fl_map read = { 0 };
    fl_op_node *prev;

    note_outside(p, &read);
    for (fl_op_node *n = b->last; n; n = prev) {
        prev = n->prev;
        if (is_dead(n, &read)) {
            fl_block_remove(b, n);
            *changed = true;
        } else {
            *changed |= drop_gradients(n, &read);
            note_reads(n, &read);
        }
    }
    *changed |= drop_temporaries(b);
    fl_map_release(&read);
    return FL_OK;
}

const fl_pass fl_pass_opt_dce = {
    .name = "opt_dce",
    .doc = "drop operators nobody reads",
    .run = dce_run,
};
