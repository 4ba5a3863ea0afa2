/* dist_recv.c - a barrier behind the sends, fresh parameters behind it, and
 * averages of parameters behind these.
 *
 *     send_barrier (X=[everything that was pushed and sent])
 *     recv () -> (Out=[all dense parameters])
 *     moving_average (X=w, ..)
 *
 * The barrier lists what the backend may still look at, so that it lives until
 * then.
 */
#include "pass/dist_kit.h"

static void add_sent(const fl_dist *d, fl_var_list *out)
{
    for (const fl_op_node *n = fl_program_main(d->main)->first; n; n = n->next)
        if (fl_match_op(n, "send"))
            fl_var_list_add(out, fl_match_in(n, "X"));
}

static bool is_average(const fl_op_node *n)
{
    return fl_match_op(n, "moving_average") ||
           fl_match_op(n, "average_accumulates");
}

/* They take in what the update has made of the parameters. */
static void move_averages(fl_dist *d)
{
    fl_block *b = fl_program_main(d->main);
    fl_op_node *last = b->last, *next;

    for (fl_op_node *n = b->first; n != last; n = next) {
        next = n->next;
        if (is_average(n))
            fl_block_move(b, n, NULL);
    }
}

static fl_status append_both(fl_dist *d, const fl_var_list *handed)
{
    FL_TRY(fl_dist_append_barrier(d, handed));
    if (!d->params.len)
        return FL_OK;
    FL_TRY(fl_dist_insert_recv(d, d->main, NULL));
    move_averages(d);
    return FL_OK;
}

static fl_status recv_spread(fl_dist *d, bool *changed)
{
    fl_var_list handed = { 0 };
    fl_status st = FL_OK;

    if (fl_dist_has_op(d->main, "send_barrier"))
        return FL_OK;
    add_sent(d, &handed);
    fl_dist_pushed(d, &handed);
    if (handed.len) {
        st = append_both(d, &handed);
        *changed = true;
    }
    fl_vec_release(&handed);
    return st;
}

const fl_pass fl_pass_dist_recv = {
    .name = "dist_recv",
    .doc = "wait for the others behind the sends, and receive parameters",
    .spread = recv_spread,
};
