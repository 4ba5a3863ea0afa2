/* dist_geo.c - parameters are handed over at the end of a batch.
 *
 * The trainer keeps its updates. Behind them stand
 *
 *     send (Param=w, X=w)        one per dense parameter
 *     send_barrier (X=[keys and gradients that were pushed])
 *
 * and what becomes of it, and in which batches, is the backend's to say.
 */
#include "pass/dist_kit.h"

static fl_status hand_over(fl_dist *d, const fl_var_list *pushed)
{
    for (size_t i = 0; i < d->params.len; i++) {
        const fl_dist_param *p = &d->params.data[i];
        const fl_var *w = fl_block_find_var(fl_program_main(d->main), p->name);

        FL_TRY(fl_dist_insert_send(d, w, w, NULL));
    }
    return fl_dist_append_barrier(d, pushed);
}

static fl_status geo_spread(fl_dist *d, bool *changed)
{
    fl_var_list pushed = { 0 };
    fl_status st = FL_OK;

    if (fl_dist_has_op(d->main, "send_barrier"))
        return FL_OK;
    fl_dist_pushed(d, &pushed);
    if (pushed.len || d->params.len) {
        st = hand_over(d, &pushed);
        *changed = true;
    }
    fl_vec_release(&pushed);
    return st;
}

const fl_pass fl_pass_dist_geo = {
    .name = "dist_geo",
    .doc = "hand parameters over at the end of a batch",
    .spread = geo_spread,
};
