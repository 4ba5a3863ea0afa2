/* dist_startup.c - first values of dense parameters come from the servers.
 *
 * Their operators leave the startup program of the trainer, and one
 *
 *     recv () -> (Out=[all dense parameters])
 *
 * stands at its end, or before what reads one of them. Tables are still made by
 * init_table, which tells the backend what to expect.
 */
#include "pass/dist_kit.h"

static fl_status check_alone(const fl_op_node *maker, const fl_var *v)
{
    char text[FL_NODE_TEXT_MAX];
    int n_outs = 0;

    for (int s = 0; s < fl_node_n_out(maker); s++)
        n_outs += maker->out[s].n;
    if (n_outs > 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s of the startup program writes parameter %s, whose first "
                "value comes from the servers, and other variables; give them "
                "operators of their own",
                fl_node_text(maker, text), v->name);
    return FL_OK;
}

static fl_status remove_makers(const fl_dist *d, const fl_var *v)
{
    fl_block *b = fl_program_main(d->startup);
    fl_op_node *next;

    for (fl_op_node *n = b->first; n; n = next) {
        next = n->next;
        if (!fl_node_writes_var(n, v))
            continue;
        FL_TRY(check_alone(n, v));
        fl_block_remove(b, n);
    }
    return FL_OK;
}

static fl_status take_over(const fl_dist *d, const fl_dist_param *p)
{
    fl_block *b = fl_program_main(d->startup);
    fl_tensor meta = { .dtype = FL_DTYPE_F32, .shape = p->shape };
    fl_var *v = fl_block_find_var(b, p->name);

    if (!v)
        return fl_block_add_var(b, p->name, &meta, FL_VAR_PARAM, NULL);
    return remove_makers(d, v);
}

static bool reads_param(const fl_dist *d, const fl_op_node *n)
{
    const fl_block *b = fl_program_main(d->startup);

    for (size_t i = 0; i < d->params.len; i++)
        if (fl_node_uses_var(n, fl_block_find_var(b, d->params.data[i].name)))
            return true;
    return false;
}

static fl_op_node *first_reader(const fl_dist *d)
{
    fl_op_node *n = fl_program_main(d->startup)->first;

    while (n && !reads_param(d, n))
        n = n->next;
    return n;
}

static fl_status startup_spread(fl_dist *d, bool *changed)
{
    if (!d->params.len || fl_dist_has_op(d->startup, "recv"))
        return FL_OK;
    *changed = true;
    for (size_t i = 0; i < d->params.len; i++)
        FL_TRY(take_over(d, &d->params.data[i]));
    return fl_dist_insert_recv(d, d->startup, first_reader(d));
}

const fl_pass fl_pass_dist_startup = {
    .name = "dist_startup",
    .doc = "receive first values of dense parameters instead of making them",
    .spread = startup_spread,
};
